"""All kernels of a library at a glance, what is wrong with them first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.units import counted
from kscope.reports.terminal import Page, cells, clip, pad

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Analysis, FunctionAnalysis

WEIGHT = {"critical": 9, "major": 3, "minor": 1, "info": 0}
"""What a finding counts for by its severity: a major one more than two minor ones (judged)."""
NAME = 44


def ranked(analysis: Analysis) -> list[tuple[str, FunctionAnalysis]]:
    """Kernels with where they are from, worst first: by the weight of their findings, then by their spills."""
    every = [(p.member, f) for p in analysis.programs for f in p.functions if f.entry]
    return sorted(every, key=lambda row: (-weight(row[1]), -spills(row[1]), row[1].name))


def weight(function: FunctionAnalysis) -> int:
    return sum(WEIGHT[f.severity] for f in function.findings)


def spills(function: FunctionAnalysis) -> int:
    return (function.spill_stores or 0) + (function.spill_loads or 0)


def render(analysis: Analysis, page: Page, top: int) -> str:
    """One line a kernel: findings by code, registers, spills, changes that were computed; then which findings there are
    how often. top: kernels that are shown, 0 for all."""
    rows = ranked(analysis)
    shown = rows[: top or len(rows)]
    page.line((f"  {'kernel':{NAME}}  regs  spills  changes  findings", "dim"))
    for member, function in shown:
        fixes = sum(not fix.refused for f in function.findings for fix in f.fixes)
        codes = " ".join(dict.fromkeys(f.code for f in function.findings if f.severity != "info")) or "-"
        name = pad(clip(one_line(function.demangled), NAME), NAME)
        left = f"  {name}  {function.registers or '?':>4}  {spills(function):>6}  {fixes:>7}  "
        codes = clip(codes, max(8, page.width - cells(left)))
        page.line((left, "bold" if weight(function) else "dim"), (codes, "code"))
        if member:
            page.line((f"    {one_line(member)}", "dim"))
    if len(rows) > len(shown):
        page.line((f"  {counted(len(rows) - len(shown), 'kernel')} more (--top 0)", "dim"))
    page.blank()
    page.paragraph(_totals([function for _, function in rows]), lead=("  ", ""), indent=2)
    return page.text()


def _totals(functions: Sequence[FunctionAnalysis]) -> str:
    count: dict[str, int] = {}
    for function in functions:
        for name in {f"{f.code} {one_line(f.rule)}" for f in function.findings if f.severity != "info"}:
            count[name] = count.get(name, 0) + 1
    found = ", ".join(f"{name} in {n}" for name, n in sorted(count.items(), key=lambda row: (-row[1], row[0])))
    return f"{counted(len(functions), 'kernel')}: {found or 'nothing found'}"
