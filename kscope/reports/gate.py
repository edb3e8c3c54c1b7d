"""Lines that gates print: one a violation, the same for every command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.reports import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.engine.comparing.gate import Violation

NAME = 100
REASONS = 5


def line(violation: Violation) -> str:
    """`FAIL MEM103 transpose_plain tiles.cu:16 0x0290`: what, whom, where as far as it is known; no newline."""
    parts = ["FAIL", violation.what, named(violation.name)]
    if violation.file and violation.line:
        parts.append(f"{words.basename(one_line(violation.file))}:{violation.line}")
    if violation.pc is not None:
        parts.append(f"{violation.pc:#06x}")
    if violation.figures:
        parts.append(one_line(violation.figures))
    return " ".join(parts)


def named(name: str) -> str:
    """A kernel without its parameters, short; the last part of a recording's path."""
    return words.shorten(words.without_parameters(words.basename(one_line(name)) if "(" not in name else name), NAME)


def blind(reasons: Sequence[str]) -> str:
    """Why a gate could not look, on one line."""
    shown = "; ".join(one_line(reason) for reason in reasons[:REASONS])
    more = len(reasons) - REASONS
    return f"the gate could not look: {shown}" + (f"; and {more} more" if more > 0 else "")
