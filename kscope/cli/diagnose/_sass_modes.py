"""Views of `kscope sass` that are no listing: all kernels ranked, the frontier of registers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kscope.reports.terminal import Page


def special(
    path: str, *, survey: bool, tune: bool, arch: str | None, function: str | None, source_root: Path | None,
    top: int, page: Page,
) -> str | None:  # fmt: skip
    """The text of --survey or --tune-registers; None where neither was asked for. Raises KscopeError."""
    if tune:
        from kscope.engine.code.registers import best, frontier
        from kscope.reports.text.registers import render

        rungs = frontier(Path(path), arch, function)
        kernels = dict.fromkeys(r.kernel for r in rungs)
        return render(rungs, [c for k in kernels for c in best([r for r in rungs if r.kernel == k])], page)
    if survey:
        from kscope.engine.code.programs import binary_analysis, sources_below
        from kscope.model.faults import fenced
        from kscope.parsers.cubin.programs import read_programs
        from kscope.reports.text import survey as view

        lines = sources_below(source_root) if source_root is not None else None
        with fenced(path):
            return view.render(binary_analysis(path, read_programs(path, arch, function), annotate=False, lines=lines),
                               page, top)  # fmt: skip
    return None
