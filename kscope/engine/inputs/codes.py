"""Machine code of one report's kernels: parsed while they are still being decoded, and once for all launches of a
function."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kscope.features.sass.listing import Structure
from kscope.parsers.sass.instructions import parse_program

if TYPE_CHECKING:
    from kscope.model.program import Program
    from kscope.parsers.ncu.worker import Row

KEEP = 16  # functions that are remembered, those seen last


class Codes:
    """Programs of one report by function, with what follows from the code alone."""

    def __init__(self, report: str, *, draws: bool) -> None:
        """report: the plain file. draws: whether listings are shown too."""
        self._report, self._draws = report, draws
        self._known: dict[str, tuple[list[Row], Structure]] = {}

    def expect(self, name: str, sm: int, rows: list[Row]) -> None:
        """Work on code that is likely to be asked for (`Reader.kernels`): what nearly every kernel needs of it."""
        with contextlib.suppress(Exception):  # said in its turn, where it is asked for
            structure = self.structure(self.parse(name, sm, rows))
            structure.work_ahead()
            if self._draws:
                from kscope.features.views.source import bare_detail

                bare_detail(structure, self._report)

    def parse(self, name: str, sm: int, rows: list[Row]) -> Program:
        """`parse_program`, remembered."""
        known = self._known.pop(name, None)
        if known is None or known[1].program.sm != sm or known[0] != rows:
            known = rows, Structure(parse_program(name, sm, rows))
        self._known[name] = known
        if len(self._known) > KEEP:
            del self._known[next(iter(self._known))]
        return known[1].program

    def structure(self, program: Program) -> Structure:
        """What follows from a program's text; that of `parse` where the program is from there."""
        known = self._known.get(program.name)
        return known[1] if known is not None and known[1].program is program else Structure(program)
