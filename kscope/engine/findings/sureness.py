"""What findings may promise of a kernel of which not everything was collected.

A promise is capped by the units and by what warps wait for. Where those were not collected nothing caps it: the gain
lies between none and what the rule computed, and the middle on a log scale is all that can be said; of rules that
promise what units have to spare, nothing but the upper end. Confidence falls with each part that could have
contradicted the finding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from kscope.engine.findings.rank import ranked
from kscope.features.counters.collected import Part
from kscope.features.estimate.gains import uncapped
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding
from kscope.rules.base import FAINT

DOUBT: Mapping[Part, float] = {
    "memory units": 0.7, "compute units": 0.85, "warp states": 0.85, "machine code": 0.9, "SM activity": 0.9,
}  # fmt: skip
"""Factor on the confidence of a finding for each part that lacks. Judged: with all of them missing (0.4) a finding that
is sure of itself (0.9) falls to 0.37, below what the next step follows (`next_step.SURE`); without states and code
(`ncu` without options: 0.77) what the launch alone proves stays above."""
GRID = "GRD401"
SPARE = (GRID, "GRD405", "LAT301", "LAT302", "LAT303", "MEM102")
"""Rules that promise what units have to spare: more in flight, wider accesses; they take no work from a full one. Where
no unit was collected nothing says that there is anything to spare: on reports of source counters alone they promised
1.25x or more for 25 of 41 labelled captures that are at their roof (tools/partial.py). SMs without a block are to spare
whatever else is."""
ALONE = ("ASY505", "GRD404")
"""Rules whose findings nothing could contradict: wrong results, which the code proves, and lanes without a thread."""


def tempered(facts: Facts, findings: Sequence[Finding]) -> list[Finding]:
    """The findings as the report allows them, ranked again where that changed them."""
    known = facts.counters.collected
    factor = 1.0
    for part, doubt in DOUBT.items():
        if part in known.missing:
            factor *= doubt
    if factor == 1.0:
        return list(findings)
    empty = facts.counters.launch.idle_sms > facts.counters.launch.sms // 4
    return ranked(
        _less(f, factor, facts.constants.noise, capped=known.units, empty=empty) for f in findings
    )


def _less(finding: Finding, factor: float, noise: float, *, capped: bool, empty: bool) -> Finding:
    less = max(min(finding.confidence, FAINT), factor * finding.confidence)
    sure = finding.confidence if finding.code in ALONE else less
    finding = structs.replace(finding, confidence=round(sure, 2))
    if capped or finding.estimate is None:
        return finding
    spare = finding.code in SPARE and not (empty and finding.code == GRID)
    return structs.replace(finding, estimate=uncapped(finding.estimate, noise, told=not spare))
