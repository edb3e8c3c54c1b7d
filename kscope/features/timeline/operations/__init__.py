"""What ran, and who launched it: operations, launches, steps, kinds of kernels, the cost of recording."""
