"""Estimates before a line is written: what a problem must move and compute, and how long a chip needs for it at least.

`problem` and `operations` say what an operation needs, `roofs` what a chip gives, `estimate` puts them together;
`tiles`, `sweep` and `measured` answer what a tile moves, where the regime changes and what explains a measured time.
kscope.engine.kernels.problem compares a profiled kernel with the problem that it was to solve.
"""
