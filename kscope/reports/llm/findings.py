"""Ranked findings in blocks: evidence first, then where, then what it means and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports import words
from kscope.reports.llm.blocks import Block, said, span
from kscope.reports.phrases import silence

if TYPE_CHECKING:
    from kscope.model.analysis import Finding, JobAnalysis, KernelAnalysis, TimelineAnalysis


def findings(kernel: KernelAnalysis | TimelineAnalysis | JobAnalysis, base: int, heading: str) -> list[Block]:
    """Ranked findings, minor ones in a line, and NVIDIA's own beside those of a kernel."""
    ranked = [f for f in kernel.findings if f.severity != "info"]
    blocks = [block for rank, f in enumerate(ranked) for block in _finding(rank, f, base + 2 + rank * 9, heading)]
    if not ranked:
        text = f"None: {silence.nothing(kernel)}."
        blocks.append(Block(base + 2, "findings", heading, text))
    if info := [f for f in kernel.findings if f.severity == "info"]:
        listed = ", ".join(f"{f.code} {said(f.rule)}" for f in info)
        blocks.append(Block(base + 70, "minor findings", heading, f"Minor: {listed}."))
    if nvidia := getattr(kernel, "nvidia", []):
        top = sorted(nvidia, key=lambda n: -(n.speedup_pct or 0.0))
        listed = ", ".join(span(n.rule) + (f" {n.speedup_pct:.0f} %" if n.speedup_pct is not None else "")
                           for n in top[:8])  # fmt: skip
        text = f"NVIDIA's own rules say (their estimates, unverified): {listed}."
        blocks.append(Block(base + 80, "NVIDIA's findings", heading, text))
    return blocks


def _finding(rank: int, finding: Finding, priority: int, heading: str) -> list[Block]:
    """Evidence first, then where, then what it means and the fix; the places and further evidence may be left out."""
    gain = said(words.expectation(finding.estimate))
    head = [f"{rank + 1}. {finding.code} {said(finding.rule)} ({finding.severity}): {gain}"]
    evidence = []
    for item in finding.evidence[:8]:
        note = f" ({said(item.note, 120)})" if item.note else ""
        evidence.append(f"   - evidence {span(words.evidence(item))}{note}")
    places, previous = [], None
    for place in finding.locations[:3]:
        share = f" {words.percent(place.share)} of samples" if place.share is not None else ""
        source = f" {span(place.source)}" if place.source and place.source != previous else ""
        previous = place.source
        places.append(f"   - at {span(words.place(place))} {span(place.sass or place.opcode)}{share}{source}")
    if more := max(len(finding.locations) - 3, 0):
        places.append(f"   - and {more} more")
    tail = [f"   - means {said(finding.why or finding.title)}"]
    if finding.overlaps:
        tail.append(f"   - explains the same samples as {', '.join(finding.overlaps)}")
    if finding.fix:
        tail.append(f"   - fix {said(finding.fix)}")
    blocks = [Block(priority, "findings", heading, "\n".join(head + evidence[:2]))]
    if evidence[2:] or places:
        blocks.append(Block(priority + 2, "places", heading, "\n".join(evidence[2:] + places)))
    return [*blocks, Block(priority, "explanations", heading, "\n".join(tail))]
