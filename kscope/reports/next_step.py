"""Stop or go on, as a line of every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line

if TYPE_CHECKING:
    from kscope.model.contract.analysis import NextStep


def line(step: NextStep) -> str:
    """`go on: 2.2x, MEM103 (why; record)`."""
    why = "; ".join(one_line(part) for part in (step.why, record(step)) if part)
    return f"{one_line(step.words)} ({why})"


def short(step: NextStep) -> str:
    """The same where the verdict above says already what to change: `go on: 2.2x, MEM103 (record)`."""
    if step.do != "go_on":
        return line(step)
    kept = record(step)
    return one_line(step.words) + (f" ({kept})" if kept else "")


def record(step: NextStep) -> str:
    """How promises of this size fared on kernels that kscope had never seen; empty where nothing is promised."""
    odds = step.odds
    if odds is None:
        return ""
    size = f"from {odds.least:g}x" if odds.below is None else f"below {odds.below:g}x"
    if odds.below is not None and odds.least > 1:
        size = f"of {odds.least:g}x to {odds.below:g}x"
    return f"promises {size} on public kernels: {odds.built} built, {odds.gained} gained a tenth, {odds.slower} slower"
