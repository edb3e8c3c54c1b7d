"""One kernel to its KernelAnalysis: measured under which circumstances, how much is left, what is unexplained."""
