"""The joined verdict in the terminal report: sentence, kernels, ranked suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.phrases.joined import about, badge, bound, parts_of, place, unused
from kscope.reports.terminal import Page, pad

if TYPE_CHECKING:
    from kscope.model.contract.analysis import JoinedAnalysis

KERNELS_SHOWN = 8
SUGGESTIONS_SHOWN = 6


def render(page: Page, joined: JoinedAnalysis, *, verbose: bool) -> None:
    """The terminal's section."""
    page.line(("The program", "bold"))
    page.paragraph(about(joined), lead=("  ", ""), indent=2, style="dim")
    page.blank()
    word, sentence, style = badge(joined)
    page.paragraph(sentence, lead=(f"  {word} ", style), indent=2)
    if joined.verdict is not None and (verbose or joined.verdict.confidence < words.UNSURE):
        page.line((f"  confidence {words.percent(joined.verdict.confidence)}", "dim"))
    page.blank()
    shown = joined.kernels if verbose else joined.kernels[:KERNELS_SHOWN]
    room = max((page.width - 34) // 2, 12)
    page.line((f"  share      time   count  {pad('kernel', room)} bound by", "dim"))
    for kernel in shown:
        name = words.shorten(words.without_parameters(kernel.name), room)
        page.line(
            f"  {words.percent(kernel.share):>5} {words.time(kernel.total_us):>9} {kernel.count:>7}  ",
            (pad(name, room), "bold"), " ", (bound(kernel), kernel.regime or "dim"),
        )  # fmt: skip
    if left := len(joined.kernels) - len(shown):
        page.line((f"  {left} more (kscope analyze -v)", "dim"))
    if text := unused(joined):
        page.paragraph(text, lead=("  ", ""), indent=2, style="dim")
    for rank, one in enumerate(joined.suggestions if verbose else joined.suggestions[:SUGGESTIONS_SHOWN], 1):
        page.blank()
        expect = words.expectation(one.estimate)
        left_side = [(f" {rank:>2}  ", "bold"), (one_line(one.rule), one.severity), (f"  {one.code}  ", "code"),
                     (words.middle(place(one), 30), "")]  # fmt: skip
        if not page.ends(left_side, (expect, "bold")):
            page.line(*left_side)
            page.paragraph(expect, lead=("     ", ""), indent=5, style="bold")
        page.paragraph(one_line(one.title), lead=("     ", ""), indent=5)
        if parts := parts_of(one):
            page.paragraph(parts, lead=("     ", ""), indent=5, style="dim")
        page.paragraph(one_line(one.fix), lead=("     fix   ", "good"), indent=11)
