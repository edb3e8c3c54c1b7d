"""Rows of machine code with their source lines: of a profiled kernel, or of a binary that nobody ran."""

from __future__ import annotations

import re
from pathlib import Path

from kscope.mcp.answers import Absent, CodeAnswer, CodeRow
from kscope.mcp.arguments import Code
from kscope.mcp.desk import Desk
from kscope.mcp.keys import find, row_key
from kscope.mcp.pages import page
from kscope.model.contract.analysis import FunctionAnalysis
from kscope.model.contract.programs import InstructionView
from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.model.quoted import quoted

Functions = list[tuple[str, FunctionAnalysis]]
"""(target, function) in the order of the file."""


def code(desk: Desk, asked: Code) -> CodeAnswer:
    path = desk.roots.file(asked.path)
    function = _of_binary(desk, path, asked.key) if desk.is_binary(path) else _of_report(desk, path, asked.key)
    rows = [_row(function, view) for view in function.listing]
    if asked.hottest:
        hottest = sorted(range(len(rows)), key=lambda i: -(rows[i].share or 0.0))[: asked.limit]
        rows = [rows[i] for i in sorted(hottest) if rows[i].share or function.samples is None]
    offset = _beginning(rows, asked) if asked.around else asked.offset
    kept, after = page(rows, offset, asked.limit)
    return CodeAnswer(
        function=function.demangled or function.name, rows=kept, total=len(rows), next_offset=after,
        notes=function.notes, absent=_absent(function),
    )  # fmt: skip


def _beginning(rows: list[CodeRow], asked: Code) -> int:
    """Where a page begins that has the row in its middle. Raises KscopeError (usage)."""
    try:
        wanted = row_key(int(asked.around, 16))
    except ValueError:
        raise KscopeError("usage", f"{quoted(asked.around)} is no row", "write 0x0290", EXIT_USAGE) from None
    at = next((i for i, row in enumerate(rows) if row.row == wanted), None)
    if at is None:
        last = rows[-1].row if rows else "none"
        raise KscopeError("no-row", f"no instruction at {wanted}", f"the last is {last}", EXIT_USAGE)
    return max(0, at - asked.limit // 2)


def _row(function: FunctionAnalysis, view: InstructionView) -> CodeRow:
    measured, source = view.measured, None
    if view.file is not None and view.line is not None:
        source = function.sources.get(view.file, {}).get(view.line)
    share = measured.samples / function.samples if measured and function.samples else None
    return CodeRow(
        row=row_key(view.pc), sass=view.sass, role=view.role, file=view.file, line=view.line, source=source,
        share=round(share, 4) if share is not None else None, executed=measured.executed if measured else None,
        waits_for=[row_key(pc) for wait in view.waits for pc in wait.needed], findings=view.findings,
        notes=view.notes,
    )  # fmt: skip


def _absent(function: FunctionAnalysis) -> list[Absent]:
    found = []
    if function.samples is None:
        found.append(Absent(what="samples and counters: nobody ran this code; ncu --set full records a run"))
    elif not function.samples:
        found.append(Absent(what="samples by instruction: --section SourceCounters"))
    if not any(view.line for view in function.listing):
        found.append(Absent(what="source lines: compile with -lineinfo"))
    elif not function.sources:
        found.append(Absent(what="the text of the source: profile with --import-source yes"))
    return found


def _of_report(desk: Desk, path: Path, key: str) -> FunctionAnalysis:
    """The kernel's code; of several launches that of the longest, as the note says. Raises KscopeError."""
    from kscope.engine.code.programs import report_analysis

    _, one = find(desk.analysis(path).kernels, key)
    name = one.demangled or one.name
    found = desk.kept(
        path, ("code", name),
        lambda: report_analysis(str(path), function=f"^{re.escape(name)}$", annotate=True),
    )  # fmt: skip
    return found.programs[0].functions[0]


def binary(desk: Desk, path: Path, *, annotate: bool) -> Functions:
    """The functions of a binary. Raises KscopeError."""
    from kscope.engine.code.programs import binary_analysis
    from kscope.parsers.cubin.programs import read_programs

    found = desk.kept(path, ("binary", annotate),
                      lambda: binary_analysis(str(path), read_programs(path), annotate=annotate))  # fmt: skip
    return [(program.arch, function) for program in found.programs for function in program.functions]


def _of_binary(desk: Desk, path: Path, key: str) -> FunctionAnalysis:
    functions = binary(desk, path, annotate=True)
    match = [f for _, f in functions if key in (f.name, f.demangled)]
    if not match:
        names = ", ".join(quoted(f.name, 100) for _, f in functions[:5])
        raise KscopeError("no-kernel", f"no function is called {quoted(key, 100)}", f"there are {names}", EXIT_USAGE)
    return match[0]
