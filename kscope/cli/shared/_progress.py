"""A progress bar on standard error: only on a terminal, and only where there is something to wait for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from kscope.cli.shared import _output
from kscope.model.errors import one_line

FEW = 4
WIDTH, NAME = 30, 40


class Report(Protocol):
    def __call__(self, what: str, done: int, total: int | None, /) -> None: ...


def progress_bar() -> AbstractContextManager[Report] | None:
    """A context that yields the callback of `analyze_paths`, or None where no bar is wanted."""
    wanted = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return _bar() if wanted else None


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


def _end(what: str) -> str:
    """Of a path its end, which says most."""
    return what if len(what) <= NAME else f"...{what[3 - NAME :]}"


class _Bar:
    """One line that is drawn again in place, and erased at the end."""

    def update(self, what: str, done: int, total: int | None) -> None:
        share = min(done / total, 1.0) if total else 0.0
        filled = round(share * WIDTH)
        count = f"{done}/{total}" if total is not None else f"{done}/?"
        _output.redraw(f"{'━' * filled}{'╺' * bool(filled < WIDTH)}{' ' * (WIDTH - filled - 1)} {count} {_end(what)}")

    def close(self) -> None:
        _output.redraw("")
