"""Files as people have them: found, unpacked within a bound, refused; the container of an Nsight Compute report."""
