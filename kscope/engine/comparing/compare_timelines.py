"""Two recordings of a program: what a step took, what of that is certain, what was promised, what changed by kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kscope.model.contract.analysis import Finding, TimelineAnalysis
from kscope.model.contract.comparison import Change, Outcome, Promise, TimelinePair

KERNELS = 12
"""Kernels whose time changed that are listed."""
UNSURE = 1.5
"""What recording costs may be so many times what is reckoned: 1.0 to 1.34 times on the pairs of fixtures/traces."""
_LAUNCHING = frozenset({"OVH601", "OVH605"})  # two names for the same idle time: one repair
_WORTH = 0.01  # share of the step that a kernel's time must have moved by


def compare_timelines(
    before: TimelineAnalysis,
    after: TimelineAnalysis,
    real: Callable[[Sequence[Finding]], list[Finding]],
    moved: Callable[[Change], bool],
    faster: Callable[[float | None], str],
    words: Callable[[str], str],
) -> TimelinePair:
    """real: findings worth naming; moved: changes worth a line; faster: words for a ratio; words: a cause in words."""
    steps = before.steps, after.steps
    if steps[0] is not None and steps[1] is not None:
        per, old, new = "step", steps[0].median_us, steps[1].median_us
        cost = steps[0].recording_us, steps[1].recording_us
        counts = max(steps[0].count, 1), max(steps[1].count, 1)
    else:
        per, old, new, cost, counts = "recording", before.span_us, after.span_us, (0.0, 0.0), (1, 1)
    speedup = old / new if old and new else None
    low = (old - min(UNSURE * cost[0], 0.9 * old)) / new if speedup else None
    high = old / (new - min(UNSURE * cost[1], 0.9 * new)) if speedup else None
    found = real(before.findings), real(after.findings)
    codes = [f.code for f in found[0]], [f.code for f in found[1]]
    time = Change(what=f"time a {per}", unit="us", before=old, after=new)
    blind = {item.code for item in after.not_applicable} | {error.code for error in after.errors}
    gone = [f for f in found[0] if f.code not in codes[1] and f.code not in blind]
    regimes = [t.verdict.regime if t.verdict else "no verdict" for t in (before, after)]
    still = f"still {regimes[1]}" if regimes[0] == regimes[1] else f"from {regimes[0]} to {regimes[1]}"
    sure = _range(low, high) if low is not None and high is not None and high > 1.05 * low else ""
    return TimelinePair(
        before=before, after=after, per=per, speedup=speedup, low=low, high=high,
        sentence=f"{faster(speedup)} a {per}{sure}, {still}",
        fixed=[f.code for f in gone], unknown=[c for c in codes[0] if c not in codes[1] and c in blind],
        new=[c for c in codes[1] if c not in codes[0]], remaining=[c for c in codes[1] if c in codes[0]],
        changes=[row for row in _figures(before, after, time, words) if moved(row)],
        promises=_promises(gone, low, high), kernels=_kernels(before, after, counts, old),
        operators=_operators(before, after, counts, old),
    )  # fmt: skip


def _figures(
    before: TimelineAnalysis, after: TimelineAnalysis, time: Change, words: Callable[[str], str]
) -> list[Change]:
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


def _range(low: float, high: float) -> str:
    """The bounds in words, in the direction of what they say."""
    slower = high < 1
    first, last = (1 / high, 1 / low) if slower else (low, high)
    return f" ({first:.1f}x to {last:.1f}x {'slower ' if slower else ''}without what recording cost)"


def _promises(gone: Sequence[Finding], low: float | None, high: float | None) -> list[Promise]:
    """Promises of what went, against the gain as far as it is certain: kept where the two ranges meet. What waits for
    launches is one repair, by whatever name."""
    if low is None or high is None:
        return []
    promised = sorted((f for f in gone if f.estimate), key=lambda f: -(f.estimate.speedup if f.estimate else 0))
    alone = len(promised) < 2 or {f.code for f in promised} <= _LAUNCHING
    out = []
    for finding in promised:
        e = finding.estimate
        assert e is not None
        outcome: Outcome = "below" if high < e.low else "above" if low > e.high else "inside"
        out.append(
            Promise(
                code=finding.code, rule=finding.rule, speedup=e.speedup, low=e.low, high=e.high,
                measured=min(max(e.speedup, low), high), alone=alone, outcome=outcome,
                shared_with=[f.code for f in gone if f is not finding],
            )
        )  # fmt: skip
    return out


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
