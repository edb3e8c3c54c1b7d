"""Ranked findings in blocks: what to change, where and for how much; then what proves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports import words
from kscope.reports.llm.blocks import Block, said, span

if TYPE_CHECKING:
    from kscope.model.analysis import Finding, JobAnalysis, KernelAnalysis, TimelineAnalysis

PLACES = 3


def findings(kernel: KernelAnalysis | TimelineAnalysis | JobAnalysis, base: int, heading: str) -> list[Block]:
    """Ranked findings, and minor ones in a line."""
    ranked = [f for f in kernel.findings if f.severity != "info"]
    blocks = [block for rank, f in enumerate(ranked) for block in _finding(rank, f, base + 1 + rank * 8, heading)]
    if not ranked:
        text = f"Nothing: {words.nothing(kernel)}."
        blocks.append(Block(base + 2, "findings", heading, text))
    if info := [f for f in kernel.findings if f.severity == "info"]:
        listed = ", ".join(f"{f.code} {said(f.rule)}" for f in info)
        blocks.append(Block(base + 20, "minor findings", heading, f"Worth less than 3 %: {listed}."))
    return blocks


def _finding(rank: int, finding: Finding, priority: int, heading: str) -> list[Block]:
    """Fix, place and gain in one block; why, further places and evidence may be left out."""
    gain = said(words.expectation(finding.estimate))
    lines = [f"{rank + 1}. {finding.code} {said(finding.rule)}: {gain}, confidence {words.percent(finding.confidence)}"]
    if finding.fix:
        lines.append(f"   - fix {said(finding.fix)}")
    places: list[str] = []
    previous = None
    for place in finding.locations[:PLACES]:
        share = f" {words.percent(place.share)} of samples" if place.share is not None else ""
        source = f" {span(place.source)}" if place.source and places and place.source != previous else ""
        previous = place.source
        at = f"{span(words.place(place))} pc {place.pc:04x}" if place.line else f"pc {place.pc:04x}"
        places.append(f"   - at {at} {span(place.sass or place.opcode)}{share}{source}")
    of = f"{heading} {rank}"
    blocks = [Block(priority, "findings", heading, "\n".join(lines + places[:1]), of=of)]
    first = next((x.source for x in finding.locations[:1] if x.source), "")
    why = [f"   - there {span(first)}"] if first else []
    why += [f"   - because {said(finding.why or finding.title)}"]
    if finding.overlaps:
        why.append(f"   - the same samples as {', '.join(finding.overlaps)}")
    blocks.append(Block(priority + 1, "reasons", heading, "\n".join(why), of=of))
    rest = places[1:]
    if more := words.further(finding, min(len(finding.locations), PLACES)):
        rest.append(f"   - {more}")
    for item in finding.evidence[:8]:
        note = f" ({said(item.note, 120)})" if item.note else ""
        rest.append(f"   - evidence {span(words.evidence(item))}{note}")
    if rest:
        blocks.append(Block(priority + 4, "evidence", heading, "\n".join(rest), of=of))
    return blocks
