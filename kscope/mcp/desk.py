"""Analyses that were made already: an agent asks many questions about few reports."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kscope.engine.run import analyze_paths
from kscope.mcp.roots import Roots
from kscope.model.contract.analysis import Analysis
from kscope.model.errors import KscopeError
from kscope.parsers.files.inputs import HEAD, kind_of, open_input, sniff

KEPT = 16
"""Answers about files in memory, analyses and listings among them. Judged: two versions, each from several sides."""
Made = TypeVar("Made")


class Desk:
    """What one server knows: its folders, and what it has worked out. A file that has changed is read anew."""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots
        self._made: OrderedDict[tuple[object, ...], object] = OrderedDict()

    def kept(self, path: Path, what: tuple[object, ...], make: Callable[[], Made]) -> Made:
        """What `make` gave for this file as it is now."""
        about = path.stat()
        key = (str(path), about.st_ino, about.st_mtime_ns, about.st_size, *what)
        if key not in self._made:
            self._made[key] = make()
            while len(self._made) > KEPT:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return self._made[key]  # type: ignore[return-value]

    def analysis(self, path: Path, name: str = "", problem: str = "") -> Analysis:
        """Raises KscopeError for what cannot be read, and for a kernel or problem that is none."""
        from kscope.napkin.asked import build

        if kind_of(path) == "nsys-rep":  # nsys would run, and write beside it
            hint = "export it: nsys export --type sqlite FILE.nsys-rep"
            raise KscopeError("unsupported", f"{path}: only its SQLite export is read here", hint)
        asked = build(problem) if problem.strip() else None
        pattern = re.escape(name) if name else None
        return self.kept(path, ("analysis", name, problem),
                         lambda: analyze_paths([path], kernel=pattern, problem=asked))  # fmt: skip


    def is_binary(self, path: Path) -> bool:
        """Whether a file is machine code; a compressed one is unpacked to see it, once."""
        return self.kept(path, ("binary",), lambda: _is_binary(path))


def _is_binary(path: Path) -> bool:
    """Whether a file is machine code (a cubin, an object, a listing), compressed or not."""
    with open_input(path) as plain, open(plain, "rb") as file:
        head = file.read(HEAD)
    return sniff(head) in ("elf", "fatbin") or (path.suffix == ".sass" and sniff(head) == "text")
