"""Per-instruction values as plain lists. A kernel has tens to thousands of instructions: importing numpy would take
longer than all that is computed with them."""

from __future__ import annotations

from collections.abc import Iterable

Column = list[float]
"""One value an instruction, in program order."""


def total(column: Column, indices: Iterable[int] | None = None) -> float:
    """Sum over some instructions, over all if none are named."""
    return sum(column if indices is None else map(column.__getitem__, indices), 0.0)


def largest(column: Column) -> list[int]:
    """Indices of the values above zero, largest first; equal ones in program order."""
    return sorted((i for i, x in enumerate(column) if x > 0), key=lambda i: -column[i])
