"""A change in words: what it does, what was proved, what it takes, what is left to check. Lines of sources are left to
the reporters, which quote them each in its own way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from kscope.model.errors import one_line
from kscope.model.units import counted

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Finding, Fix, Proof
    from kscope.model.contract.fixes import Condition, Edit

STATES = {"proved": "proved", "assumed": "assumed", "check": "to check"}
GROUNDS = {"code": "instruction", "values": "value"}

Sign = Literal[" ", "-", "+"]


def signed(edit: Edit) -> list[tuple[Sign, str]]:
    """The lines of a diff: the old one, and what is there instead. Where it stays and others come before or behind it,
    it is context: only what is new is marked."""
    new = edit.becomes.splitlines()
    if edit.was not in new:
        return [("-", edit.was), *(("+", text) for text in new)]
    at = new.index(edit.was)
    return [(" " if n == at else "+", text) for n, text in enumerate(new)]


def head(fix: Fix) -> str:
    """`pad t: 4 bytes behind each 128`, or why it cannot be had."""
    if fix.refused:
        return f"{one_line(fix.title)}: not here, because {one_line(fix.refused)}"
    return one_line(fix.title)


def told_before(findings: Sequence[Finding]) -> dict[tuple[str, int], str]:
    """Where several findings ask for one change, it is told at the first of them: for the others, by code and change,
    where that is."""
    first: dict[int, str] = {}
    out = {}
    for rank, finding in enumerate((f for f in findings if f.severity != "info"), 1):
        for fix in finding.fixes:
            if fix.refused:
                continue
            if fix.identity in first:
                out[finding.code, fix.identity] = first[fix.identity]
            first.setdefault(fix.identity, f"as at {rank} ({finding.code}): {head(fix)}")
    return out


def earlier(told: Mapping[tuple[str, int], str], finding: Finding, fix: Fix) -> str:
    """Where a finding's change was told before, of `told_before`; "" where it was not."""
    return told.get((finding.code, fix.identity), "")


def figures(fix: Fix) -> str:
    """The first figure that the proof gives: `wavefronts of the 8 accesses of t: 69,206,016 to 4,194,304`."""
    rows = [f"{one_line(p.what)}: {_number(p.before)} to {_number(p.after)}" for p in fix.proof if p.before != p.after]
    return "; ".join(rows)


def cost(fix: Fix) -> str:
    return "; ".join(one_line(c) for c in fix.costs)


def conditions(fix: Fix, *states: str) -> list[str]:
    """Conditions in these states (all if none is named), each with its reason."""
    chosen = [c for c in fix.conditions if not states or c.state in states]
    return [f"{one_line(c.holds)} ({_state(c)}{': ' + one_line(c.why) if c.why else ''})" for c in chosen]


def _state(condition: Condition) -> str:
    """`proved by 12 instructions`: of what was run or looked at, how much of it."""
    if condition.state != "proved" or not condition.by:
        return STATES[condition.state]
    if condition.by == "lanes":
        return f"proved by {counted(condition.ran, 'pattern')} of lanes' addresses"
    ground = GROUNDS.get(condition.by)
    return f"proved by {counted(condition.ran, ground) if ground else 'the launch'}"


def extent(fix: Fix) -> str:
    """How much of the source changes: `2 lines, 1 function`."""
    parts = [counted(len(fix.edits), "line")] if fix.edits else []
    functions = len(fix.code.splitlines())
    return ", ".join(parts + ([counted(functions, "line") + " to add"] if functions else []))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.2f}"


def proof(row: Proof) -> str:
    """One figure of a proof, with how it came about."""
    change = f"{_number(row.before)} to {_number(row.after)}" if row.before != row.after else f"{_number(row.after)}"
    unit = f" {row.unit}" if row.unit and row.unit not in row.what else ""
    return f"{one_line(row.what)}: {change}{unit}{' (' + one_line(row.how) + ')' if row.how else ''}"
