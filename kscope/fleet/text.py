"""The fleet in a terminal: what costs most, what got slower, what was left out. Everything that a report called itself
is one printable line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kscope.fleet.view import FleetKernel, FleetReport, Moved, Share
from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.terminal import Page, pad

SHOWN = 10


def render(report: FleetReport, *, width: int, color: bool, unicode: bool, verbose: bool = False) -> str:
    """The page. verbose: all rows."""
    page = Page(width=width, color=color, unicode=unicode)
    shown = None if verbose else SHOWN
    page.paragraph(headline(report), style="bold")
    page.paragraph(scope(report), lead=("  ", ""), indent=2, style="dim")
    _causes(page, report, shown)
    _kernels(page, report.kernels, shown)
    _moved(page, "What got slower", report.slower, shown)
    _moved(page, "What got faster", report.faster, shown)
    _delivered(page, report, shown)
    for title, shares in (("By chip", report.chips), ("By model", report.models), ("By job", report.jobs)):
        _shares(page, title, shares[:shown])
    _clusters(page, report, shown)
    if report.idle:
        _head(page, "Idle GPU time in recordings of programs")
        for one in report.idle[:shown]:
            page.line(f"  {words.time(one.idle_us):>9}  {one.cause.replace('_', ' ')}, {one.timelines:,} recordings")
    _coverage(page, report, shown)
    return page.text()


def headline(report: FleetReport) -> str:
    """One sentence: what there is, and what it could save."""
    t = report.totals
    share = words.percent(t.saved_us / t.gpu_us) if t.gpu_us else "0 %"
    if not t.kernels:
        return f"{t.inputs:,} inputs, no profiled kernel"
    lasting = sum(m.lasts for m in report.slower)
    slower = f"; {lasting:,} of them got slower and still are" if lasting else ""
    return (
        f"{len(report.kernels):,} kernels take {words.time(t.gpu_us)} of GPU time, {words.time(t.saved_us)} of it "
        f"({share}) has a cause that is known{slower}"
    )


def scope(report: FleetReport) -> str:
    """What the figures are of."""
    t = report.totals
    when = f", recorded {t.first} to {t.last} UTC" if t.first else ""
    return (
        f"{t.inputs:,} inputs with {t.kernels:,} kernels and {t.timelines:,} timelines{when}; {t.refused:,} refused. "
        "Times are of each kernel on the last day it was seen. A kernel's saving is its time times the gain of its "
        "best finding, capped by the next limit; promises of one kernel are never added."
    )


def _head(page: Page, title: str) -> None:
    page.blank()
    page.line((title, "bold"))


def _causes(page: Page, report: FleetReport, shown: int | None) -> None:
    if not report.causes:
        return
    _head(page, "Where the GPU time goes")
    page.line(("  would save   of GPU time  kernels  cause", "dim"))
    for one in report.causes[:shown]:
        saved = words.time(one.saved_us) if one.code else "-"
        page.line(f"  {saved:>10} {words.time(one.gpu_us):>13} {one.kernels:>8,}  ", (one.code or "", "code"),
                  f"{'  ' if one.code else ''}{one_line(one.title)}")  # fmt: skip
    _more(page, report.causes, shown)


def _kernels(page: Page, kernels: Sequence[FleetKernel], shown: int | None) -> None:
    if not kernels:
        return
    _head(page, "Kernels that matter")
    for one in kernels[:shown]:
        name = words.shorten(words.without_parameters(one_line(one.names[0])), max(page.width - 44, 16))
        also = f" (+{len(one.names) - 1} names)" if len(one.names) > 1 else ""
        page.line(f"  {words.time(one.saved_us):>9} of {words.time(one.gpu_us):>9}  ", (name, "bold"), also)
        shapes = f", {one.shapes} shapes" if one.shapes > 1 else ""
        step = one.next or "nothing to follow"
        page.paragraph(one_line(f"{step}; {one.chip}{shapes}"), lead=("      ", ""), indent=6, style="dim")
    _more(page, kernels, shown)


def _moved(page: Page, title: str, moved: Sequence[Moved], shown: int | None) -> None:
    if not moved:
        return
    _head(page, title)
    for one in moved[:shown]:
        name = words.shorten(words.without_parameters(one_line(one.name)), max(page.width - 50, 16))
        factor = f"{one.ratio:.2f}x" if one.ratio > 1 else f"1/{1 / one.ratio:.2f}"
        since = one.since[:10] + (f" ({one_line(one.commit)[:10]})" if one.commit else "")
        page.line(f"  {since:<23} {factor:>6}  ", (name, "bold"), "" if one.lasts else "  (over)")
        where = f"{words.time(one.before_us)} to {words.time(one.after_us)}, grid {one.grid}, {one.chip}"
        labels = "".join(f", {label}" for label in (one.job, one.model) if label)
        page.paragraph(one_line(f"{where}{labels}: {one.cause}"), lead=("      ", ""), indent=6, style="dim")
    _more(page, moved, shown)


def _delivered(page: Page, report: FleetReport, shown: int | None) -> None:
    if not report.delivered:
        return
    held = sum(one.held for one in report.delivered)
    _head(page, f"Promises: of {len(report.delivered):,} gains whose finding went, {held:,} are within its bounds")
    for one in report.delivered[:shown]:
        name = words.shorten(words.without_parameters(one_line(one.name)), max(page.width - 52, 16))
        said = f"promised {words.times(one.promised)} ({words.times(one.low)} to {words.times(one.high)})"
        page.line("  ", (one.code, "code"), f"  {said}, got {words.times(one.got)}  ", name)
    _more(page, report.delivered, shown)


def _shares(page: Page, title: str, shares: Sequence[Share]) -> None:
    if len(shares) < 2:
        return
    _head(page, title)
    for one in shares:
        saved = f"{words.time(one.saved_us)} would be saved"
        page.line(f"  {words.time(one.gpu_us):>9}  {pad(one_line(one.name), 28)} {one.kernels:>7,} kernels, {saved}")


def _clusters(page: Page, report: FleetReport, shown: int | None) -> None:
    if report.clusters:
        _head(page, "Kernels with the same cause")
        for one in report.clusters[:shown]:
            names = ", ".join(words.shorten(words.without_parameters(one_line(n)), 24) for n in one.names[:3])
            page.line(f"  {one.kernels:>5,} kernels  ", (one.code, "code"), f"  {words.limiter(one.limiter)}: {names}"
                      + (", ..." if len(one.names) > 3 else ""))  # fmt: skip
        _more(page, report.clusters, shown)
    for same in report.renamed[:shown]:
        names = ", ".join(words.shorten(words.without_parameters(one_line(n)), 28) for n in same.names[:4])
        page.line(f"  same code  {same.code[:10]}  {names}")


def _coverage(page: Page, report: FleetReport, shown: int | None) -> None:
    c = report.coverage
    _head(page, "What this stands on")
    kinds = ", ".join(f"{n:,} {kind}" for kind, n in c.by_kind.items())
    page.paragraph(
        f"{kinds or 'no inputs'}; {c.series:,} series, {c.short_series:,} with too few runs to tell a change; "
        f"{c.without_code:,} kernels without machine code, {c.without_time:,} without a time; "
        f"{c.parts_left_out:,} parts of inputs left out.", lead=("  ", ""), indent=2,
    )  # fmt: skip
    for one in c.refusals[:shown]:
        page.paragraph(one_line(f"{one.count:,} refused, {one.code}: {one.message} ({one.example})"), lead=("  ", ""),
                       indent=4)  # fmt: skip
    _more(page, c.refusals, shown)


def _more(page: Page, rows: Iterable[object], shown: int | None) -> None:
    left = len(list(rows)) - shown if shown is not None else 0
    if left > 0:
        page.line((f"  {left:,} more (-v, or -o fleet.html)", "dim"))
