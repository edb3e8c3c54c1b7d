"""A warp-specialised kernel in the terminal report: timelines with their phases, roles, remarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.units import counted
from kscope.reports.phrases.pipeline import COLUMNS, UNITS, bounds, phases, remarks, retries, ring, rows, source
from kscope.reports.terminal import pad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.contract.analysis import KernelAnalysis
    from kscope.reports.terminal import Page

LEVELS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """A series 0..1 as one character a column; each column shows the mean of its part, its lowest where that dips."""
    if not values:
        return ""
    columns = min(width, len(values))
    out = []
    for c in range(columns):
        part = values[
            c * len(values) // columns : max((c + 1) * len(values) // columns, c * len(values) // columns + 1)
        ]
        mean = sum(part) / len(part)
        value = min(part) if min(part) < mean / 2 else mean
        out.append(LEVELS[min(len(LEVELS) - 1, max(0, int(value * len(LEVELS) - 1e-9)))])
    return "".join(out)


def write(page: Page, kernel: KernelAnalysis, *, verbose: bool) -> None:
    """The section of the terminal report."""
    ws = kernel.warp_specialization
    if ws is None:
        return
    page.blank()
    span = f"0..{kernel.duration_us:.0f} us" if kernel.duration_us else ""
    room = page.width - 13 - len(span)
    for series in ws.series[: 3 if verbose else 2]:
        page.line(
            f"  {pad(UNITS.get(series.unit, series.unit), 7)} ", (sparkline(series.values, room), "bar"), f"  {span}"
        )
    if ws.timeline is not None:
        page.paragraph(phases(ws.timeline), lead=("  ", ""), indent=2, style="dim")
    page.blank()
    widths = (10, 6, 9, 8, 14, 14, 7)
    page.line(("  " + "".join(pad(c, w) for c, w in zip(COLUMNS, widths, strict=True)) + "% of time", "dim"))
    for row, role in zip(rows(ws), ws.roles, strict=True):
        page.line("  " + "".join(pad(c, w) for c, w in zip(row, widths, strict=True)))
        for text in (retries(role), f"bounds: {limits}" if (limits := bounds(role)) else ""):
            if text:
                page.paragraph(text, lead=("            ", ""), indent=12, style="dim")
    lost = f"{counted(ws.warps_unaccounted, 'warp', 'g')} a block in no role" if ws.warps_unaccounted else ""
    page.paragraph(", ".join(x for x in (ring(ws), lost, source(ws)) if x), lead=("  ", ""), indent=2, style="dim")
    page.blank()
    for lead, text in remarks(kernel, ws):
        page.paragraph(text, lead=(f"  {lead}  ", "dim"), indent=4)
