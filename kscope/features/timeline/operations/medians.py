"""Medians and quantiles of columns without NaN. Those of numpy import all of numpy.ma."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MANY, _SAMPLE = 100_000, 10_000


def quantile(values: NDArray[Any], share: float) -> float:
    """numpy.quantile: between two values as far as the share (0..1) lies between them. Of one value at least."""
    at = share * (len(values) - 1)
    first = int(at)
    second = min(first + 1, len(values) - 1)
    near = np.partition(values, [first, second])
    low, high, part = float(near[first]), float(near[second]), at - first
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)


def _middle(values: NDArray[Any]) -> float:
    size = len(values)
    if not size:
        return float("nan")
    first, second = (size - 1) // 2, size // 2
    near = np.partition(values, [first, second])
    return (float(near[first]) + float(near[second])) / 2


def median(values: NDArray[Any]) -> float:
    """numpy.median, NaN of nothing. Of long columns what a sample says is too low or too high is only counted."""
    size = len(values)
    if size < _MANY:
        return _middle(values)
    sample = np.sort(values[:: size // _SAMPLE])
    low, high = sample[int(0.45 * len(sample))], sample[int(0.55 * len(sample))]
    below, near = int((values < low).sum()), values[(values >= low) & (values <= high)]
    first, second = (size - 1) // 2 - below, size // 2 - below  # the middle, among those that are near
    if first < 0 or second >= len(near):
        return _middle(values)
    if low == high:
        return float(low)
    near = np.partition(near, [first, second])
    return (float(near[first]) + float(near[second])) / 2
