"""The benchmark: is a candidate right, is it faster, and does it cheat.

`values` are results and numbers without I/O, `task` says what is asked of a candidate, `player` is the process that a
candidate lives in, `judge` makes inputs, holds the clock and decides, `session` runs the whole and keeps it.
A candidate's Python shares a process with nothing that decides: inputs, references, bounds and clocks are on the
judge's side of a socket. docs/bench.md has the threat model.
"""
