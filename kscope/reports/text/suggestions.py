"""The ranked suggestions of the terminal report: what, why with numbers, where, fix, expected gain and its cap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.phrases import fixes, order, remedies, silence
from kscope.reports.phrases.places import waited
from kscope.reports.phrases.places import where as placed
from kscope.reports.terminal import Page, Segment, cells, clip

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Finding, Fix, JobAnalysis, KernelAnalysis, TimelineAnalysis

Before = Mapping[tuple[str, int], str]
PLACES_SHOWN = 2
FIXES_SHOWN = 2
LINES_SHOWN = 4
INDENT = 5


def suggestions(page: Page, kernel: KernelAnalysis | TimelineAnalysis | JobAnalysis, *, verbose: bool) -> None:
    """Findings in the engine's order, numbered; those of severity info folded into one paragraph."""
    ranked = [f for f in kernel.findings if f.severity != "info"]
    info = [f for f in kernel.findings if f.severity == "info"]
    if (why := order.order(kernel.findings)) and why != order.PLAIN:
        page.blank()
        page.paragraph(why, lead=("  order  ", "dim"), indent=9, style="dim")
    before = fixes.told_before(kernel.findings)
    for rank, finding in enumerate(ranked, 1):
        page.blank()
        _suggestion(page, str(rank), finding, before, verbose=verbose)
    if not ranked:
        page.blank()
        style = "good" if silence.contented(kernel) else "overhead"
        page.paragraph(f"No suggestion: {silence.nothing(kernel)}.", lead=("  ", ""), indent=2, style=style)
    if info and verbose:
        for finding in info:
            page.blank()
            _suggestion(page, "-", finding, {}, verbose=True)
    elif info:
        page.blank()
        listed = ", ".join(f"{one_line(f.rule)} {f.code}" for f in info)
        page.paragraph(listed, lead=("  minor or for information  ", "dim"), indent=INDENT, style="dim")


def _suggestion(page: Page, rank: str, finding: Finding, before: Before, *, verbose: bool) -> None:
    left: list[Segment] = [
        (f" {rank:>2}  ", "bold"), (one_line(finding.rule), finding.severity), ("  ", ""), (finding.code, "code"),
    ]  # fmt: skip
    expect = words.expectation(finding.estimate)
    if not page.ends(left, (expect, "bold")):
        page.line(*left)
        page.paragraph(expect, lead=(" " * INDENT, ""), indent=INDENT, style="bold")
    page.paragraph(one_line(finding.why) or one_line(finding.title), lead=(" " * INDENT, ""), indent=INDENT)
    if finding.overlaps:
        codes = ", ".join(one_line(c) for c in finding.overlaps)
        text = f"explains the same samples or waits as {codes}: the gains do not add"
        page.paragraph(text, lead=(" " * INDENT, ""), indent=INDENT, style="dim")
    if finding.order:
        page.paragraph(one_line(finding.order), lead=("     order ", "dim"), indent=INDENT + 6)
    if verbose:
        for item in finding.evidence:
            note = f"  ({one_line(item.note)})" if item.note else ""
            page.paragraph(words.evidence(item) + note, lead=("     proof ", "dim"), indent=INDENT + 6)
    _places(page, finding, verbose=verbose)
    if finding.fix:
        page.paragraph(one_line(finding.fix), lead=("     fix   ", "good"), indent=INDENT + 6)
    for remedy in finding.remedies:
        lead = ("     or    ", "good") if remedy.applies else ("     not   ", "dim")
        page.paragraph(one_line(remedies.remedy(remedy)), lead=lead, indent=INDENT + 6)
    changes(page, finding, before, verbose=verbose)
    weight = f"  ({finding.severity}, confidence {words.percent(finding.confidence)})"
    page.line(" " * (INDENT + 6), (f"kscope explain {finding.code}", "code"), (weight, "dim"))


def changes(page: Page, finding: Finding, before: Before, *, verbose: bool) -> None:
    """The changes that mend it, best first: what was proved, what it takes, and of the first one the lines; of one that
    an earlier finding told, where."""
    for n, fix in enumerate(finding.fixes if verbose else finding.fixes[:FIXES_SHOWN]):
        lead = ("     not   ", "dim") if fix.refused else ("     code  ", "good") if n == 0 else ("     or    ", "good")
        earlier = fixes.earlier(before, finding, fix)
        page.paragraph(earlier or fixes.head(fix), lead=lead, indent=INDENT + 6)
        if fix.refused or earlier:
            continue
        told = "; ".join(part for part in (fixes.figures(fix), fixes.cost(fix)) if part)
        page.paragraph(told, lead=(" " * (INDENT + 6), ""), indent=INDENT + 6, style="dim")
        if n == 0:
            _lines(page, fix, LINES_SHOWN if not verbose else len(fix.edits) + len(fix.code))
        for condition in fixes.conditions(fix, *(() if verbose else ("check",))):
            page.paragraph(condition, lead=(" " * (INDENT + 6) + "if ", "dim"), indent=INDENT + 9, style="dim")


def _lines(page: Page, fix: Fix, most: int) -> None:
    room = page.width - INDENT - 9
    shown: list[tuple[fixes.Sign, str]] = [("+", text) for text in fix.code.splitlines()]
    for edit in fix.edits:
        shown += fixes.signed(edit)
    for sign, text in shown[:most]:
        line = f"{sign} {clip(one_line(text).strip(), room)}"
        page.line(" " * (INDENT + 6), (line, "code" if sign == "+" else "dim"))
    if len(shown) > most:
        page.line((" " * (INDENT + 6) + f"... {fixes.extent(fix)} in all: kscope fix REPORT", "dim"))


def _places(page: Page, finding: Finding, *, verbose: bool) -> None:
    locations = finding.locations
    kept = locations if verbose else locations[:PLACES_SHOWN]
    previous = None
    for location in kept:
        where = placed(location, full=verbose)
        sass = one_line(location.sass or location.opcode)
        share = waited(location)
        lead: list[Segment] = [("     at    ", "dim"), (where, "code"), ("  ", "")]
        room = page.width - sum(cells(text) for text, _ in lead) - cells(share) - 2
        if page.cuts and not verbose and room >= 12:
            sass = clip(sass, room)
        if cells(sass) <= room:
            page.ends([*lead, (sass, "")], (share, "dim"))
        else:
            page.paragraph(where, lead=lead[0], indent=INDENT + 6, style="code")
            page.paragraph(f"{sass}  {share}", lead=(" " * (INDENT + 6), ""), indent=INDENT + 8)
        if location.source and where != previous:
            page.line(" " * (INDENT + 8), (one_line(location.source), "dim"))
        previous = where
    if more := words.further(finding, len(kept)):
        page.line((f"           {more}", "dim"))
