"""A normalised SASS diff for people: what changed in figures and findings, then the lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.terminal import Page, pad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.contract.comparison import Change
    from kscope.model.contract.sass_diff import FunctionDiff, SassComparison, SassLine
    from kscope.reports import Options

MARKS = {"same": (" ", "dim"), "changed": ("~", "major"), "removed": ("-", "critical"), "added": ("+", "good")}
LINES = 200  # of one function, without --verbose


def render_sass_diff(comparison: SassComparison, options: Options) -> str:
    """The comparison at `options.width` columns, ending in a newline."""
    page = Page(max(options.width, 60), color=options.color, unicode=options.unicode)
    same = [f for f in comparison.functions if f.identical]
    different = [f for f in comparison.functions if not f.identical]
    for number, function in enumerate(different):
        if number:
            page.blank()
        _function(page, function, options)
    if different:
        page.blank()
    elif comparison.functions:
        page.line("No instruction differs: registers and addresses renamed, the code is the same.")
    if same:
        names = ", ".join(words.shorten(one_line(f.demangled), 40) for f in same)
        page.paragraph(names, lead=(f"{len(same)} the same  ", "dim"), indent=4)
    for label, lost in (("only before", comparison.only_before), ("only after", comparison.only_after)):
        if lost:
            page.paragraph(", ".join(map(one_line, lost)), lead=(f"{label}  ", "dim"), indent=4)
    for one in comparison.added:
        if one.findings:
            codes = ", ".join(f.code for f in one.findings)
            page.paragraph(f"{codes} in {one_line(one.demangled)}", lead=("new  ", one.findings[0].severity), indent=5)
    for note in comparison.notes:
        page.paragraph(one_line(note), lead=("note  ", "minor"), indent=6)
    if not comparison.functions:
        page.line("No function of one side has a partner on the other.")
    return page.text()


def _function(page: Page, function: FunctionDiff, options: Options) -> None:
    counts = f"-{function.removed} +{function.added} ~{function.changed} ={function.same}"
    page.ends(
        [(words.shorten(one_line(function.demangled), page.width - len(counts) - 2), "bold")], (counts, "bold")
    )
    if function.before != function.after:
        page.paragraph(one_line(function.before), lead=("  was ", "dim"), indent=6, style="dim")
    if function.matched_by == "elimination":
        page.paragraph("these two alone were left: that they are one function is a guess; --match OLD=NEW says it",
                       lead=("  guess  ", "minor"), indent=9)  # fmt: skip
    elif function.matched_by in ("by hand", "code"):
        how = "by --match" if function.matched_by == "by hand" else "by their code, which is alike"
        page.paragraph(how, lead=("  paired  ", "dim"), indent=10, style="dim")
    for label, changes in (("", function.figures), ("mix  ", function.mix), ("memory  ", function.accesses)):
        if changes:
            page.paragraph(_changes(changes), lead=(f"  {label}", "dim"), indent=4)
    if function.fixed:
        page.paragraph(", ".join(function.fixed), lead=("  fixed  ", "good"), indent=9)
    for finding in function.new:
        text = f"{finding.code} {one_line(finding.title)}"
        page.paragraph(text, lead=("  new  ", finding.severity), indent=7)
    if function.remaining:
        page.paragraph(", ".join(function.remaining), lead=("  remains  ", "dim"), indent=11)
    shown = 0
    for hunk in function.hunks:
        page.blank()
        for line in hunk:
            if shown >= LINES and not options.verbose:
                left = sum(map(len, function.hunks)) - shown
                page.line((f"  ... {left} more lines (kscope diff -v shows them)", "dim"))
                return
            _line(page, line)
            shown += 1


def _changes(changes: Sequence[Change]) -> str:
    return ", ".join(f"{c.what} {words.number(c.before)} -> {words.number(c.after)}" for c in changes)


def _line(page: Page, line: SassLine) -> None:
    mark, style = MARKS[line.kind]
    room = page.width - 16
    before = "" if line.before_pc is None else f"{line.before_pc:04x}"
    after = "" if line.after_pc is None else f"{line.after_pc:04x}"
    text = one_line(line.after or line.before or "")
    page.line((f"{mark} {before:>5} {after:>5}  ", style), (pad(text, room).rstrip(), "" if mark == " " else style))
    if line.kind == "changed" and line.before != line.after:
        page.line((f"  {'':>5} {'':>5}  ", style), (pad(f"was {one_line(line.before or '')}", room).rstrip(), "dim"))
