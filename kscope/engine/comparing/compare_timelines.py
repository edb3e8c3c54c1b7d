"""Two recordings of a program: what a step took, what of that is certain, what was promised, what changed by kernel."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kscope.engine.comparing.parts import estimated, faster, moved, promises, real, words
from kscope.model.contract.analysis import Estimate, Finding, TimelineAnalysis
from kscope.model.contract.comparison import Change, Outcome, Promise, TimelinePair

KERNELS = 12
"""Kernels whose time changed that are listed."""
UNSURE = 1.5
"""What recording costs may be so many times what is reckoned: 1.0 to 1.34 times on the pairs of fixtures/traces."""
_LAUNCHING = frozenset({"OVH601", "OVH605"})  # two names for the same idle time: one repair
_WORTH = 0.01  # share of the step that a kernel's time must have moved by


def compare_timelines(before: TimelineAnalysis, after: TimelineAnalysis) -> TimelinePair:
    """What became of a program between two recordings of it."""
    times = _times(before, after)
    speedup, low, high = times.gain()
    was, now = ([f.code for f in real(side.findings)] for side in (before, after))
    blind = {item.code for item in after.not_applicable} | {error.code for error in after.errors}
    gone = [f for f in real(before.findings) if f.code not in now and f.code not in blind]
    time = Change(what=f"time a {times.per}", unit="us", before=times.old, after=times.new)
    return TimelinePair(
        before=before, after=after, per=times.per, speedup=speedup, low=low, high=high,
        sentence=f"{faster(speedup)} a {times.per}{_range(low, high)}, {_regimes(before, after)}",
        fixed=[f.code for f in gone], unknown=[c for c in was if c not in now and c in blind],
        new=[c for c in now if c not in was], remaining=[c for c in now if c in was],
        changes=[row for row in _figures(before, after, time) if moved(row)],
        promises=_promises(gone, low, high), kernels=_kernels(before, after, times.counts, times.old),
        operators=_operators(before, after, times.counts, times.old),
    )  # fmt: skip


class _Times(Struct, frozen=True):
    """What is compared, in us: a step, or the whole recording; what recording cost of it; how many steps."""

    per: str
    old: float
    new: float
    cost: tuple[float, float] = (0.0, 0.0)
    counts: tuple[int, int] = (1, 1)

    def gain(self) -> tuple[float | None, float | None, float | None]:
        """Speedup, and its bounds: recording slowed the old side alone, the new side alone."""
        if not self.old or not self.new:
            return None, None, None
        low = (self.old - min(UNSURE * self.cost[0], 0.9 * self.old)) / self.new
        return self.old / self.new, low, self.old / (self.new - min(UNSURE * self.cost[1], 0.9 * self.new))


def _times(before: TimelineAnalysis, after: TimelineAnalysis) -> _Times:
    old, new = before.steps, after.steps
    if old is None or new is None:
        return _Times("recording", before.span_us, after.span_us)
    costs, counts = (old.recording_us, new.recording_us), (max(old.count, 1), max(new.count, 1))
    return _Times("step", old.median_us, new.median_us, costs, counts)


def _regimes(before: TimelineAnalysis, after: TimelineAnalysis) -> str:
    old, new = (t.verdict.regime if t.verdict else "no verdict" for t in (before, after))
    return f"still {new}" if old == new else f"from {old} to {new}"


def _figures(before: TimelineAnalysis, after: TimelineAnalysis, time: Change) -> list[Change]:
    """The time, and what it goes into."""
    rows = [time, Change(what="GPU busy", unit="%", before=before.gpu_busy_pct, after=after.gpu_busy_pct)]
    idle = {i.cause: i.pct for i in before.idle}, {i.cause: i.pct for i in after.idle}
    for cause in dict.fromkeys([*idle[0], *idle[1]]):
        if cause in ("profiler", "one_off"):  # not the program's steady state
            continue
        a, b = idle[0].get(cause, 0.0), idle[1].get(cause, 0.0)
        rows.append(Change(what=f"idle: {words(cause)}", unit="%", before=a, after=b))
    exposed = [t.communication.exposed_pct if t.communication is not None else 0.0 for t in (before, after)]
    return [*rows, Change(what="exposed communication", unit="%", before=exposed[0], after=exposed[1])]


def _range(low: float | None, high: float | None) -> str:
    """The bounds in words, in the direction of what they say; nothing where they are next to each other."""
    if low is None or high is None or high <= 1.05 * low:
        return ""
    slower = high < 1
    first, last = (1 / high, 1 / low) if slower else (low, high)
    return f" ({first:.1f}x to {last:.1f}x {'slower ' if slower else ''}without what recording cost)"


def _promises(gone: Sequence[Finding], low: float | None, high: float | None) -> list[Promise]:
    """Promises of what went, against the gain as far as it is certain: kept where the two ranges meet. What waits for
    launches is one repair, by whatever name."""
    if low is None or high is None:
        return []
    least, most = low, high

    def judge(e: Estimate) -> tuple[float, Outcome]:
        outcome: Outcome = "below" if most < e.low else "above" if least > e.high else "inside"
        return min(max(e.speedup, least), most), outcome

    promised = estimated(gone)
    return promises(gone, len(promised) < 2 or {f.code for f in promised} <= _LAUNCHING, judge)


def _kernels(
    before: TimelineAnalysis, after: TimelineAnalysis, counts: tuple[int, int], step: float
) -> list[Change]:
    """Time a step by kernel, those first whose time changed most."""
    return _moved([[(k.name, k.total_us) for k in one.top_kernels] for one in (before, after)], counts, step)


def _operators(
    before: TimelineAnalysis, after: TimelineAnalysis, counts: tuple[int, int], step: float
) -> list[Change]:
    """GPU time a step by the operator that issued it; none where one side's recording has no operators, or has them
    in graphs alone: then all of the other's would have gone."""
    sides = [[(o.name, o.own_us) for o in one.operators] for one in (before, after)]
    return _moved(sides, counts, step) if all(sides) else []


def _moved(sides: Sequence[list[tuple[str, float]]], counts: tuple[int, int], step: float) -> list[Change]:
    sums: list[dict[str, float]] = []
    for side, count in zip(sides, counts, strict=True):
        mine: dict[str, float] = {}
        for name, time in side:
            mine[name] = mine.get(name, 0.0) + time / count
        sums.append(mine)
    rows = [
        Change(what=name, unit="us", before=sums[0].get(name), after=sums[1].get(name))
        for name in dict.fromkeys([*sums[0], *sums[1]])
    ]
    rows = [r for r in rows if abs((r.after or 0.0) - (r.before or 0.0)) >= _WORTH * step]
    return sorted(rows, key=lambda r: -abs((r.after or 0.0) - (r.before or 0.0)))[:KERNELS]
