"""What follows from a kernel's counters: how full units are, stalls, launch, occupancy, traffic."""
