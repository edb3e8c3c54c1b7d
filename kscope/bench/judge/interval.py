"""A ratio of paired times with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kscope.bench.values.result import Word

Z = 1.96  # 95 %
MARGIN = 0.01
"""What is called a difference: the same code in two processes differs for good (addresses, pages), which no number of
rounds averages out. Judged; tools/bench_truth.py is there to measure it."""


class Ratio(Struct, frozen=True):
    """Baseline over candidate: above 1 the candidate is faster."""

    value: float
    low: float
    high: float

    @property
    def noise_pct(self) -> float:
        return 100 * (self.high - self.low) / 2 / self.value

    @property
    def word(self) -> Word:
        if self.low > 1 + MARGIN:
            return "faster"
        if self.high < 1 / (1 + MARGIN):
            return "slower"
        return "inconclusive"


def ratio(baseline: Sequence[float], candidate: Sequence[float]) -> Ratio:
    """Hodges and Lehmann's estimate of the logarithm of the ratio with Wilcoxon's interval (normal approximation;
    Hollander, Wolfe, Nonparametric Statistical Methods, 3.2-3.3): rounds are pairs, one disturbed round moves little.
    Below six rounds the interval is the range."""
    found = np.log(np.asarray(baseline) / np.asarray(candidate))
    n = len(found)
    i, j = np.triu_indices(n)
    averages = np.sort((found[i] + found[j]) / 2)
    middle = float(np.median(averages))
    count = len(averages)
    if n < 6:
        return Ratio(math.exp(middle), math.exp(float(averages[0])), math.exp(float(averages[-1])))
    deviation = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    k = max(int(count / 2 - Z * deviation), 0)
    return Ratio(math.exp(middle), math.exp(float(averages[k])), math.exp(float(averages[count - 1 - k])))
