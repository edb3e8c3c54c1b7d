"""One verdict for a program: its timeline says where the time goes, its kernel reports what binds each kernel.

Kernels are the same where name, grid and block agree. A kernel's gain is the program's by Amdahl's law, over the time
of all kernels and over the window; time after which the GPU waits for the host anyway counts as no gain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kscope.engine.comparing.kernel_names import bare, base, canonical
from kscope.engine.findings.rank import severity, worth
from kscope.engine.timelines.timeline_verdict import GROUPS
from kscope.engine.verdict import sentences
from kscope.features.estimate.gains import of_program, speedup
from kscope.model.contract.analysis import (
    Finding,
    JoinedAnalysis,
    JoinedKernel,
    JoinedSuggestion,
    KernelAnalysis,
    Limiter,
    Regime,
    RegimeShare,
    TimelineAnalysis,
    Verdict,
)
from kscope.model.contract.limiters import LIMITERS, of_kernel
from kscope.model.contract.timeline_figures import TopKernel
from kscope.model.errors import one_line
from kscope.model.quoted import quoted
from kscope.model.units import percent

ENOUGH = 0.5
"""Share of the kernels' time that must have counters before they decide the regime."""
SUGGESTIONS = 12
_WORTH = 1.01  # gains of the program below this are not listed
Shape = tuple[tuple[int, ...], tuple[int, ...]]


def join_all(
    timelines: Sequence[TimelineAnalysis], kernels: Sequence[KernelAnalysis]
) -> tuple[list[JoinedAnalysis], list[TimelineAnalysis]]:
    """(joined verdicts, the timelines, with a note where the reports have none of its kernels)."""
    joined, out = [], []
    for timeline in timelines:
        one = join(timeline, kernels)
        if one is not None:
            joined.append(one)
        elif kernels and timeline.top_kernels:
            note = "not joined: no kernel of the reports has the name, grid and block of one in this timeline"
            coverage = msgspec.structs.replace(timeline.coverage, notes=[*timeline.coverage.notes, note])
            timeline = msgspec.structs.replace(timeline, coverage=coverage)
        out.append(timeline)
    return joined, out


def join(timeline: TimelineAnalysis, kernels: Sequence[KernelAnalysis]) -> JoinedAnalysis | None:
    """The joined verdict; None where no kernel of the reports occurs in the timeline."""
    index = _Index(kernels)
    pairs = [(top, index.find(top)) for top in timeline.top_kernels]
    used = {id(found) for _, found in pairs if found is not None}
    if not used:
        return None
    rows = [_row(top, found, index) for top, found in pairs]
    shares = _shares(rows)
    matched = sum(row.share for row in rows if row.kernel is not None)
    verdict, abstained = _verdict(timeline, rows, shares, matched, [found for _, found in pairs])
    return JoinedAnalysis(
        input=timeline.input,
        reports=sorted({found.input for _, found in pairs if found is not None}),
        verdict=verdict,
        abstained=abstained,
        span_us=timeline.span_us,
        kernels_pct=timeline.kernels_pct,
        matched_pct=round(100 * matched, 3),
        regimes=shares,
        kernels=rows,
        suggestions=_suggestions(timeline, pairs),
        unused=[one_line(k.demangled or k.name) for k in kernels if id(k) not in used],
    )


class _Index:
    """The kernels of the reports by name and launch shape; the one with the most time wins."""

    def __init__(self, kernels: Sequence[KernelAnalysis]) -> None:
        self.exact: dict[tuple[str, Shape], KernelAnalysis] = {}
        self.short: dict[tuple[str, Shape], list[KernelAnalysis]] = {}
        self.shapes: dict[str, set[Shape]] = {}
        for kernel in sorted(kernels, key=lambda k: -(k.repeats.total_us if k.repeats else k.duration_us or 0.0)):
            name = kernel.demangled or kernel.name
            shape = tuple(kernel.launch.grid), tuple(kernel.launch.block)
            self.exact.setdefault((canonical(name), shape), kernel)
            self.short.setdefault((base(name), shape), []).append(kernel)
            self.shapes.setdefault(canonical(name), set()).add(shape)

    def find(self, top: TopKernel) -> KernelAnalysis | None:
        """The same kernel at the same shape. Where one side has a bare or mangled name, the function's own name must
        agree, and no second kernel of the reports may have it."""
        shapes = [(top.grid, top.block)] if any(top.grid) else list(self.shapes.get(canonical(top.name), ()))
        if len(shapes) != 1:
            return None
        if found := self.exact.get((canonical(top.name), shapes[0])):
            return found
        same = self.short.get((base(top.name), shapes[0]), [])
        if not bare(top.name):
            same = [k for k in same if bare(k.demangled or k.name)]
        return same[0] if len({canonical(k.demangled or k.name) for k in same}) == 1 else None

    def why(self, top: TopKernel) -> str:
        """Why nothing was found."""
        others = self.shapes.get(canonical(top.name))
        if not others:
            return "not in the reports"
        grid, block = min(others)
        return f"profiled at another shape only (grid {_dims(grid)}, block {_dims(block)})"


def _dims(shape: Sequence[int]) -> str:
    return "x".join(str(n) for n in shape)


def _row(top: TopKernel, found: KernelAnalysis | None, index: _Index) -> JoinedKernel:
    return JoinedKernel(
        name=one_line(top.name), grid=top.grid, block=top.block, count=top.count, total_us=top.total_us,
        share=top.share, why="" if found else index.why(top),
        kernel=found.id if found else None,
        regime=found.verdict.regime if found and found.verdict.regime != "unknown" else None,
        limiter=found.verdict.limiter if found and found.verdict.regime != "unknown" else None,
        headroom=found.headroom.speedup_bound if found and found.headroom else None,
    )  # fmt: skip


def _shares(rows: Iterable[JoinedKernel]) -> list[RegimeShare]:
    """Share of the kernels' time by what binds it, most first; kernels without counters last."""
    sums: dict[tuple[Regime | None, Limiter | None], float] = {}
    for row in rows:
        key = row.regime, row.limiter
        sums[key] = sums.get(key, 0.0) + row.share
    order = sorted(sums, key=lambda key: (key[0] is None, -sums[key]))
    return [RegimeShare(regime=r, limiter=by, share=round(sums[r, by], 6)) for r, by in order]


def _verdict(
    timeline: TimelineAnalysis,
    rows: Sequence[JoinedKernel],
    shares: Sequence[RegimeShare],
    matched: float,
    found: Sequence[KernelAnalysis | None],
) -> tuple[Verdict | None, str]:
    """The timeline's regime where the GPU is not busy; else what binds most of the kernels' time."""
    told = timeline.verdict
    kernels = f"kernels run {percent(timeline.kernels_pct / 100)} of the time"
    busy = _busy(rows, matched)
    if told is not None and told.regime == "overhead" and told.limiter in GROUPS and _share(timeline, told.limiter):
        words = LIMITERS[told.limiter]
        idle = f"{percent(_share(timeline, told.limiter))} of the time is {words.idle}"
        return sentences.verdict(
            "overhead", told.limiter, told.confidence, bound=f"on {words.program}", reason=f"{idle}, {kernels}",
            contrast=busy, program=True,
        ), ""  # fmt: skip
    if matched < ENOUGH:
        why = f"only {percent(matched)} of the kernels' time has counters: profile the first of the list"
        if told is None:
            return None, f"{timeline.abstained}; {why}"
        return sentences.with_next(told, why), ""
    sums: dict[Regime, float] = {}
    for one in shares:
        if one.regime is not None:
            sums[one.regime] = sums.get(one.regime, 0.0) + one.share
    if not sums:
        why = "the kernel reports lack what would tell the kernels' limits"
        return (None, f"{timeline.abstained}; {why}") if told is None else (sentences.with_next(told, why), "")
    regime = max(sums, key=lambda r: sums[r])
    limiter = next(one.limiter for one in shares if one.regime == regime)
    assert limiter is not None  # it has a regime
    mine = [(row, k) for row, k in zip(rows, found, strict=True) if k is not None and row.regime == regime]
    sure = sum(row.share * k.verdict.confidence for row, k in mine)
    return sentences.verdict(
        regime, limiter, min(sure, 0.95), bound=f"on {of_kernel(limiter)}", reason=f"{kernels}; {busy}", program=True
    ), ""  # fmt: skip


def _share(timeline: TimelineAnalysis, limiter: Limiter) -> float:
    """Share of the window (0..1) that is idle for a limiter; for transfers what only copies take as well."""
    if limiter == "communication":
        return min((timeline.communication.exposed_pct if timeline.communication else 0.0) / 100, 1.0)
    share = sum(row.pct for row in timeline.idle if row.cause in GROUPS[limiter])
    if limiter == "transfer":
        known = sum(row.pct for row in timeline.idle if row.cause not in ("profiler", "inside_graph"))
        share += max(100 - known - timeline.kernels_pct, 0.0)
    return min(share / 100, 1.0)


def _busy(rows: Sequence[JoinedKernel], matched: float) -> str:
    """The kernels that take the most time, each with what binds it."""
    sums: dict[tuple[str, Regime, Limiter], float] = {}
    for row in rows:
        if row.regime is not None and row.limiter is not None:
            key = base(row.name), row.regime, row.limiter
            sums[key] = sums.get(key, 0.0) + row.share
    first = sorted(sums, key=lambda key: -sums[key])[:3]
    parts = [
        f"{percent(sums[name, regime, by])} {'is ' if not i else ''}{quoted(name)}, {regime}-bound on "
        f"{of_kernel(by)}"
        for i, (name, regime, by) in enumerate(first)
        if not i or sums[name, regime, by] >= 0.05
    ]
    rest = f"; {percent(1 - matched)} was not profiled" if matched < 0.995 else ""
    return f"of the kernels' time {', '.join(parts)}{rest}"


def _suggestions(
    timeline: TimelineAnalysis, pairs: Sequence[tuple[TopKernel, KernelAnalysis | None]]
) -> list[JoinedSuggestion]:
    """Findings of the timeline and of its kernels, those of one rule on shapes of one kernel together; best first."""
    out = [
        JoinedSuggestion(
            rule=f.rule, code=f.code, title=f.title, kernel=None, share=None, severity=f.severity, estimate=f.estimate,
            why=f.why, fix=f.fix, confidence=f.confidence,
        )
        for f in timeline.findings
        if f.estimate is not None
    ]  # fmt: skip
    groups: dict[tuple[str, str], list[tuple[TopKernel, Finding]]] = {}
    for top, found in pairs:
        for finding in found.findings if found is not None else []:
            if finding.estimate is not None and finding.severity != "info":
                groups.setdefault((canonical(top.name), finding.code), []).append((top, finding))
    out += [_of_kernel(timeline.kernels_pct / 100, members) for members in groups.values()]
    out = [s for s in out if s.estimate.speedup >= _WORTH]
    return sorted(out, key=lambda s: -worth(_finding(s)))[:SUGGESTIONS]


def _of_kernel(work: float, members: Sequence[tuple[TopKernel, Finding]]) -> JoinedSuggestion:
    """The gain of one finding on all shapes of a kernel. `work`: share of the window in kernels."""
    top, finding = max(members, key=lambda m: m[0].share)
    saved = low = high = busy = 0.0
    for shape, one in members:
        assert one.estimate is not None  # asked before
        share = work * shape.share
        seen = share * (1 - shape.hidden)
        saved += seen * (1 - 1 / one.estimate.speedup)
        low += seen * (1 - 1 / max(one.estimate.low, 1.0))
        high += share * (1 - 1 / max(one.estimate.high, one.estimate.speedup))
        busy += shape.share * (1 - 1 / one.estimate.speedup)
    assert finding.estimate is not None
    hidden = sum(shape.share * shape.hidden for shape, _ in members) / sum(shape.share for shape, _ in members)
    capped = "the host: launches are late behind it" if hidden > 0.5 else f"its share, and {finding.estimate.capped_by}"
    suggestion = JoinedSuggestion(
        rule=finding.rule, code=finding.code, title=finding.title, kernel=base(top.name),
        share=round(min(work * sum(shape.share for shape, _ in members), 1.0), 6), severity="info",
        estimate=of_program(saved, low, high, capped, finding.estimate.kind),
        busy_speedup=speedup(busy), kernel_speedup=finding.estimate.speedup, why=finding.why, fix=finding.fix,
        confidence=finding.confidence,
    )  # fmt: skip
    return _weighed(suggestion)


def _weighed(suggestion: JoinedSuggestion) -> JoinedSuggestion:
    return msgspec.structs.replace(suggestion, severity=severity(_finding(suggestion)))


def _finding(suggestion: JoinedSuggestion) -> Finding:
    """As the ranking takes it."""
    return Finding(
        rule=suggestion.rule, code=suggestion.code, title=suggestion.title, regime="overhead",
        estimate=suggestion.estimate, confidence=suggestion.confidence,
    )  # fmt: skip
