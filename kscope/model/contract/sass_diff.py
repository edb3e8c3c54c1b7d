"""`SassComparison`: the machine code of two binaries, function by function. JSON `kscope.sass-diff/1`; fields are only
ever added."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kscope.model.contract.analysis import Finding, Frozen, Input, SkippedInput
from kscope.model.contract.comparison import Change

SASS_DIFF_SCHEMA = "kscope.sass-diff/1"

LineKind = Literal["same", "changed", "removed", "added"]
"""changed: the same instruction on other values: its registers do not follow from a consistent renaming."""


class SassLine(Frozen, frozen=True, kw_only=True):
    """One line of the aligned listings; pc and text of a side are null where the line is not on it."""

    kind: LineKind
    before_pc: int | None = None
    after_pc: int | None = None
    before: str | None = None
    after: str | None = None


class FunctionDiff(Frozen, frozen=True, kw_only=True):
    before: str
    after: str
    demangled: str
    arch_before: str
    arch_after: str
    matched_by: Annotated[
        Literal["by hand", "name", "name without arguments", "code", "elimination"],
        Meta(description="elimination is a guess: these two alone were left"),
    ]
    identical: Annotated[bool, Meta(description="the same instructions, registers and addresses renamed")]
    same: int
    changed: int
    removed: int
    added: int
    figures: Annotated[list[Change], Meta(description="registers, stack, spills, instructions, loops: what moved")] = []
    mix: Annotated[list[Change], Meta(description="instructions by pipe: what moved")] = []
    accesses: Annotated[list[Change], Meta(description="memory instructions by width: what moved")] = []
    fixed: Annotated[list[str], Meta(description="codes that the old code fires and the new one passes")] = []
    remaining: list[str] = []
    new: list[Finding] = []
    hunks: Annotated[list[list[SassLine]], Meta(description="differing lines with some context")] = []


class AddedFunction(Frozen, frozen=True, kw_only=True):
    """A function that only the new side has."""

    name: str
    demangled: str
    arch: str
    findings: list[Finding] = []


class SassComparison(Frozen, frozen=True, kw_only=True):
    schema: str = SASS_DIFF_SCHEMA
    kscope: str
    before: Input
    after: Input
    functions: list[FunctionDiff] = []
    only_before: list[str] = []
    only_after: list[str] = []
    added: Annotated[list[AddedFunction], Meta(description="those of only_after with what is found in them")] = []
    notes: list[str] = []
    skipped: Annotated[list[SkippedInput], Meta(description="functions that could not be compared or looked at")] = []


def sass_diff_json(comparison: SassComparison) -> bytes:
    """JSON of a SassComparison, without a newline."""
    return msgspec.json.encode(comparison)
