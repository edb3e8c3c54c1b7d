"""Charts of one kernel: roofs by memory level, occupancy steps, PM-sampled series.

Roofs of L2 and L1 are those of Nsight Compute's own hierarchical rooflines (SpeedOfLight_Hierarchical*RooflineChart):
L2 by the cycles of its crossbar port, L1 by the write-back of loads, each times its width in bytes. Stores and bulk
copies (TMA), which write back nothing, are added to L1: without them its dot stands where no kernel is.

A page has one figure for how full a unit is: that of the counters over the whole kernel (`Facts.counters.units`). Bytes
show it only where bytes are what fills the unit: 32 rounds for a request of 128 bytes fill L1 while next to nothing
moves. So each level carries the busy share, and where its bytes are less of the peak than EXPLAINED of that, the roof
drawn is what the kernel would move if it did nothing but this at full load: the dot stands below it by the busy share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kscope.features.counters.traffic import SECTOR
from kscope.features.counters.units import Unit
from kscope.features.facts import Facts
from kscope.features.specialized.phases import BEGUN, DEEP, Activity, Phases
from kscope.model.contract.detail import (
    Ceiling,
    Level,
    OccupancyDetail,
    PmDetail,
    Roofs,
    Series,
    Steps,
)

BINS = 400
L2_BYTES, L1_BYTES = 32, 128  # a crossbar port a cycle, write-back of one SM a cycle
LEAST_BINS = 4
EXPLAINED = 0.9
"""Share of a unit's busy share that its bytes must reach for the byte roof to be the one that it hits: counters of one
unit differ by a few percent in our captures where they count the same. Judged."""
PARTIAL = 0.8
"""Mean of a sampled series below this share of the counters' figure: the sampler has no counter for all that the unit
does (L2's internal work: exactly half of it in tma_scale, staged_copy and bank_conflict). Judged on these."""
SLACK = 0.02  # of a bin: samples are a few nanoseconds off their raster, and each belongs into a bin of its own

_TITLES = (
    ("sm__cycles_active", "SM active"), ("pipe_tensor_cycles_active", "tensor pipe"), ("pipe_fma_", "FMA pipe"),
    ("pipe_alu_", "ALU pipe"), ("pipe_fp64", "FP64 pipe"), ("pipe_xu", "XU pipe"),
    ("sm__inst_executed_realtime", "issue slots"), ("mem_tensor", "TMEM"), ("l1tex__throughput", "L1"),
    ("lts__throughput", "L2"), ("dramc__throughput", "device memory"), ("dram__throughput", "device memory"),
)  # fmt: skip


def roofs(facts: Facts) -> Roofs | None:
    """None where the report has neither traffic nor operations."""
    point, m = facts.counters.roofline, facts.kernel.metrics
    if point is None:
        return None
    seconds = (facts.kernel.duration_ns or 0.0) / 1e9
    levels: list[Level] = []

    def level(name: str, moved: float | None, width: float | None, clock: float | None) -> None:
        if moved and seconds:
            peak = width * clock if width and clock else None
            levels.append(_level(name, moved / seconds, peak, facts.counters.units.get(name.lower())))

    writeback = m.get("l1tex__lsu_writeback_active_mem_lgds.sum")
    stored = m.total(*(f"l1tex__t_sectors_pipe_lsu_mem_{space}_op_st.sum" for space in ("global", "local"))) * SECTOR
    level(
        "L1", (writeback or 0.0) * L1_BYTES + stored + facts.counters.traffic.tma_bytes,
        m.get("derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained"),
        m.get("l1tex__cycles_elapsed.avg.per_second"),
    )  # fmt: skip
    port = m.get("lts__lts2xbar_cycles_active.sum.per_second")
    level(
        "L2", port * L2_BYTES * seconds if port else None,
        m.get("derived__lts__lts2xbar_bytes.sum.peak_sustained"), m.get("lts__cycles_elapsed.avg.per_second"),
    )  # fmt: skip
    if point.bytes_per_s:
        levels.append(_level("DRAM", point.bytes_per_s, point.bandwidth, facts.counters.units.get("dram")))
    ceilings = [Ceiling(precision=c.precision, flops=c.flops, peak=c.peak) for c in point.ceilings]
    return Roofs(levels=levels, ceilings=ceilings)


def _level(name: str, rate: float, peak: float | None, unit: Unit | None) -> Level:
    busy = unit.busy if unit is not None else None
    roof = peak
    if busy and (peak is None or rate < EXPLAINED * busy * peak):
        roof = rate / busy
    return Level(
        name=name, bytes_per_s=rate, peak=peak, busy=round(busy, 4) if busy is not None else None,
        unit=unit.title if unit is not None else "", metric=unit.parts[0].metric if unit is not None else "", roof=roof,
    )  # fmt: skip


def occupancy(facts: Facts) -> OccupancyDetail | None:
    """None where the report has no occupancy section."""
    found, launch = facts.counters.occupancy, facts.kernel.launch
    if found is None:
        return None
    now = {
        "registers": (launch.registers, "registers a thread"),
        "shared memory": (launch.shared_static + launch.shared_dynamic, "bytes a block"),
        "block size": (launch.threads, "threads a block"),
    }
    charts = facts.kernel.charts
    steps = [
        Steps(resource=name, unit=now[name][1], now=now[name][0], at=list(at), warps=[int(w) for w in warps])
        for name, (at, warps) in (charts.occupancy if charts is not None else {}).items()
    ]
    return OccupancyDetail(
        maximum=found.maximum, theoretical=found.theoretical, achieved=found.achieved,
        warps_per_block=launch.warps, limits=dict(facts.counters.launch.limits), steps=steps,
    )  # fmt: skip


def pm(facts: Facts) -> PmDetail | None:
    """PM-sampled series on common bins over the time in which SMs had work. None where there are none, or fewer than
    LEAST_BINS samples. Series of other passes than the activity's are cut at their own length."""
    charts = facts.kernel.charts
    if charts is None or not charts.series:
        return None
    activity = next((s for name, s in charts.series.items() if "sm__cycles_active.avg" in name), None)
    axis = _axis(*activity) if activity is not None else None
    if axis is None:
        return None
    series = []
    waits: dict[str, list[float]] = {}
    for name, (t, v) in charts.series.items():
        if "warps_issue_stalled_" in name:
            reason = name.rsplit("warps_issue_stalled_", 1)[1].partition(".")[0]
            waits[reason] = _binned(t, v, _onset(v, t), axis.width, axis.count)
        elif (title := next((title for part, title in _TITLES if part in name), None)) is not None and any(v):
            column = axis.column(name, t, v)
            series.append(
                Series(name=name, title=title, group="unit", values=column, partial=_partial(facts, title, column))
            )
    order = {title: i for i, (_, title) in enumerate(_TITLES)}
    series.sort(key=lambda s: order[s.title])
    found = PmDetail(bin_ns=axis.width, sampled_ns=axis.step, series=[*series, *_waits(waits, axis.count)])
    specialized = facts.specialized.pipeline
    phases = specialized.phases if specialized is not None and specialized.resolved else None
    if phases is None:
        return found
    assert specialized is not None and specialized.activity is not None
    return msgspec.structs.replace(
        found, fill_ns=1e3 * phases.fill, drain_ns=1e3 * phases.drain, bubbles=_bubbles(specialized.activity, phases),
    )  # fmt: skip


class _Axis(msgspec.Struct, frozen=True):
    """The time in which SMs had work: its start, bins and their width, the sampler's step (ns); of the activity's pass
    the number of samples, the last one's time and the largest value."""

    start: int
    count: int
    width: float
    step: float
    samples: int
    last: int
    full: float

    def column(self, name: str, stamps: Sequence[int], values: Sequence[float]) -> list[float]:
        """A unit's series on the bins, in percent."""
        scale = 100 / self.full if "sm__cycles_active" in name else 1.0
        same = len(stamps) == self.samples and stamps[-1] == self.last
        begin = self.start if same else _onset(values, stamps)  # of another pass
        return [round(x * scale, 1) for x in _binned(stamps, values, begin, self.width, self.count)]


def _axis(stamps: Sequence[int], values: Sequence[float]) -> _Axis | None:
    busy = [i for i, v in enumerate(values) if v > 0]
    if len(busy) < LEAST_BINS:
        return None
    first, last = busy[0], busy[-1]
    start, end = stamps[first], stamps[min(last + 1, len(stamps) - 1)]
    count = min(BINS, last - first + 1)
    step = (stamps[-1] - stamps[0]) / max(len(stamps) - 1, 1)
    return _Axis(start, count, (end - start) / count, step, len(stamps), stamps[-1], max(values))


_SAMPLED = {"L1": "l1", "L2": "l2", "device memory": "dram", "tensor pipe": "tensor", "FMA pipe": "fma",
            "ALU pipe": "alu", "FP64 pipe": "fp64", "XU pipe": "xu", "issue slots": "issue"}  # fmt: skip


def _partial(facts: Facts, title: str, column: Sequence[float]) -> float | None:
    """Percent that the counters say of the whole kernel, where the samples show clearly less of the same unit."""
    unit = facts.counters.units.get(_SAMPLED.get(title, ""))
    if unit is None or sum(column) / len(column) >= PARTIAL * 100 * unit.busy:
        return None
    return round(100 * unit.busy, 1)


def _bubbles(activity: Activity, phases: Phases) -> list[tuple[float, float]]:
    """Where on the axis the bubbles are (ns), as many as the figures count. One begins where its first bin does and
    ends where the unit is back at its plateau, the next one begins, or the drain does."""
    values, level, full = activity.lines[phases.unit].values, phases.level, activity.full
    reached = [i for i, v in enumerate(values) if v >= BEGUN * level * full[i] and v > 0]
    begins = [reached[0] + 1 + round((b.start - phases.fill) / activity.bin) for b in phases.bubbles]
    out = []
    for begin, following in zip(begins, [*begins[1:], reached[-1]], strict=True):
        end = begin + 1
        while end < following and level * full[end] - values[end] > DEEP * level:
            end += 1
        out.append((begin * activity.bin * 1e3, end * activity.bin * 1e3))
    return out


def _waits(columns: Mapping[str, list[float]], count: int) -> Iterable[Series]:
    """Stalled warps by reason, as shares of all stalled warps of a bin: passes differ, so they never add up exactly."""
    whole = [sum(c[i] for c in columns.values()) for i in range(count)]
    ranked = sorted(columns.items(), key=lambda row: -sum(row[1]))
    for reason, column in ranked:
        if sum(column) > 0.005 * sum(whole):
            values = [round(100 * x / w, 1) if w else 0.0 for x, w in zip(column, whole, strict=True)]
            yield Series(name=reason, title=reason.replace("_", " "), group="wait", values=values)


def _onset(values: Sequence[float], stamps: Sequence[int]) -> int:
    """When a series starts to be other than zero: passes have their own clocks."""
    return stamps[next((i for i, v in enumerate(values) if v > 0), 0)]


def _binned(stamps: Sequence[int], values: Sequence[float], start: float, width: float, count: int) -> list[float]:
    """Means of the samples in each bin; an empty bin repeats the one before."""
    sums, counts = [0.0] * count, [0] * count
    per = 1 / width if width else 0.0
    for t, v in zip(stamps, values, strict=True):
        at = int((t - start) * per + SLACK)
        if 0 <= at < count and t >= start:
            sums[at] += v
            counts[at] += 1
    out: list[float] = []
    for s, n in zip(sums, counts, strict=True):
        out.append(s / n if n else (out[-1] if out else 0.0))
    return out
