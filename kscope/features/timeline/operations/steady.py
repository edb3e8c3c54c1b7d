"""What happens once and what recurs: gaps of start-up and loading are shown, and no gain is computed from them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kscope.features.timeline.operations.steps import Steps
from kscope.model.columns import Column, combinations, different

_SHARE, _LEAST_NS, _MOST_NS = 0.05, 100_000, 1_000_000
"""A gap shorter than this share of the window, within these bounds, is not asked whether it recurs."""
_ALIKE = 4  # gaps of one cause that differ by this factor at most recur as one another
TIMES = 3
"""Gaps alike, or operations of one name, that make a recurrence where there are no steps to count."""
_RARE = 20  # of so many steps one gap is rare, two are not
_TOO_MANY = 500  # long gaps of one cause: they recur

LEAST_OPERATIONS = 16
"""GPU operations in the window from which on something can be said of what recurs."""


def once(
    length: Column,
    start: Column,
    cause: Column,
    device: Column,
    asked: NDArray[np.bool_],
    steps: Steps | None,
    span: int,
) -> NDArray[np.bool_]:
    """Which gaps happened once: long ones (of the causes `asked`) without one alike in another step or, where there
    are no steps, without two others on their device. Times in ns."""
    out = np.zeros(len(length), dtype=bool)
    least = min(max(_SHARE * span, _LEAST_NS), _MOST_NS)
    long = np.flatnonzero(asked & (length >= least))
    if not len(long):
        return out
    step = np.searchsorted(steps.begin, start, side="right") - 1 if steps is not None else None
    need = TIMES if steps is None or steps.periodic else 2 + (len(steps.start) - 1) // _RARE
    for key in combinations(cause[long], device[long]):
        mine = long[(cause[long] == key[0]) & (device[long] == key[1])]
        if len(mine) > _TOO_MANY:
            continue
        others = np.flatnonzero((cause == key[0]) & (device == key[1]) & (length >= least / _ALIKE))
        for gap in mine.tolist():
            alike = others[length[others] * _ALIKE >= length[gap]]
            times = len(alike) if step is None else len(different(step[alike]))
            out[gap] = times < need
    return out
