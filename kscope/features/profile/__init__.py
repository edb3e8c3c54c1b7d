"""Code and counters together: who is to blame for a wait, what a set of instructions asks for."""
