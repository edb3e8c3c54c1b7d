"""Phases of a kernel from the timeline of the unit that does its work: fill, steady with bubbles, drain.

The plateau is the level that the unit holds when nothing stops it: the median of the bins near the highest ones. Work
done before the plateau is reached would have taken area / plateau at that level; what the kernel took longer is the
fill, likewise the drain. That resolves both to a fraction of a bin, and bubbles further on do not move them (a line
through the cumulative activity, whose slope contains the bubbles, would be tilted by them). A bubble is a run of bins
below the plateau by more than the plateau's own noise; its length is the work that is missing, over the plateau.

Clock: `sm__cycles_active` of the same pass says when SMs have work, also within the first and the last bin. Bins are
1.5 us where the interval was not set; a kernel of fewer than ten of them is not resolved. The SM clock falls when the
tensor pipe works (H200: 1.98 GHz in the fill and the drain, 1.6 GHz in between): shares to compare with warp samples
and counters are shares of cycles, not of time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.arch import table
from kscope.model.kernel import Timelines

RESOLVED = 10  # bins with work from which phases are told
BEGUN = 0.5  # of the plateau: the first and the last bin that has as much bound the steady phase
NEAR = 0.9  # of the plateau: bins from here on count as reached
SMALL = 0.2  # bins of lost work: less is the noise of the series
DEEP = 0.05  # of the plateau: shallower dips are not called bubbles
SERIES = {
    "tensor": ("sm__pipe_tc_cycles_active", "sm__pipe_tensor_cycles_active"),
    "dram": ("dramc__throughput", "dram__throughput"),
    "l2": ("lts__throughput",),
}
ACTIVE = "sm__cycles_active.avg"
ERROR = 0.7  # bins: the series of one unit and of SM activity are averages over a bin each, and launches differ
POINTS = 64  # of a series that reports draw
SILENT = 0.002  # of the most cycles in a bin, below which no SM works: counters of other contexts tick
STEADY = 0.06  # spread of the cycles a bin over their median, within which the clock is constant
EARLY = 0.97  # of the busiest SM's cycles: where one has less, SMs leave before the end


class Line(Struct, frozen=True):
    """One unit's activity, a share of its peak a bin (0..1), over the bins in which SMs have work."""

    unit: str
    metric: str
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values) if self.values else 0.0


class Bubble(Struct, frozen=True):
    """start: us from the first work; lost: us of the unit's plateau that are missing."""

    start: float
    lost: float


class Phases(Struct, frozen=True):
    """Times in us. `active`: mean time that an SM has work; `busy`: the unit's work at its plateau level; `level`: the
    plateau, a share of peak; `attainable`: the plateau that kernels reach; `error`: by how much fill and drain may be
    off; `resolved`: enough bins to tell; `filling`, `draining`: fill and drain as shares of the SMs' cycles."""

    unit: str
    bin: float
    active: float
    fill: float
    steady: float
    drain: float
    level: float
    attainable: float
    busy: float
    bubbles: tuple[Bubble, ...]
    error: float
    resolved: bool
    filling: float
    draining: float

    @property
    def mean(self) -> float:
        """Activity of the unit in the steady phase, bubbles included, a share of peak."""
        return self.level * min(1.0, self.busy / self.steady) if self.steady > 0 else 0.0

    @property
    def lost(self) -> float:
        """us of the plateau's work that bubbles cost."""
        return sum(b.lost for b in self.bubbles)

    @property
    def period(self) -> float | None:
        """Mean distance between bubbles in us."""
        if len(self.bubbles) < 2:
            return None
        return (self.bubbles[-1].start - self.bubbles[0].start) / (len(self.bubbles) - 1)


class Activity(Struct, frozen=True):
    """The timelines of one launch on one clock. `bin` in us; `full`: share of each bin in which SMs have work, 0..1
    (their mean); `cycles`: of an SM with work in each bin (mean of all SMs); `lines` by unit."""

    bin: float
    full: tuple[float, ...]
    cycles: tuple[float, ...]
    lines: dict[str, Line]

    @property
    def active(self) -> float:
        """us that an SM has work, their mean."""
        return self.bin * sum(self.full)

    @property
    def span(self) -> float:
        """us from the first block's begin to the last one's end."""
        return (
            self.bin * (len(self.full) - 2 + self.full[0] + min(1.0, self.full[-1]))
            if len(self.full) > 2
            else self.active
        )


def activity(
    timelines: Timelines | None, metrics: Mapping[str, float] | None = None, used: float = 1.0
) -> Activity | None:
    """The series of one pass that say when SMs work and how busy the units are; None where there are none. `metrics` of
    the kernel (sm__cycles_active mean, least and most) tell how many SMs have left towards the end: the series alone
    cannot, since the clock moves with power. `used`: share of the SMs that get a block at all; what a series of the SMs
    shows is the mean over all of them."""
    if timelines is None:
        return None
    clock = next((n for n in timelines.by_name if ACTIVE in n and n.startswith(("TPC", "pmsampling"))), None)
    if clock is None or len(timelines.times[clock]) < 3:
        return None
    times, cycles = timelines.times[clock], timelines.by_name[clock]
    width = (times[-1] - times[0]) / (len(times) - 1) / 1000
    first = next((i for i, c in enumerate(cycles) if c > 0), None)
    last = max((i for i, c in enumerate(cycles) if c > SILENT * max(cycles)), default=0)
    if first is None or width <= 0:
        return None
    full = _full(cycles[first : last + 1], metrics or {} if used >= 1 else {})
    lines = {}
    for unit, stems in SERIES.items():
        name = _named(timelines, stems)
        if name is not None and len(timelines.by_name[name]) > last:
            scale = 100 * used if unit == "tensor" else 100
            share = [min(1.0, v / scale) for v in timelines.by_name[name][first : last + 1]]
            lines[unit] = Line(unit, name, tuple(share))
    return Activity(width, full, tuple(cycles[first : last + 1]), lines)


def _named(timelines: Timelines, stems: Sequence[str]) -> str | None:
    """The whole unit's series, not that of one data type."""
    names = [n for n in timelines.by_name if "dmma" not in n and "_op_" not in n and "subpipe" not in n]
    return next((n for stem in stems for n in names if stem in n), None)


def _full(cycles: Sequence[float], metrics: Mapping[str, float]) -> tuple[float, ...]:
    """Share of the SMs that have work in each bin. The first and the last bin are partial; SMs that got less work leave
    before the end, as many and as early as the spread of sm__cycles_active says."""
    width = len(cycles)
    shares = [
        min(1.0, c / max(cycles[max(0, i - 1) : i + 2])) if i in (0, width - 1) else 1.0 for i, c in enumerate(cycles)
    ]
    if width > 3:
        shares[0] = min(1.0, cycles[0] / max(cycles[1], cycles[2], 1.0))
        shares[-1] = min(1.0, cycles[-1] / max(cycles[-3], 1.0))
        shares[-2] = min(1.0, cycles[-2] / max(cycles[-4 if width > 4 else -3], cycles[-3], 1.0))
    mean, most, least = (metrics.get(f"sm__cycles_active.{w}") for w in ("avg", "max", "min"))
    if mean is None or most is None or least is None or most <= 0 or least > EARLY * most:
        return tuple(shares)
    leaves = max(2, int(least / most * sum(shares)))
    body = sorted(cycles[2 : max(leaves, 3)])
    usual = body[len(body) // 2]
    if body[-1] - body[0] < STEADY * usual:  # the clock does not move: the series itself counts the SMs
        return tuple(s * min(1.0, c / usual) if i >= leaves and i < width - 2 else s
                     for i, (s, c) in enumerate(zip(shares, cycles, strict=True)))  # fmt: skip
    gone = min(0.9, (most - mean) / (most - least))
    return tuple(s * (1 - gone) if i >= leaves and i < width - 2 else s for i, s in enumerate(shares))


def phases(activity: Activity, unit: str) -> Phases | None:
    """The phases of one unit's work; None where the unit was not sampled or did nothing."""
    line = activity.lines.get(unit)
    if line is None or not line.values or max(line.values) < 0.01:
        return None
    values, width = line.values, activity.bin
    level = _plateau(values)
    full = activity.full
    reached = [i for i, v in enumerate(values) if v >= BEGUN * level * full[i] and v > 0]
    first, last = reached[0], reached[-1]
    before = sum(activity.full[: first + 1]) * width - sum(values[: first + 1]) * width / level
    after = sum(activity.full[last:]) * width - sum(values[last:]) * width / level
    active = activity.active
    fill, drain = max(0.0, before), max(0.0, after)
    steady = max(0.0, active - fill - drain)
    bubbles = _bubbles(values, full, first + 1, last - 1, level, width, fill)
    return Phases(
        unit=unit,
        bin=width,
        active=active,
        fill=fill,
        steady=steady,
        drain=drain,
        level=level,
        attainable=plateau_of(unit),
        busy=sum(values) * width / level,
        bubbles=bubbles,
        error=ERROR * width,
        resolved=len(values) >= RESOLVED and last - first >= 3,
        filling=_idle(activity, values, level, range(first + 1)),
        draining=_idle(activity, values, level, range(last, len(values))),
    )


def _idle(activity: Activity, values: Sequence[float], level: float, bins: range) -> float:
    """Cycles in some bins in which the unit does not work at its plateau, a share of all cycles with work."""
    every, lost = sum(activity.cycles), 0.0
    for i in bins:
        elapsed = activity.cycles[i] / activity.full[i] if activity.full[i] else 0.0
        lost += activity.cycles[i] - min(activity.cycles[i], values[i] / level * elapsed)
    return max(0.0, lost / every) if every else 0.0


def plateau_of(unit: str) -> float:
    """The level that a unit holds in kernels that keep it busy, a share of its peak."""
    spec = table("units").get(unit, {})
    return float(spec.get("plateau", spec.get("attainable", 1.0)))


def _plateau(values: Sequence[float]) -> float:
    """The level of the bins near the highest ones: the median of those within a tenth of the 95th percentile."""
    ordered = sorted(values)
    high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    near = [v for v in ordered if v >= NEAR * high]
    return max(near[len(near) // 2], 1e-6)


def _bubbles(
    values: Sequence[float], full: Sequence[float], first: int, last: int, level: float, width: float, fill: float
) -> tuple[Bubble, ...]:
    """Runs of bins below the plateau between its first and last full bin, by more than the others' noise. Where SMs
    have left, the plateau is that of those that stay."""
    missing = {i: level * full[i] - values[i] for i in range(first, last + 1)}
    upper = sorted(m for i, m in missing.items() if values[i] >= NEAR * level * full[i])
    noise = upper[int(0.9 * (len(upper) - 1))] if upper else 0.0
    depth = max(DEEP * level, 2 * max(0.0, noise))
    out, i = [], first
    while i <= last:
        if missing[i] <= depth:
            i += 1
            continue
        start = i
        while i <= last and missing[i] > depth:
            i += 1
        # The shoulders: a bubble that begins within a bin takes a part of it.
        low, high = max(first, start - 1), min(last, i)
        lost = sum(max(0.0, missing[j]) for j in range(low, high + 1)) * width / level
        if lost >= SMALL * width:
            out.append(Bubble(round((start - first) * width + fill, 3), round(lost, 3)))
    return tuple(out)


def drawn(line: Line, points: int = POINTS) -> tuple[float, ...]:
    """A series thinned to at most `points`, the mean of each stretch (its lowest value where that is below half)."""
    values = line.values
    if len(values) <= points:
        return tuple(round(v, 3) for v in values)
    out = []
    for p in range(points):
        part = values[p * len(values) // points : max((p + 1) * len(values) // points, p * len(values) // points + 1)]
        mean = sum(part) / len(part)
        out.append(round(min(part) if min(part) < mean / 2 else mean, 3))
    return tuple(out)
