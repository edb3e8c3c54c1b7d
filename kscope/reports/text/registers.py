"""Registers against warps against spills, as a table a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.reports.terminal import Page

if TYPE_CHECKING:
    from kscope.engine.code.registers import Rung


def render(rungs: Sequence[Rung], chosen: Sequence[Rung], page: Page) -> str:
    """rungs: of all kernels; chosen: those that no other rung of their kernel beats, marked."""
    for kernel in dict.fromkeys(r.kernel for r in rungs):
        page.line((one_line(kernel), "bold"))
        page.line(("  cap    registers  warps an SM  spills  instructions, loops weighted", "dim"))
        seen: set[tuple[int, int, int]] = set()
        for one in (r for r in rungs if r.kernel == kernel):
            key = (one.registers, one.warps, one.spills)
            if key in seen:
                continue  # a cap that binds nothing
            seen.add(key)
            mark, style = ("*", "good") if one in chosen else (" ", "")
            cap = "none" if one.cap is None else str(one.cap)
            row = f"{mark} {cap:>5}  {one.registers:>9}  {one.warps:>11}  {one.spills:>6}  {one.work:>12,.0f}"
            page.line((row, style))
        page.blank()
    page.paragraph("* no other row has as many warps with as few spills. More warps pay where they hide latency "
                   "(LAT301, LAT302); time both.", lead=("", ""), indent=0)  # fmt: skip
    return page.text()
