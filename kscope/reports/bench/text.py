"""A result in a terminal: the sentence, what was caught, the times, what failed."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.bench.values.result import Check, Finding, Result, Timing, Variant
from kscope.bench.values.variants import label
from kscope.bench.values.words import dims_of
from kscope.model.errors import one_line
from kscope.reports.bench.variants import best, cells
from kscope.reports.terminal import Page

FEW = 8  # failed checks that are shown


def text(result: Result, *, width: int, color: bool, unicode: bool) -> str:
    page = Page(width, color=color, unicode=unicode)
    page.paragraph(one_line(result.sentence), lead=("", ""))
    page.line((one_line(f"{result.candidate} against {result.baseline}, on {result.device}"), "dim"))
    if result.findings:
        page.blank()
    for one in result.findings:
        _finding(page, one)
    if result.timings:
        page.blank()
        _timings(page, result.timings)
    if result.variants:
        page.blank()
        _variants(page, result.variants)
    failed = [one for one in result.checks if not one.ok]
    if result.checks:
        page.blank()
        page.line((f"{len(result.checks) - len(failed)} of {len(result.checks)} checks pass", "dim"))
    for check in failed[:FEW]:
        page.paragraph(one_line(words(check)), lead=("  wrong  ", "overhead"), indent=9)
    for note in result.notes:
        page.paragraph(one_line(note), lead=("  note   ", "dim"), indent=9)
    if result.clocks is not None and result.clocks.sm_mhz:
        page.line((_clocks(result), "dim"))
    return page.text()


def words(one: Check) -> str:
    """A check in one line."""
    what = f"{dims_of(one.dims)} {one.dtype}, {one.inputs}"
    numbers = (
        f": error {one.error:.3g}, bound {one.bound:.3g}" if one.error is not None and one.bound is not None else ""
    )
    place = f" at {one.index}" if one.index else ""
    return f"{what}{numbers}{place}" + (f": {one.says}" if one.says else "")


def row(one: Timing) -> list[str]:
    """shape, cache, candidate, baseline, ratio."""
    ratio = f"{one.ratio:.3f}x ({one.low:.3f}-{one.high:.3f})" if one.ratio is not None else ""
    return [
        f"{dims_of(one.dims)} {one.dtype}",
        one.cache + (" graph" if one.mode == "graph" else ""),
        f"{one.candidate_us:.4g} us",
        f"{one.baseline_us:.4g} us" if one.baseline_us is not None else "",
        ratio,
        one.verdict,
    ]


def _finding(page: Page, one: Finding) -> None:
    style = "overhead" if one.standing == "caught" else "dim"
    number = f"cheat {one.cheat}" if one.cheat else "note"
    page.paragraph(one_line(f"{one.name}: {one.evidence}"), lead=(f"  {number:9} {one.standing:7} ", style), indent=20)
    page.paragraph(one_line(one.how), lead=("                    seen by ", "dim"), indent=28, style="dim")


def _timings(page: Page, timings: Sequence[Timing]) -> None:
    table = [["shape", "cache", "candidate", "baseline", "ratio", ""], *(row(one) for one in timings)]
    _table(page, table)


def _variants(page: Page, variants: Sequence[Variant]) -> None:
    table = [["variant", "shape", "time", "ratio", ""], *(cells(one) for one in variants)]
    _table(page, table)
    for one in best(variants):
        page.line((one_line(f"  fastest at {dims_of(one.dims)}: {label(one)}"), ""))


def _table(page: Page, table: Sequence[Sequence[str]]) -> None:
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    for n, line in enumerate(table):
        cells = "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
        page.line((one_line(f"  {cells}").rstrip(), "dim" if n == 0 else ""))


def _clocks(result: Result) -> str:
    c = result.clocks
    assert c is not None
    said = f"  SM {c.sm_mhz[0]:.0f}-{c.sm_mhz[1]:.0f} MHz, memory {c.memory_mhz[1]:.0f} MHz"
    said += f", {c.power_w[0]:.0f}-{c.power_w[1]:.0f} W"
    return said + (f", throttled: {', '.join(c.throttled)}" if c.throttled else ", not throttled")
