"""What a program gains when parts of its time go away, and what is changed about an estimate afterwards.

Estimates of one kernel are made by `bounds`; every other Estimate is made here."""

from __future__ import annotations

import math
from typing import Literal

from msgspec import structs

from kscope.model.contract.analysis import Estimate

BEYOND = 1.5  # times the share of a part, that it may be at most (judged, on the one time that was beyond it)
UNSEEN = "units that were not collected"


def of_program(
    removed: float, low: float, high: float, capped_by: str, kind: Literal["measured", "modelled"] = "modelled"
) -> Estimate:
    """The speed-up of a program when these shares of its window (0..1) go away: expected, at least, at most."""
    point = speedup(removed)
    return Estimate(
        speedup=point, low=min(speedup(low), point), high=max(speedup(high), point), capped_by=capped_by, kind=kind
    )


def speedup(removed: float) -> float:
    """1 / (1 - removed), at most a thousand, three digits."""
    return round(1 / max(1 - min(max(removed, 0.0), 0.999), 1e-3), 3)


def of_part(estimate: Estimate, share: float) -> Estimate:
    """What a change brings that takes this share (0..1) of the time that an estimate takes. A least of less than
    nothing stays, for what it allows is noise and what goes the other way; the most is that of half as much again, for
    shares of instructions are not those of time (1.74x was measured where 1.46x was the most)."""
    part = min(max(share, 0.0), 1.0)
    low, point, high = (speedup((1 - 1 / max(1.0, end)) * by) for end, by in (
        (estimate.low, part), (estimate.speedup, part), (estimate.high, min(1.0, BEYOND * part))
    ))  # fmt: skip
    low = min(estimate.low, low)
    return structs.replace(estimate, speedup=point, low=min(low, point), high=max(high, point))


def of_new_time(before_us: float, after_us: float, within: float, capped_by: str) -> Estimate:
    """What a kernel brings whose time is modelled by itself, not by what the old one waits for; within: times the
    expected time, either way."""
    point = before_us / max(after_us, 1e-3)
    return Estimate(speedup=round(point, 3), low=round(point / within, 3), high=round(point * within, 3),
                    capped_by=capped_by, kind="modelled")  # fmt: skip


def expected_at_most(estimate: Estimate, most: float, *, strictly: bool = False) -> Estimate:
    """The same, its expected gain no more than so many times (as many pieces as work is cut into), its ends kept.
    strictly: the upper end is no more, either, where it is not the whole's expected gain."""
    point = min(estimate.speedup, most)
    high = min(estimate.high, max(estimate.speedup, most)) if strictly else estimate.high
    return structs.replace(estimate, speedup=point, low=min(estimate.low, point), high=max(point, high))


def no_higher(estimate: Estimate, roof: float, noise: float) -> Estimate:
    """The same, its upper end no higher than a roof's speed-up allows, but never below the expected one and the noise
    of a measurement (a share of the time)."""
    return structs.replace(estimate, high=min(estimate.high, round(max(estimate.speedup * (1 + noise), roof), 3)))


def up_to(estimate: Estimate, best: Estimate) -> Estimate:
    """The same, with the best case of another as its upper end where that is higher, and what that relieves."""
    return structs.replace(estimate, high=max(best.high, estimate.high), relieves=best.relieves)


def between(estimate: Estimate, *, low: Estimate | None = None, high: Estimate | None = None) -> Estimate:
    """The same, its ends those of others."""
    low, high = low or estimate, high or estimate
    return structs.replace(estimate, low=low.low, high=high.high)


def give_or_take(estimate: Estimate, error: float) -> Estimate:
    """The same with both ends moved by a relative error (0..1 and more) of what they save."""
    low, high = (1 - 1 / max(end, 1.0) for end in (estimate.low, estimate.high))
    least, most = low * max(0.0, 1 - error), min(high * (1 + error), (1 + high) / 2)
    return structs.replace(
        estimate, low=min(speedup(least), estimate.low), high=max(speedup(most), estimate.high)
    )


def uncapped(estimate: Estimate, noise: float, *, told: bool = True) -> Estimate:
    """The same where no unit was collected that could cap it: from nothing to all of it, and between them the middle of
    their logarithms, the point that is as far from both. noise: of a measurement, a share of the
    time. told: False where nothing in the report says that there is a gain at all: then the point is none."""
    point = round(math.sqrt(max(1.0, estimate.speedup)), 3) if told else 1.0
    low, high = round(1 / (1 + noise), 3), round(max(estimate.speedup, point * (1 + noise)), 3)
    return structs.replace(estimate, speedup=point, low=low, capped_by=UNSEEN, high=high)
