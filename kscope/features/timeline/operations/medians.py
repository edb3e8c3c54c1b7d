"""The median of long columns."""

from __future__ import annotations

import numpy as np

from kscope.model.columns import Column

_MANY, _SAMPLE = 100_000, 10_000


def median(values: Column) -> float:
    """numpy.median, of long columns in half the time: what a sample says is too low or too high is only counted."""
    size = len(values)
    if size < _MANY:
        return float(np.median(values))
    sample = np.sort(values[:: size // _SAMPLE])
    low, high = sample[int(0.45 * len(sample))], sample[int(0.55 * len(sample))]
    below, near = int((values < low).sum()), values[(values >= low) & (values <= high)]
    first, second = (size - 1) // 2 - below, size // 2 - below  # the middle, among those that are near
    if first < 0 or second >= len(near):
        return float(np.median(values))
    if low == high:
        return float(low)
    near = np.partition(near, [first, second])
    return (int(near[first]) + int(near[second])) / 2
