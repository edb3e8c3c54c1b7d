"""Stop or go on, as a line of every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line

if TYPE_CHECKING:
    from kscope.model.contract.analysis import NextStep


def line(step: NextStep) -> str:
    """`go on: 2.2x, MEM103 (why)`."""
    return f"{one_line(step.words)} ({one_line(step.why)})"


def short(step: NextStep) -> str:
    """The same where the verdict above says already what to change: `go on: 2.2x, MEM103`."""
    return one_line(step.words) if step.do == "go_on" else line(step)
