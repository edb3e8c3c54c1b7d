"""Rules on warp-specialised and asynchronous kernels."""
