"""The ranked findings of a kernel or a timeline in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports import words
from kscope.reports.escape import code, fence, prose
from kscope.reports.markdown.tables import bullets
from kscope.reports.phrases import fixes, remedies, silence
from kscope.reports.phrases.places import waited
from kscope.reports.phrases.places import where as placed

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Finding, Fix, JobAnalysis, KernelAnalysis, TimelineAnalysis

PLACES_SHOWN = 4


def suggestions(kernel: KernelAnalysis | TimelineAnalysis | JobAnalysis) -> list[str]:
    ranked = [f for f in kernel.findings if f.severity != "info"]
    info = [f for f in kernel.findings if f.severity == "info"]
    parts = ["### Suggestions"]
    before = fixes.told_before(kernel.findings)
    for rank, finding in enumerate(ranked, 1):
        parts += _suggestion(rank, finding)
        for fix in finding.fixes:
            earlier = fixes.earlier(before, finding, fix)
            parts += [f"**Change:** {prose(earlier)}."] if earlier else _change(fix)
    if not ranked:
        parts.append(f"None: {silence.nothing(kernel)}.")
    if info:
        listed = ", ".join(f"{prose(f.rule)} ({f.code})" for f in info)
        parts.append(f"Minor or for information: {listed}.")
    return parts


def _suggestion(rank: int, finding: Finding) -> list[str]:
    head = f"#### {rank}. {prose(finding.title)} ({finding.code} {prose(finding.rule)})"
    weight = f"{finding.severity}, confidence {words.percent(finding.confidence)}"
    parts = [head, f"**{prose(words.expectation(finding.estimate))}**, {weight}.", prose(finding.why)]
    items = [f"{code(words.evidence(e))}{' ' + prose(e.note) if e.note else ''}" for e in finding.evidence]
    for place in finding.locations[:PLACES_SHOWN]:
        share = f", {text}" if (text := waited(place)) else ""
        source = f": {code(place.source)}" if place.source else ""
        items.append(f"{code(placed(place))} {code(place.sass or place.opcode)}{share}{source}")
    if more := words.further(finding, min(len(finding.locations), PLACES_SHOWN)):
        items.append(more)
    parts.append(bullets(items))
    if finding.overlaps:
        parts.append(f"Explains the same samples or waits as {', '.join(finding.overlaps)}: the gains do not add.")
    if finding.fix:
        parts.append(f"**Fix:** {prose(finding.fix)}")
    if finding.remedies:
        ways = [f"{'or' if r.applies else 'not'}: {prose(remedies.remedy(r))}" for r in finding.remedies]
        parts.append(bullets(ways))
    if finding.order:
        parts.append(f"**Order:** {prose(finding.order)}")
    return parts


def _change(fix: Fix) -> list[str]:
    """A change as a diff, with what was proved and what is left to check."""
    if fix.refused:
        return [f"**No code:** {prose(fixes.head(fix))}"]
    told = [fixes.figures(fix), fixes.cost(fix)]
    lines = [f"+{text}" for text in fix.code.splitlines()]
    for edit in fix.edits:
        lines += [sign + text for sign, text in fixes.signed(edit)]
    parts = [f"**Change:** {prose(fixes.head(fix))}. {prose('; '.join(t for t in told if t))}", fence(lines, "diff")]
    left = fixes.conditions(fix, "check", "assumed")
    return [*parts, bullets([prose(c) for c in left])] if left else parts
