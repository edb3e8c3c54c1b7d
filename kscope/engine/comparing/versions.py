"""Several versions in their order: each is compared with the one before; the pairs make lines from first to last."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct, field

from kscope._version import __version__
from kscope.engine.comparing.compare import compare
from kscope.engine.comparing.pairing import Rule, filled, name_of
from kscope.features.views.footprint import Footprints
from kscope.model.contract.analysis import Analysis, KernelAnalysis, TimelineAnalysis
from kscope.model.contract.comparison import Comparison, KernelPair, TimelinePair
from kscope.model.contract.versions import Line, Standing, Version, Versions


class _Line(Struct):
    """A line while it grows. last: the kernel or recording of the version that has it last; at: which version
    that is."""

    kind: str
    per: str
    last: KernelAnalysis | TimelineAnalysis
    at: int
    standings: list[Standing] = field(default_factory=list)


def versions(
    analyses: Sequence[Analysis], rules: Sequence[Rule] = (), prints: Sequence[Footprints] = ()
) -> tuple[Versions, list[Comparison]]:
    """The versions, and the comparison of each with the one before. rules: pairs by hand, each for the steps where it
    finds both sides. prints: footprints of the analyses, as `compare` takes them. Raises KscopeError (status 2) for a
    rule that finds nothing in any step."""
    steps = []
    sides = list(pairwise(analyses))
    nowhere = [rule for rule in rules if not any(_finds(rule, *both) for both in sides)]  # whose fault `compare` tells
    for i, (before, after) in enumerate(sides):
        meant = [rule for rule in rules if rule in nowhere or _finds(rule, before, after)]
        steps.append(compare(before, after, meant, (prints[i], prints[i + 1]) if prints else None))
    lines: list[_Line] = []
    for kernel in analyses[0].kernels:
        _begin(lines, kernel, 1)
    for timeline in analyses[0].timelines:
        _begin(lines, timeline, 1)
    for number, (step, after) in enumerate(zip(steps, analyses[1:], strict=True), start=2):
        _extend(lines, step, after, number)
    shown = [
        Line(kind=line.kind, per=line.per, name=line.standings[-1].name, standings=line.standings)  # type: ignore[arg-type]
        for line in sorted(lines, key=lambda line: -(line.standings[0].time_us or 0))
    ]
    return Versions(
        kscope=__version__,
        versions=[
            Version(number=i + 1, inputs=a.inputs, on_first=_whole(lines, i + 1) if i else None,
                    on_before=steps[i - 1].speedup if i else None)
            for i, a in enumerate(analyses)
        ],
        lines=shown, skipped=[s for a in analyses for s in a.skipped],
        notes=[f"versions {i + 1} and {i + 2}: {note}" for i, step in enumerate(steps) for note in step.notes],
    ), steps  # fmt: skip


def _finds(rule: Rule, before: Analysis, after: Analysis) -> bool:
    for kernel in before.kernels:
        match = re.search(rule.old, name_of(kernel))
        if match and any(filled(rule, match).search(name_of(one)) for one in after.kernels):
            return True
    return False


def _begin(lines: list[_Line], one: KernelAnalysis | TimelineAnalysis, number: int) -> None:
    kernel = isinstance(one, KernelAnalysis)
    per = "launch" if kernel else "step" if one.steps is not None else "recording"  # type: ignore[union-attr]
    line = _Line(kind="kernel" if kernel else "recording", per=per, last=one, at=number)
    line.standings.append(_standing(one, number, per))
    lines.append(line)


def _extend(lines: list[_Line], step: Comparison, after: Analysis, number: int) -> None:
    """The lines with one more version: what the comparison pairs, then what a version further back had under the same
    name, and new lines for the rest."""
    compared: list[KernelPair | TimelinePair] = [*step.pairs, *step.timelines]
    pairs = {id(p.after): p for p in compared}
    here: list[KernelAnalysis | TimelineAnalysis] = [*after.kernels, *after.timelines]
    for one in here:
        pair = pairs.get(id(one))
        if pair is not None:
            line = next((x for x in lines if x.last is pair.before), None)
        else:
            line = next((x for x in lines if x.at < number - 1 and _name(x.last) == _name(one)), None)
        if line is None:
            _begin(lines, one, number)
            continue
        if isinstance(pair, TimelinePair):
            line.per = pair.per
        line.standings.append(_against(line, one, number, pair))
        line.last, line.at = one, number


def _against(
    line: _Line, one: KernelAnalysis | TimelineAnalysis, number: int, pair: KernelPair | TimelinePair | None
) -> Standing:
    first, before = line.standings[0].time_us, line.standings[-1].time_us
    bare = _standing(one, number, line.per)
    now = bare.time_us
    guess = isinstance(pair, KernelPair) and pair.guess
    return Standing(
        version=number, name=bare.name, time_us=now, regime=bare.regime, limiter=bare.limiter, next=bare.next,
        on_first=first / now if first and now else None, on_before=before / now if before and now else None,
        sentence=pair.sentence if pair else "", fixed=pair.fixed if pair else [], new=pair.new if pair else [],
        guess=guess or line.standings[-1].guess,
    )  # fmt: skip


def _standing(one: KernelAnalysis | TimelineAnalysis, number: int, per: str) -> Standing:
    verdict = one.verdict
    if isinstance(one, KernelAnalysis):
        time = one.duration_us
    else:
        time = one.steps.median_us if per == "step" and one.steps is not None else one.span_us
    real = next((f.code for f in one.findings if f.severity != "info"), None)
    return Standing(
        version=number, name=_name(one), time_us=time, regime=verdict.regime if verdict else "unknown",
        limiter=verdict.limiter if verdict else "unknown", next=real,
    )  # fmt: skip


def _name(one: KernelAnalysis | TimelineAnalysis) -> str:
    return name_of(one) if isinstance(one, KernelAnalysis) else one.input


def _whole(lines: Sequence[_Line], number: int) -> float | None:
    """Time of the first version over that of this one, of kernels that both have and no guess ties."""
    old = new = 0.0
    for line in lines:
        begin = line.standings[0]
        now = next((s for s in line.standings if s.version == number), None)
        if line.kind == "kernel" and begin.version == 1 and now and not now.guess and begin.time_us and now.time_us:
            old, new = old + begin.time_us, new + now.time_us
    return old / new if new else None
