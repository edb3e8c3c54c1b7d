"""From input files to kernels: readers started ahead, work shared among processes, code parsed once a report."""
