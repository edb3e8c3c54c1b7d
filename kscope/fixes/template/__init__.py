"""Other instances of a kernel's template: which give the same results, and which of them are worth a launch."""
