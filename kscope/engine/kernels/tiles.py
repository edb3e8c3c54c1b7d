"""Tile programs (cuTile): recognised, and what rules say of threads withheld, for their source has none."""

from __future__ import annotations

from msgspec import structs

from kscope.arch import table
from kscope.engine.findings.outcomes import Outcomes
from kscope.model.contract.analysis import NotApplicable

WHY = "a tile program has no threads of its own: the compiler lays out lanes, registers and shared memory"


def without_threads(tile: bool, said: Outcomes) -> Outcomes:
    """The outcomes, those of rules on threads moved to `not_applicable` where the kernel is a tile program."""
    if not tile:
        return said
    codes = frozenset(table("advice")["tile"]["codes"])
    moved = [NotApplicable(code=f.code, why=WHY) for f in said.findings if f.code in codes]
    kept = [f for f in said.findings if f.code not in codes]
    return structs.replace(said, findings=kept, not_applicable=[*said.not_applicable, *moved])
