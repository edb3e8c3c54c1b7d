"""`kscope log trend`: each figure over the versions, as text, CSV and a page."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.escape import html_text
from kscope.reports.terminal import Page, pad
from kscope.reports.versions.page import small, whole
from kscope.reports.versions.phrases import faster, spark

if TYPE_CHECKING:
    from kscope.worklog.trend import Figure, Trend


def render(page: Page, trend: Trend, *, verbose: bool) -> None:
    """What moved, or with verbose everything: first, the way as bars, last, and by what factor."""
    versions, figures = trend.versions, trend.figures
    page.line((words.shorten(one_line(trend.kernel), page.width), "bold"))
    page.line((headline(trend), "dim"))
    page.blank()
    shown = [f for f in figures if f.moved or verbose]
    wide, room = len(versions), max((len(f.name) for f in shown), default=8)
    page.line((f"  {pad('', room)}  {'first':>12}  {pad('', wide)}  {'last':>12}", "dim"))
    for figure in shown:
        page.line(
            f"  {pad(figure.name, room)}  {value(figure, 0):>12}  ", (spark(figure.values), "bar"),
            f"  {value(figure, -1):>12}  ", (change(figure), "dim"),
        )  # fmt: skip
    if left := len(figures) - len(shown):
        page.blank()
        page.line((f"  {left} figures did not move (-v)", "dim"))
    page.blank()
    for version in versions:
        said = one_line(version.message.partition("\n")[0])
        aside = ", set aside" if version.status == "set aside" else ""
        text = f"{words.limiter(one_line(version.limiter))}{aside}{f': {said}' if said else ''}"
        page.paragraph(text, lead=(f"  {version.number:>3}  ", "dim"), indent=7)


def headline(trend: Trend) -> str:
    """4 versions; the last is 3.20x faster than the first"""
    times = next(f.values for f in trend.figures if f.name == "time")
    count = f"{len(trend.versions)} version{'' if len(trend.versions) == 1 else 's'}"
    first, last = times[0], times[-1]
    return f"{count}; the last is {faster(first / last)} the first" if len(times) > 1 and first and last else count


def value(figure: Figure, index: int) -> str:
    """A figure of one version in its unit; `-` where its report has none."""
    number = figure.values[index]
    if number is None:
        return "-"
    if figure.measure == "us":
        return words.time(number)
    if figure.measure == "x":
        return words.times(number)
    if figure.measure in ("FLOP/s", "B/s", "B"):
        return words.si(number, figure.measure)
    if abs(number) >= 1e6:  # sectors, cycles: their name says what is counted
        return words.si(number, "")
    return f"{words.number(number)} {figure.measure}".rstrip()


def change(figure: Figure) -> str:
    """Percentages in points, everything else as a factor; empty where it did not move or an end is unknown."""
    first, last = figure.values[0], figure.values[-1]
    if first is None or last is None or not figure.moved:
        return ""
    if figure.measure == "%":
        return f"{last - first:+.0f} points"
    return f"{last / first:.3g} times" if first else ""


def as_csv(trend: Trend) -> str:
    """A row a version, a column a figure with its unit."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    units = [f"{f.name} ({f.measure})" if f.measure else f.name for f in trend.figures]
    writer.writerow(["version", "message", "added", "status", "limiter", *units])
    for i, v in enumerate(trend.versions):
        rest = ["" if f.values[i] is None else f.values[i] for f in trend.figures]
        writer.writerow([v.number, one_line(v.message), v.added, v.status, v.limiter, *rest])
    return out.getvalue()


def as_page(trend: Trend) -> str:
    """Small pictures of what moved, then all figures as a table."""
    moved = [f for f in trend.figures if f.moved]
    charts = "".join(small(f.name, f.values, [value(f, i) for i in range(len(f.values))]) for f in moved)
    head = "".join(f'<th scope="col" class="num">{v.number}</th>' for v in trend.versions)
    rows = "".join(
        f'<tr><th scope="row">{html_text(f.name)}</th>'
        + "".join(f'<td class="num">{html_text(value(f, i))}</td>' for i in range(len(f.values)))
        + f"<td>{html_text(change(f))}</td></tr>"
        for f in trend.figures
    )
    listed = "".join(
        f'<li value="{v.number}">{html_text(one_line(v.message) or "no message")}'
        f' <span class="dim">{html_text(words.limiter(one_line(v.limiter)))}'
        f"{', set aside' if v.status == 'set aside' else ''}</span></li>"
        for v in trend.versions
    )
    table = f'<table><thead><tr><th scope="col">figure</th>{head}<th scope="col">first to last</th></tr></thead>' \
            f"<tbody>{rows}</tbody></table>"  # fmt: skip
    name = words.without_parameters(one_line(trend.kernel)).removeprefix("void ")
    body = (
        f'<h1>{html_text(name)}</h1><p class="dim">{html_text(headline(trend))}</p><ol class="versions">{listed}</ol>'
        f'<section><h2>What moved</h2><div class="figures">{charts}</div></section><section><h2>All figures</h2>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="all figures">{table}</div></section>'
    )
    return whole(f"{name} over its versions - kscope", body, trend.kscope)
