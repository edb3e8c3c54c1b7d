"""One slice of L2 that works while the others idle: the queue at the few addresses that it holds."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kscope.features.counters.units import APART, FULL, SLICE, SLICES, Unit, busiest
from kscope.model.kernel import Metrics

HOT = 0.5  # sectors a cycle of one L2 slice from which atomics fill it: it serves one a cycle at most, two of loads
UNEVEN = 2.0  # times the average slice's sectors from which a slice is the hot one
ALONE = 8.0  # the same, from which it works all but alone; SERVED sectors a cycle of it are its limit then: adding
SERVED = 0.3  # floats to one address takes several cycles each (0.46 in a public kernel whose repair brought 64x)
IDLE = 0.3  # load of the fullest unit below which nothing but the queue is left to explain the time
MANY = 0.1  # of all L2 sectors are atomics, from which these make the slice hot


def hot_slice(metrics: Metrics, units: Mapping[str, Unit]) -> float | None:
    """Sectors of the busiest L2 slice over the average slice's, or requests, where atomics keep that one slice busy;
    None elsewhere and where slices were not counted."""
    most, every = metrics.get("lts__t_sectors.max"), metrics.get("lts__t_sectors.sum")
    mean, cycles = metrics.get("lts__t_sectors.avg"), metrics.get("lts__cycles_elapsed.max")
    if not most or not mean or not cycles or not every:
        return None
    atomic = sum(metrics.get(f"lts__t_sectors_srcunit_tex_op_{op}.sum") or 0.0 for op in ("red", "atom"))
    full = most > (SERVED if most > ALONE * mean and nothing_busy(units) else HOT) * cycles
    if atomic <= MANY * every:
        return None
    asked, asked_mean = metrics.get(SLICE) or 0.0, metrics.get(SLICES)
    if asked_mean and asked >= max(100 * FULL, APART * asked_mean):  # a reduction of a lane is a request of its own
        return asked / asked_mean
    return most / mean if full and most > UNEVEN * mean else None


def beyond_mean(metrics: Metrics) -> float:
    """Share of the requests of the L2 slice that is asked most which are beyond the mean slice's, 0..1."""
    most, mean = metrics.get(SLICE), metrics.get(SLICES)
    return max(0.0, 1 - mean / most) if most and mean is not None else 0.0


def nothing_busy(units: Mapping[str, Unit]) -> bool:
    """No unit works for long, as an average of all of its kind."""
    unit = busiest(units)
    return unit is None or unit.load < IDLE


def places(metrics: Metrics) -> float | None:
    """Sectors that atomics go to, at least about, from how evenly the slices of L2 are loaded: S sectors that are used
    alike and dealt to n slices by a hash leave the fullest one (1 + z / sqrt(S / n)) times the mean's, z the largest of
    n normal numbers. What else L2 serves is taken as even. None where slices were not counted, or atomics are too few
    of what they serve to tell.

    Source: derived; 64,000 for the 116,400 sectors of a public kernel's maps, 155 for a histogram of few bins."""
    most, mean = metrics.get("lts__t_sectors.max"), metrics.get("lts__t_sectors.avg")
    every = metrics.get("lts__t_sectors.sum")
    if not most or not mean or not every:
        return None
    share = sum(metrics.get(f"lts__t_sectors_srcunit_tex_op_{op}.sum") or 0.0 for op in ("red", "atom")) / every
    slices = every / mean
    if share <= MANY or slices < 2:
        return None
    beyond = (most / mean - 1) / share
    far = math.sqrt(2 * math.log(slices))
    largest = far - (math.log(math.log(slices)) + math.log(4 * math.pi)) / (2 * far)
    return slices * (largest / beyond) ** 2 if beyond > 0 else math.inf
