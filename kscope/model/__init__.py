"""Plain frozen values, no I/O. Nothing here imports another kscope layer."""
