"""`kscope diff` in the terminal: a table of the pairs, then each as the sentence, the promises, the figures, next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.phrases.diff import faster, gone, kept, most_moved, name_of, paired, ratio, value
from kscope.reports.terminal import Page, pad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.contract.comparison import Change, Comparison, KernelPair, TimelinePair
    from kscope.reports import Options

DETAILED = 3


def render(comparison: Comparison, options: Options) -> str:
    """The comparison at `options.width` columns, ending in a newline."""
    page = Page(max(options.width, 50), color=options.color, unicode=options.unicode)
    pairs = comparison.pairs
    if len(pairs) > 1:
        _table(page, comparison)
    for pair in pairs if options.verbose else pairs[:DETAILED]:
        page.blank()
        _kernel(page, pair, verbose=options.verbose)
    for timeline in comparison.timelines:
        page.blank()
        _timeline(page, timeline)
    if not pairs and not comparison.timelines:
        page.line("No kernel of one side has a partner on the other.")
    page.blank()
    for label, names in (("only before", comparison.only_before), ("only after", comparison.only_after)):
        if names:
            page.paragraph(", ".join(map(one_line, names)), lead=(f"  {label}  ", "dim"), indent=4)
    for note in comparison.notes:
        page.paragraph(one_line(note), lead=("  note  ", "minor"), indent=8)
    for skip in comparison.skipped:
        message = skip.message.removeprefix(f"{skip.input}: ")
        text = f"{one_line(skip.input)}: {one_line(skip.what)}: {one_line(message)}"
        page.paragraph(text, lead=("skipped  ", "overhead"), indent=9)
    return page.text()


def _table(page: Page, comparison: Comparison) -> None:
    whole = f", {faster(comparison.speedup)} together" if comparison.speedup else ""
    page.line((f"{len(comparison.pairs)} kernels on both sides{whole}", "bold"))
    page.blank()
    room = page.width - 50
    page.line((f"    before     after            {pad('kernel', room)} fixed", "dim"))
    for pair in comparison.pairs:
        style = "good" if (pair.speedup or 1) > 1.02 else "critical" if (pair.speedup or 1) < 0.98 else ""
        page.line(
            f"{words.time(pair.before.duration_us):>10} {words.time(pair.after.duration_us):>9}  ",
            (f"{ratio(pair.speedup):>7}", style), "  ", (pad(name_of(pair, room), room), "bold"),
            (" " + ("(a guess)" if pair.guess else " ".join(pair.fixed)), "code"),
        )  # fmt: skip


def _kernel(page: Page, pair: KernelPair, *, verbose: bool) -> None:
    times = f"{words.time(pair.before.duration_us)} -> {words.time(pair.after.duration_us)}"
    old, new = (one_line(k.demangled or k.name) for k in (pair.before, pair.after))
    page.ends([(words.shorten(new, page.width - len(times) - 2), "bold")], (times, "bold"))
    if old != new:
        page.paragraph(old, lead=("  was ", "dim"), indent=6, style="dim")
    if (how := paired(pair)) and not pair.guess:  # which the sentence says
        page.paragraph(how, lead=("  paired ", "dim"), indent=9, style="dim")
    good = (pair.speedup or 1) >= 1
    page.paragraph(one_line(pair.sentence), lead=("  ", ""), indent=2, style="good" if good else "critical")
    for cost in pair.against:
        page.paragraph(one_line(cost), lead=("  against it  ", "critical"), indent=14)
    page.blank()
    for promise in pair.promises:
        lead = f"  fixed  {promise.code} {one_line(promise.rule)}  "
        page.paragraph(kept(promise), lead=(lead, "good"), indent=9)
    _codes(page, "no longer", [c for c in pair.fixed if c not in {p.code for p in pair.promises}], "dim")
    if pair.gone:
        page.paragraph(f"{' '.join(pair.gone)}  {gone(pair)}", lead=("  gone  ", "dim"), indent=8, style="dim")
    _codes(page, "new", pair.new, "minor")
    _codes(page, "still there", pair.remaining, "minor")
    _codes(page, "cannot tell", pair.unknown, "dim")
    _changes(page, pair.changes, verbose=verbose)
    if pair.next:
        gain = f": {words.expectation(pair.next.estimate)}" if pair.next.estimate else ""
        text = f"{pair.next.code} {one_line(pair.next.rule)}{gain}"
        page.paragraph(text, lead=("  next  ", "bold"), indent=8)


def _timeline(page: Page, pair: TimelinePair) -> None:
    page.line((one_line(pair.after.input), "bold"))
    page.paragraph(one_line(pair.sentence), lead=("  ", ""), indent=2)
    for promise in pair.promises:
        lead = f"  fixed  {promise.code} {one_line(promise.rule)}  "
        page.paragraph(kept(promise), lead=(lead, "good"), indent=9)
    _codes(page, "fixed", [c for c in pair.fixed if c not in {p.code for p in pair.promises}], "good")
    _codes(page, "new", pair.new, "minor")
    _codes(page, "still there", pair.remaining, "minor")
    _codes(page, "cannot tell", pair.unknown, "dim")
    _changes(page, pair.changes, verbose=True)
    for what, rows in (("operator", pair.operators), ("kernel", pair.kernels)):
        if rows:
            page.line((f"  GPU time a {pair.per} by {what}", "dim"))
        for row in rows:
            name = words.shorten(words.without_parameters(one_line(row.what)), max(page.width - 36, 20))
            page.line(f"  {value(row.before, row):>12} -> {value(row.after, row):12} ", (name, "dim"))


def _codes(page: Page, label: str, codes: Sequence[str], style: str) -> None:
    if codes:
        page.paragraph(" ".join(codes), lead=(f"  {label}  ", style), indent=9)


def _changes(page: Page, changes: Sequence[Change], *, verbose: bool) -> None:
    rows = list(changes) if verbose else most_moved(changes)
    if not rows:
        return
    page.blank()
    width = max(len(one_line(row.what)) for row in rows)
    for row in rows:
        page.line(f"  {one_line(row.what):{width}}  {value(row.before, row):>12} -> {value(row.after, row)}")
    if left := len(changes) - len(rows):
        page.line((f"  {left} more moved (-v)", "dim"))
    page.blank()
