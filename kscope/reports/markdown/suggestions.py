"""The ranked findings of a kernel or a timeline in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports import words
from kscope.reports.escape import code, prose
from kscope.reports.markdown.tables import bullets
from kscope.reports.phrases import silence

if TYPE_CHECKING:
    from kscope.model.analysis import Finding, JobAnalysis, KernelAnalysis, TimelineAnalysis

PLACES_SHOWN = 4


def suggestions(kernel: KernelAnalysis | TimelineAnalysis | JobAnalysis) -> list[str]:
    ranked = [f for f in kernel.findings if f.severity != "info"]
    info = [f for f in kernel.findings if f.severity == "info"]
    parts = ["### Suggestions"]
    for rank, finding in enumerate(ranked, 1):
        parts += _suggestion(rank, finding)
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
        share = f", {words.percent(place.share)} of samples" if place.share is not None else ""
        source = f": {code(place.source)}" if place.source else ""
        items.append(f"{code(words.place(place))} {code(place.sass or place.opcode)}{share}{source}")
    if more := len(finding.locations) - PLACES_SHOWN:
        items += [f"{more} more places"] if more > 0 else []
    parts.append(bullets(items))
    if finding.overlaps:
        parts.append(f"Explains the same samples as {', '.join(finding.overlaps)}: the gains do not add.")
    if finding.fix:
        parts.append(f"**Fix:** {prose(finding.fix)}")
    return parts
