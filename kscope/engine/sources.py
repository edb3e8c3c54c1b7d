"""An Analysis whose places are those of a checkout: files found below a folder are named relative to it, and the text
of their lines is filled in where the report has none (--source-root).

Line information of a report is untrusted: only the end of a path that it names is looked for below the folder, and
nothing outside of it is opened (`sources_below` holds the same).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from kscope.model.kernel import source_lines

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Analysis, Finding, HotInstruction, Location
    from kscope.model.contract.detail import Detail
    from kscope.model.contract.fixes import Fix

LARGEST = 400_000  # characters of a file, as of sources inside a report (features/views/source)
LINE = 200  # characters of a source line, as elsewhere
_Placed = TypeVar("_Placed", "Location", "HotInstruction")


class Checkout:
    """Files below a folder by the paths that a report names."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._found: dict[str, Path | None] = {}
        self._lines: dict[Path, Sequence[str]] = {}

    def find(self, name: str) -> Path | None:
        """The file that a name's end leads to, the longest end first; None where there is none below the folder."""
        if name not in self._found:
            parts = [p for p in re.split(r"[\\/]+", name) if p not in ("", ".", "..")]
            self._found[name] = next(filter(None, (self._file(parts[i:]) for i in range(len(parts)))), None)
        return self._found[name]

    def _file(self, parts: Sequence[str]) -> Path | None:
        try:
            file = self._root.joinpath(*parts).resolve()
            return file if file.is_relative_to(self._root) and file.is_file() else None
        except (OSError, ValueError):
            return None

    def relative(self, name: str) -> str:
        """The name relative to the folder, with slashes; as it was where the file is not there."""
        file = self.find(name)
        return file.relative_to(self._root).as_posix() if file is not None else name

    def lines(self, name: str) -> Sequence[str]:
        file = self.find(name)
        if file is None:
            return ()
        if file not in self._lines:
            try:
                text = file.read_text("utf-8", "replace")
            except OSError:
                text = ""
            self._lines[file] = source_lines(text) if len(text) <= LARGEST else ()
        return self._lines[file]


def relocated(analysis: Analysis, root: Path, detail: Detail | None = None) -> Analysis:
    """The Analysis with its places below `root`; a Detail's listings get the sources that they lack."""
    checkout = Checkout(root)

    def placed(one: _Placed) -> _Placed:
        if not one.file:
            return one
        lines = checkout.lines(one.file) if one.source is None and one.line else ()
        text = lines[one.line - 1].strip()[:LINE] if one.line and one.line <= len(lines) else one.source
        return structs.replace(one, file=checkout.relative(one.file), source=text)

    def changed(fix: Fix) -> Fix:
        edits = [structs.replace(e, file=checkout.relative(e.file)) for e in fix.edits]
        return structs.replace(fix, edits=edits)

    def of(found: Sequence[Finding]) -> list[Finding]:
        return [
            structs.replace(f, locations=[placed(x) for x in f.locations], fixes=[changed(x) for x in f.fixes])
            for f in found
        ]

    if detail is not None:
        _fill(detail, checkout.lines)
    programs = [
        structs.replace(p, functions=[structs.replace(f, findings=of(f.findings)) for f in p.functions])
        for p in analysis.programs
    ]
    return structs.replace(
        analysis, programs=programs,
        kernels=[structs.replace(k, findings=of(k.findings), hot=[placed(h) for h in k.hot]) for k in analysis.kernels],
    )  # fmt: skip


def _fill(detail: Detail, lines: Callable[[str], Sequence[str]]) -> None:
    """Sources of listings whose report holds none."""
    for at, kernel in enumerate(detail.kernels):
        code = kernel.code
        if code is None:
            continue
        lacking = {name: "\n".join(text) for name in code.files if name not in code.sources and (text := lines(name))}
        if lacking:
            filled = structs.replace(code, sources={**code.sources, **lacking})
            detail.kernels[at] = structs.replace(kernel, code=filled)
