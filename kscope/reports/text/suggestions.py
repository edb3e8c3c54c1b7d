"""The ranked suggestions of the terminal report: what, why with numbers, where, fix, expected gain and its cap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.phrases import silence
from kscope.reports.terminal import Page, Segment, cells, clip

if TYPE_CHECKING:
    from kscope.model.analysis import Finding, JobAnalysis, KernelAnalysis, Location, TimelineAnalysis

PLACES_SHOWN = 2
INDENT = 5


def suggestions(page: Page, kernel: KernelAnalysis | TimelineAnalysis | JobAnalysis, *, verbose: bool) -> None:
    """Findings in the engine's order, numbered; those of severity info folded into one paragraph."""
    ranked = [f for f in kernel.findings if f.severity != "info"]
    info = [f for f in kernel.findings if f.severity == "info"]
    for rank, finding in enumerate(ranked, 1):
        page.blank()
        _suggestion(page, str(rank), finding, verbose=verbose)
    if not ranked:
        page.blank()
        style = "good" if silence.looked(kernel) else "overhead"
        page.line((f"  No suggestion: {silence.nothing(kernel)}.", style))
    if info and verbose:
        for finding in info:
            page.blank()
            _suggestion(page, "-", finding, verbose=True)
    elif info:
        page.blank()
        listed = ", ".join(f"{one_line(f.rule)} {f.code}" for f in info)
        page.paragraph(listed, lead=("  minor or for information  ", "dim"), indent=INDENT, style="dim")


def _suggestion(page: Page, rank: str, finding: Finding, *, verbose: bool) -> None:
    left: list[Segment] = [
        (f" {rank:>2}  ", "bold"), (one_line(finding.rule), finding.severity), ("  ", ""), (finding.code, "code"),
    ]  # fmt: skip
    expect = words.expectation(finding.estimate)
    if not page.ends(left, (expect, "bold")):
        page.line(*left)
        page.paragraph(expect, lead=(" " * INDENT, ""), indent=INDENT, style="bold")
    page.paragraph(one_line(finding.why) or one_line(finding.title), lead=(" " * INDENT, ""), indent=INDENT)
    if finding.overlaps:
        text = f"explains the same samples as {', '.join(one_line(c) for c in finding.overlaps)}: the gains do not add"
        page.paragraph(text, lead=(" " * INDENT, ""), indent=INDENT, style="dim")
    if verbose:
        for item in finding.evidence:
            note = f"  ({one_line(item.note)})" if item.note else ""
            page.paragraph(words.evidence(item) + note, lead=("     proof ", "dim"), indent=INDENT + 6)
    _places(page, finding.locations, verbose=verbose)
    if finding.fix:
        page.paragraph(one_line(finding.fix), lead=("     fix   ", "good"), indent=INDENT + 6)
    weight = f"  ({finding.severity}, confidence {words.percent(finding.confidence)})"
    page.line(" " * (INDENT + 6), (f"kscope explain {finding.code}", "code"), (weight, "dim"))


def _places(page: Page, locations: list[Location], *, verbose: bool) -> None:
    kept = locations if verbose else locations[:PLACES_SHOWN]
    previous = None
    for location in kept:
        where = words.place(location, full=verbose)
        sass = one_line(location.sass or location.opcode)
        share = f"{words.percent(location.share)} of samples" if location.share is not None else ""
        lead: list[Segment] = [("     at    ", "dim"), (where, "code"), ("  ", "")]
        room = page.width - sum(cells(text) for text, _ in lead) - cells(share) - 2
        if not verbose and room >= 12:
            sass = clip(sass, room)
        if cells(sass) <= room:
            page.ends([*lead, (sass, "")], (share, "dim"))
        else:
            page.paragraph(where, lead=lead[0], indent=INDENT + 6, style="code")
            page.paragraph(f"{sass}  {share}", lead=(" " * (INDENT + 6), ""), indent=INDENT + 8)
        if location.source and where != previous:
            page.line(" " * (INDENT + 8), (one_line(location.source), "dim"))
        previous = where
    if left_out := len(locations) - len(kept):
        shares = [x.share for x in locations if x.share is not None]
        total = f", {words.percent(min(sum(shares), 1.0))} of samples in all" if shares else ""
        page.line((f"           +{left_out} more{total}", "dim"))

