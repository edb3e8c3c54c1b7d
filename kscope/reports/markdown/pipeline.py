"""A warp-specialised kernel in Markdown: table of the roles, remarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports.escape import prose
from kscope.reports.markdown.tables import bullets, table
from kscope.reports.phrases.pipeline import COLUMNS, UNITS, bounds, phases, remarks, retries, rows, source

if TYPE_CHECKING:
    from kscope.model.contract.analysis import KernelAnalysis


def sections(kernel: KernelAnalysis) -> list[str]:
    """Blocks of Markdown: table of the roles, remarks."""
    ws = kernel.warp_specialization
    if ws is None:
        return []
    out = ["### Warp roles"]
    if ws.timeline is not None:
        out.append(f"{prose(UNITS.get(ws.timeline.unit, ws.timeline.unit))} timeline: {prose(phases(ws.timeline))}.")
    body = [[*map(prose, row), prose(bounds(role))] for row, role in zip(rows(ws), ws.roles, strict=True)]
    out.append(table([*COLUMNS, "bounds"], body, right=range(1, 7)))
    out.append("Percent of each role's time.")
    counts = [f"{prose(r.role)}: {prose(text)}" for r in ws.roles if (text := retries(r))]
    notes = [f"{prose(lead)}: {prose(text)}" for lead, text in remarks(kernel, ws)]
    out.append(bullets([*counts, *notes, source(ws)]))
    return out
