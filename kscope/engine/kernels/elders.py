"""Chips older than the tables (before Volta): read, never advised.

Their machine code has another encoding, their pipes and latencies are in no table of arch/, and the nearest entry above
would be a guess. What the launch alone shows (blocks for SMs) is said, everything else is not.
"""

from __future__ import annotations

from kscope.engine.findings.outcomes import Outcomes
from kscope.features.facts import ChipFacts
from kscope.model.contract.analysis import NotApplicable


def without_advice(chip: ChipFacts, said: Outcomes) -> Outcomes:
    """The outcomes; of an older chip none but that no rule could look."""
    if not chip.elder:
        return said
    codes = sorted({*(f.code for f in said.findings), *said.passed})
    mute = [NotApplicable(code=code, why=chip.elder) for code in codes]
    rest = [n for n in said.not_applicable if n.code not in codes]
    return Outcomes([], [], sorted([*rest, *mute], key=lambda n: n.code), said.errors)
