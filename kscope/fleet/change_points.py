"""When a series of times changed its level. Candidates come of binary segmentation (Scott and Knott, 1974) on
logarithms: wherever two sides differ by more than the scatter from run to run. Then each is held against its neighbours
by Student's t test, with the scatter within all levels together, and the weakest goes until all that are left are sure;
p is multiplied by the number of places where a change could have been (Bonferroni)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median, variance

from msgspec import Struct

LEAST = 3  # runs on each side: two slow nights are a coincidence of a machine, three are a level. Judged.
EFFECT = 0.05
"""Least change of the median that is worth telling. Judged: profiled times of one kernel on one machine scatter by 1 %
and clocks move them by some more."""
SURE = 3.0  # standard errors from which on a change is looked at closer; what is sure is said by CHANCE. Judged.
NORMAL = 1.4826  # a normal distribution's standard deviation to the median of its distances from the middle
CHANCE = 1e-4
"""Chance of a change that is none, of one series: of a fleet of a thousand series one in ten reports shows one."""


class Change(Struct, frozen=True):
    """at: index of the first run after it. ratio: of the medians, after to before."""

    at: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        return self.after / self.before


def changes(times: Sequence[float], effect: float = EFFECT, chance: float = CHANCE) -> list[Change]:
    """Changes of level in positive times, in order; `before` and `after` are medians of the levels beside them."""
    logs = [math.log(t) for t in times]
    cuts = sorted(_candidates(logs, math.log1p(effect)))
    while cuts:
        at, doubt = max(zip(cuts, _doubts(logs, cuts, math.log1p(effect)), strict=True), key=lambda pair: pair[1])
        if doubt * len(logs) <= chance:
            break
        cuts.remove(at)
    bounds = [0, *cuts, len(logs)]
    levels = [median(times[a:b]) for a, b in pairwise(bounds)] if logs else []
    return [Change(at, levels[i], levels[i + 1]) for i, at in enumerate(cuts)]


def _candidates(logs: Sequence[float], effect: float) -> list[int]:
    """Where levels may change: more than `effect`, and than SURE times the scatter between neighbours, which changes of
    level do not touch (the median of the steps)."""
    steps = [abs(b - a) for a, b in pairwise(logs)]
    scatter = NORMAL * median(steps) / math.sqrt(2) if steps else 0.0
    out: list[int] = []
    work = [(0, len(logs))]
    while work:
        a, b = work.pop()
        at = _best(logs, a, b)
        if at is None:
            continue
        gap = abs(fmean(logs[a:at]) - fmean(logs[at:b]))
        if gap >= effect / 2 and gap >= SURE * scatter * math.sqrt(1 / (at - a) + 1 / (b - at)):
            out.append(at)
            work += [(a, at), (at, b)]
    return out


def _best(logs: Sequence[float], a: int, b: int) -> int | None:
    """Where the means of both sides differ most for the number of runs on them (least squares)."""
    total, left, count = sum(logs[a:b]), 0.0, 0
    best, place = -1.0, None
    for at in range(a + 1, b):
        left += logs[at - 1]
        count += 1
        rest = b - a - count
        if count < LEAST or rest < LEAST:
            continue
        gap = left / count - (total - left) / rest
        score = gap * gap * count * rest / (b - a)
        if score > best:
            best, place = score, at
    return place


def _doubts(logs: Sequence[float], cuts: Sequence[int], effect: float) -> list[float]:
    """Of each change the chance that it is none, by the levels beside it; 1 where these differ too little to tell."""
    levels = [logs[a:b] for a, b in pairwise([0, *cuts, len(logs)])]
    freedom = len(logs) - len(levels)
    within = sum((len(one) - 1) * variance(one) for one in levels) / freedom
    return [
        student(left, right, within, freedom) if abs(median(right) - median(left)) >= effect else 1.0
        for left, right in pairwise(levels)
    ]


def student(left: Sequence[float], right: Sequence[float], within: float, freedom: int) -> float:
    """Two-sided p of a t test of two means, with the variance `within` samples and its degrees of freedom."""
    gap = abs(fmean(left) - fmean(right))
    if within <= 1e-30:
        return 0.0 if gap > 1e-12 else 1.0
    t2 = gap * gap / (within * (1 / len(left) + 1 / len(right)))
    return _beta(freedom / (freedom + t2), freedom / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function (continued fraction by Lentz's method, Press et al., Numerical Recipes,
    6.4)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    tiny = 1e-300
    c, d = 1.0, 1 / max(abs(1 - (a + b) * x / (a + 1)), tiny)
    h = d
    for m in range(1, 300):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + step * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + step / c
            c = c if abs(c) > tiny else tiny
            h *= d * c
        if abs(d * c - 1) < 1e-12:
            break
    return front * h / a
