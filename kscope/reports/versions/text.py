"""`kscope diff A B C` in the terminal: the versions, a table of all kernels, then each kernel version by version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.terminal import Page, pad
from kscope.reports.versions.phrases import headline, labels, limit, moved, ratio, spark

if TYPE_CHECKING:
    from kscope.model.contract.versions import Line, Versions
    from kscope.reports import Options

DETAILED = 5
COLUMNS = 5
"""Times of so many versions stand in the table, the last ones."""


def render(found: Versions, options: Options) -> str:
    """The versions at `options.width` columns, ending in a newline."""
    page = Page(max(options.width, 50), color=options.color, unicode=options.unicode)
    page.paragraph(headline(found), style="bold")
    for version, name in zip(found.versions, labels(found), strict=True):
        page.paragraph(name, lead=(f"  {version.number:>2}  ", "dim"), indent=6)
    if len(found.lines) > 1:
        page.blank()
        _table(page, found)
    for line in found.lines if options.verbose else found.lines[:DETAILED]:
        page.blank()
        _line(page, line)
    if (left := len(found.lines) - DETAILED) > 0 and not options.verbose:
        page.blank()
        page.line((f"{left} more, version by version: -v", "dim"))
    page.blank()
    for note in found.notes:
        page.paragraph(one_line(note), lead=("  note  ", "minor"), indent=8)
    for skip in found.skipped:
        text = f"{one_line(skip.input)}: {one_line(skip.what)}: {one_line(skip.message)}"
        page.paragraph(text, lead=("  skipped  ", "overhead"), indent=9)
    return page.text()


def _table(page: Page, found: Versions) -> None:
    shown = found.versions[-max(1, min(COLUMNS, (page.width - 42) // 10)) :]
    room = max(page.width - 10 * len(shown) - 24, 12)
    head = "".join(f"{f'{v.number}':>10}" for v in shown)
    page.line((f"  {pad('', room)}{head}  on first  before", "dim"))
    for line in found.lines:
        times = {s.version: words.time(s.time_us) for s in line.standings}
        last = line.standings[-1]
        here = last if last.version == found.versions[-1].number else None
        page.line(
            "  ", (pad(words.shorten(words.without_parameters(one_line(line.name)), room), room), "bold"),
            "".join(f"{times.get(v.number, '-'):>10}" for v in shown),
            (f"{ratio(here.on_first) if here else '':>10}", _tone(here.on_first if here else None)),
            (f"{ratio(here.on_before) if here else '':>8}", _tone(here.on_before if here else None)),
        )  # fmt: skip


def _line(page: Page, line: Line) -> None:
    each = "" if line.kind == "kernel" else f" (a {line.per})"
    drawn = spark([s.time_us for s in line.standings])
    page.line((words.shorten(one_line(line.name), page.width - len(drawn) - len(each) - 4), "bold"), each, f"  {drawn}")
    page.line(("   v       time   first  before  limit", "dim"))
    best = min((s.time_us for s in line.standings if s.time_us), default=None)
    for one in line.standings:
        mark = "*" if one.time_us is not None and one.time_us == best else " "
        page.line(
            f" {mark}{one.version:>2} {words.time(one.time_us):>10} ",
            (f"{ratio(one.on_first):>7}", _tone(one.on_first)), " ",
            (f"{ratio(one.on_before):>7}", _tone(one.on_before)), f"  {limit(one)}",
        )  # fmt: skip
        if said := moved(one):
            page.paragraph(said, lead=(" " * 32, ""), indent=32, style="dim")
    if last := line.standings[-1].next:
        page.line(("    next  ", "bold"), last)


def _tone(speedup: float | None) -> str:
    return "good" if (speedup or 1) > 1.02 else "critical" if (speedup or 1) < 0.98 else ""
