"""A job of several ranks in the terminal report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.phrases.job import HEAD, about, late, row, size, spends
from kscope.reports.phrases.timeline import badge
from kscope.reports.text.suggestions import suggestions

if TYPE_CHECKING:
    from kscope.model.contract.analysis import JobAnalysis
    from kscope.reports.terminal import Page

RANKS_SHOWN = 16


def render(page: Page, job: JobAnalysis, *, verbose: bool) -> None:
    """The terminal report."""
    page.line((f"{words.middle(one_line(job.name), page.width - 24)}: {size(job)}", "bold"))
    page.paragraph(about(job), lead=("  ", ""), indent=2, style="dim")
    page.blank()
    word, sentence, style = badge(job)
    page.paragraph(sentence, lead=(f"  {word} ", style), indent=2)
    page.paragraph(spends(job), lead=("  ", ""), indent=2, style="dim")
    page.blank()
    rows = [row(r) for r in (job.ranks if verbose else job.ranks[:RANKS_SHOWN])]
    widths = [max(len(cells[i]) for cells in [list(HEAD), *rows]) for i in range(len(HEAD))]
    for number, cells in enumerate([list(HEAD), *rows]):
        text = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        page.line((f"  {text}", "" if number else "dim"))
    if left := len(job.ranks) - len(rows):
        page.line((f"  {left} more (kscope analyze -v)", "dim"))
    for line in late(job):
        page.paragraph(line, lead=("  ", ""), indent=4, style="dim")
    suggestions(page, job, verbose=verbose)
    page.blank()
    for note in job.notes:
        page.paragraph(one_line(note), lead=("  note  ", "dim"), indent=8)
    for error in job.errors:
        page.paragraph(one_line(error.message), lead=(f"  {error.code} failed  ", "critical"), indent=4)
