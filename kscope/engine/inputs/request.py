"""What a caller wants of an analysis, passed on as one value."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kscope.features.views.footprint import Footprints
    from kscope.fixes.given.source import Lines
    from kscope.model.contract.detail import Detail
    from kscope.napkin.problem import Problem

Progress = Callable[[str, int, "int | None"], None]
"""Called with (input, kernels done, kernels in it or None)."""


class Request:
    """codes: run only these rules (all if None). wanted: regular expression on the demangled name. top: keep the
    longest N. detail: filled with what charts and listings show; footprints: with what a comparison needs of the
    kernels (kscope.features.views.footprint). problem: what the kernels were to solve, to compare with what they
    did (kscope.napkin.problem). lines: sources where the reports hold none. reports: how many there are to read in
    all."""

    def __init__(
        self, *, codes: frozenset[str] | None = None, wanted: re.Pattern[str] | None = None, top: int | None = None,
        progress: Progress | None = None, detail: Detail | None = None, footprints: Footprints | None = None,
        problem: Problem | None = None, lines: Lines | None = None,
    ) -> None:  # fmt: skip
        self.codes, self.wanted, self.top, self.progress = codes, wanted, top, progress
        self.detail, self.footprints, self.problem, self.lines = detail, footprints, problem, lines
        self.reports = 1

    def report(self, path: str, number: int, done: int, kernels: int | None) -> None:
        """Tell how far it is: of several reports how many are read, of one its kernels."""
        if self.progress is not None and self.reports > 1:
            self.progress(path, number, self.reports)
        elif self.progress is not None:
            self.progress(path, done, kernels)

    @property
    def draws(self) -> bool:
        """Whether charts and listings are wanted."""
        return self.detail is not None
