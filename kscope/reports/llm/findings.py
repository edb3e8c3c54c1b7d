"""Ranked findings in blocks: what to change, where and for how much; then what proves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kscope.reports import words
from kscope.reports.llm.blocks import Block, said, span
from kscope.reports.phrases import fixes, remedies, silence
from kscope.reports.phrases.places import waited
from kscope.reports.phrases.places import where as placed

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Finding, Fix, JobAnalysis, KernelAnalysis, TimelineAnalysis

Before = Mapping[tuple[str, int], str]
PLACES = 3
EDITS = 6  # lines of a change that are written out: the pack has a budget (judged)


def findings(kernel: KernelAnalysis | TimelineAnalysis | JobAnalysis, base: int, heading: str) -> list[Block]:
    """Ranked findings, and minor ones in a line."""
    ranked = [f for f in kernel.findings if f.severity != "info"]
    before = fixes.told_before(kernel.findings)
    blocks = [b for rank, f in enumerate(ranked) for b in _finding(rank, f, before, base + 1 + rank * 8, heading)]
    if not ranked:
        text = f"None: {silence.nothing(kernel)}."
        blocks.append(Block(base + 2, "findings", heading, text))
    if info := [f for f in kernel.findings if f.severity == "info"]:
        listed = ", ".join(f"{f.code} {said(f.rule)}" for f in info)
        blocks.append(Block(base + 20, "minor findings", heading, f"Worth less than 3 %: {listed}."))
    return blocks


def _finding(rank: int, finding: Finding, before: Before, priority: int, heading: str) -> list[Block]:
    """Fix, place and gain in one block; why, further places and evidence may be left out."""
    gain = said(words.expectation(finding.estimate))
    lines = [f"{rank + 1}. {finding.code} {said(finding.rule)}: {gain}, confidence {words.percent(finding.confidence)}"]
    if finding.fix:
        lines.append(f"   - fix {said(finding.fix)}")
    places = _places(finding)
    of = f"{heading} {rank}"
    changes = [_change(fix, fixes.earlier(before, finding, fix)) for fix in finding.fixes[:2]]
    blocks = [
        Block(priority, "findings", heading, "\n".join(lines + places[:1]), of=of),
        *(Block(priority + 1, "changes", heading, "\n".join(lines), of=of) for lines in changes[:1]),
        Block(priority + 1, "reasons", heading, "\n".join(_reasons(finding)), of=of),
    ]
    rest = [line for lines in changes[1:] for line in lines] + places[1:]
    if more := words.further(finding, min(len(finding.locations), PLACES)):
        rest.append(f"   - {more}")
    for item in finding.evidence[:8]:
        note = f" ({said(item.note, 120)})" if item.note else ""
        rest.append(f"   - evidence {span(words.evidence(item))}{note}")
    if rest:
        blocks.append(Block(priority + 4, "evidence", heading, "\n".join(rest), of=of))
    return blocks


def _places(finding: Finding) -> list[str]:
    out: list[str] = []
    previous = None
    for place in finding.locations[:PLACES]:
        share = f" {text}" if (text := waited(place)) else ""
        source = f" {span(place.source)}" if place.source and out and place.source != previous else ""
        previous = place.source
        at = f"{span(placed(place))} pc {place.pc:04x}" if place.line else f"pc {place.pc:04x}"
        out.append(f"   - at {at} {span(place.sass or place.opcode)}{share}{source}")
    return out


def _reasons(finding: Finding) -> list[str]:
    """Why, the other ways, the order."""
    first = next((x.source for x in finding.locations[:1] if x.source), "")
    why = [f"   - there {span(first)}"] if first else []
    why += [f"   - because {said(finding.why or finding.title)}"]
    why += [f"   - {'or' if r.applies else 'not'} {said(remedies.remedy(r))}" for r in finding.remedies]
    if finding.order:
        why.append(f"   - order {said(finding.order)}")
    if finding.overlaps:
        why.append(f"   - the same samples or waits as {', '.join(finding.overlaps)}")
    return why


def _change(fix: Fix, earlier: str = "") -> list[str]:
    """A change: what was proved, what is left to check, and its lines; of one told `earlier`, where."""
    if earlier:
        return [f"   - change {said(earlier)}"]
    if fix.refused:
        return [f"   - no code: {said(fixes.head(fix))}"]
    takes = said(fixes.cost(fix)) or "nothing"
    out = [f"   - change {said(fixes.head(fix))}: proved {said(fixes.figures(fix))}; takes {takes}"]
    out += [f"     - check {said(c)}" for c in fixes.conditions(fix, "check", "assumed")]
    out += [f"     - add {span(text)}" for text in fix.code.splitlines()]
    for edit in fix.edits[:EDITS]:
        new = f"becomes {span(edit.becomes.strip())}" if edit.becomes else "goes"
        out.append(f"     - line {edit.line}: {span(edit.was.strip())} {new}")
    if len(fix.edits) > EDITS:
        out.append(f"     - {len(fix.edits) - EDITS} more lines change with these: `kscope fix REPORT` has them all")
    return out
