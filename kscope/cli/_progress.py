"""A progress bar on standard error: only on a terminal, and only where there is something to wait for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from kscope.model.errors import one_line

FEW = 4


class Report(Protocol):
    def __call__(self, what: str, done: int, total: int | None, /) -> None: ...


def progress_bar() -> AbstractContextManager[Report] | None:
    """A context that yields the callback of `analyze_paths`, or None where no bar is wanted."""
    return _bar() if sys.stderr.isatty() else None


@contextmanager
def _bar() -> Iterator[Report]:
    shown: list[_Bar] = []
    seen = 0

    def report(what: str, done: int, total: int | None) -> None:
        nonlocal seen
        seen += 1
        long = total is not None and total > FEW  # else: one of perhaps many short reports
        if not long and seen <= FEW:
            return
        if not shown:
            shown.append(_Bar())
        shown[0].update(one_line(what), done if long else seen, total if long else None)

    try:
        yield report
    finally:
        for bar in shown:
            bar.close()


class _Bar:
    """rich's bar, imported here: most runs need none."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (BarColumn(bar_width=30), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._progress.start()
        self._task = self._progress.add_task("", total=None)

    def update(self, what: str, done: int, total: int | None) -> None:
        self._progress.update(self._task, description=what[:60], completed=done, total=total)

    def close(self) -> None:
        self._progress.stop()
