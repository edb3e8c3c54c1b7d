"""Stop or go on, from what the rules promise, how near the roof is, and what could not be looked at.

Two bars, both those of the ranking, none fitted. Below every roof a promise that is more than information (3 %,
`findings/rank.py`) is worth a try. At a roof the model is within its own error of the limit, so only a fault that the
ranking puts before the roof counts (`rank.pays`: 1.1x, and 5 % once its confidence is taken into account); so it is
where many rules could not look, for a measurement is worth more than a few percent. A kernel is
at a roof where a rule says so, or where its fullest unit is as full as those rules ask (0.85 of what is attainable);
specialised kernels only by the rules, whose timeline knows what the average hides. L2 counts with its overall counter
also where it only hands on: that is device memory's time then (kscope/arch/units.toml), of sectors picked at random
more than their bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from kscope.arch.record import band
from kscope.engine.findings.rank import DEBUG_BUILD, PAYS, at_roof, one_chain, pays
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding, Headroom, NextStep, ProblemFit
from kscope.model.contract.next_step import UNHEARD, WRITTEN, Odds
from kscope.model.units import at_most, percent, span, times
from kscope.rules.compute.pipe_saturated import NEAR

TENSOR = "CMP201"
"""Products that tensor cores could do: no rule promises a gain for it, since it is another precision."""
FAR = 1.25
"""Time over what the problem's best kernels take, from which another algorithm is worth its trouble: what the ranking
calls a major gain (engine/findings/rank.py). Judged."""
LITTLE = 1.03
"""Gain below which none is told (findings/rank.py): a debug build is to be built anew all the same."""
SURE = 0.6
"""Confidence from which a finding is followed although many rules could not look: what a report of few sections proves
by itself, an empty chip for one, stays above it (engine/findings/sureness.py). Judged on tools/partial.py."""

ELSEWHERE = "measure: no section of ncu would tell more of this kernel"
LATER = "measure: on a later chip"
TIMELINE = "measure: the timeline of its units, which this capture lacks (MIG, vGPU and WSL have none)"
UNSAMPLED = "an asynchronous kernel without the timeline of its units"


class Blind(Struct, frozen=True):
    """What could not be looked at: `silent` of `rules` rules lacked their inputs or failed; `command` would collect
    them (None where no section would). open: the verdict itself is unknown. unsampled: an asynchronous kernel without
    the timeline of the units that it keeps busy. elsewhere: what to measure where no section would tell. unread: why
    `command` reads the report again rather than profiling: its code is there."""

    silent: int
    rules: int
    command: str | None
    open: bool = False
    unsampled: bool = False
    elsewhere: str = ""
    unread: str = ""

    @property
    def much(self) -> bool:
        return self.open or self.silent >= UNHEARD

    @property
    def words(self) -> str:
        return f"{self.silent} of {self.rules} rules could not look"


def next_step(
    facts: Facts, findings: Sequence[Finding], room: Headroom | None, problem: ProblemFit | None, blind: Blind
) -> NextStep:
    """findings: ranked. problem: what the kernel was to solve, where that was named."""
    roof = _roof(facts, findings)
    dark = blind.much or (blind.unsampled and roof is None)
    fault = next((f for f in findings if _counts(f, roofed=dark or roof is not None)), None)
    if fault is not None and (not dark or fault.confidence >= SURE):
        return _go_on(fault)
    if dark:
        return _measure(blind, room)
    if problem is not None and problem.headroom is not None:
        return _beside_the_problem(problem, problem.headroom, roof, room, findings)
    if roof is not None:
        why = "less work or another algorithm would have another roof: --problem tells how far the problem's floor is"
        if any(f.code == TENSOR for f in findings):
            why = f"tensor cores ({TENSOR}) have a higher one, where the precision allows; {why}"
        return NextStep(do="stop", words=f"stop: {roof}", why=f"{_nothing(findings, roofed=True)}; {why}")
    if room is None:
        why = "no rule promises a gain, and no counter of the report says how far a roof is"
        return _measure(blind, room) if blind.command else NextStep(do="measure", words=ELSEWHERE, why=why)
    return _below_every_roof(findings, room)


def _counts(finding: Finding, *, roofed: bool) -> bool:
    """A finding without a figure counts by its severity: wrong results, mostly."""
    if finding.code == DEBUG_BUILD:
        return True
    if at_roof(finding) or one_chain(finding):
        return False
    if finding.estimate is None:
        return finding.severity in ("critical", "major")
    return pays(finding) if roofed else finding.severity != "info"


def _roof(facts: Facts, findings: Sequence[Finding]) -> str | None:
    """The roof that the kernel is at, in words; None below every roof."""
    candidates = (facts.counters.busiest, facts.counters.units.get("l2"))
    unit = max((u for u in candidates if u is not None), key=lambda u: u.load, default=None)
    said = any(at_roof(f) for f in findings)
    if unit is None or not (said or (facts.specialized.pipeline is None and unit.load >= NEAR)):
        return None
    return f"{unit.title} at {percent(unit.load)} of what kernels attain"


def _measure(blind: Blind, room: Headroom | None) -> NextStep:
    """The command, and what knowing is worth: no more than what is left to the nearest roof."""
    words = f"measure: {blind.command}" if blind.command else blind.elsewhere or (ELSEWHERE if blind.much else TIMELINE)
    worth = "how far the roof is would be known then too"
    if room is not None:
        worth = f"knowing is worth at most {times(room.speedup_bound)} ({room.bounded_by})"
        if room.bounded_by.endswith(WRITTEN):
            worth = f"{times(room.speedup_bound)} is left to {room.bounded_by}, and what other code would gain is open"
    why = f"{blind.words if blind.silent else UNSAMPLED}{f': {blind.unread}' if blind.unread else ''}; {worth}"
    return NextStep(do="measure", words=words, why=why, command=blind.command)


def _go_on(fault: Finding) -> NextStep:
    if fault.estimate is None or fault.estimate.speedup < LITTLE:
        return NextStep(do="go_on", words=f"go on: {fault.code}", why=fault.title, code=fault.code)
    gain = fault.estimate
    return NextStep(
        do="go_on", words=f"go on: {times(gain.speedup)}, {fault.code}", code=fault.code, speedup=gain.speedup,
        why=f"{fault.title}: {times(gain.speedup)} ({span(gain.low, gain.high, gain.speedup)}), capped by "
        f"{gain.capped_by}",
        odds=_odds(gain.speedup),
    )  # fmt: skip


def _odds(promise: float) -> Odds:
    b = band(promise)
    below = None if math.isinf(b.below) else b.below
    return Odds(built=b.built, gained=b.gained, slower=b.slower, least=b.least, below=below)


def _beside_the_problem(
    problem: ProblemFit, above: float, roof: str | None, room: Headroom | None, findings: Sequence[Finding]
) -> NextStep:
    """Nothing in the code pays: whether the problem asks for so much time at all."""
    nothing = _nothing(findings, roofed=roof is not None)
    if above < PAYS:
        words = f"stop: {_left(above)} to the roof of the problem"
        return NextStep(do="stop", words=words, why=f"{nothing}; {problem.limiter} limits")
    at = roof or (f"at most {at_most(room.speedup_bound)} left to {room.bounded_by}" if room else "its roof is unknown")
    if above < FAR:
        return NextStep(do="stop", words=f"stop: {times(above)} above what good kernels of this problem take",
                        why=f"{nothing}; {at}")  # fmt: skip
    return NextStep(
        do="change_algorithm", speedup=above,
        words=f"change the algorithm: {times(above)} above the problem's floor ({problem.limiter})",
        why=f"no rule promises enough in this one ({at}), and the problem needs less",
    )  # fmt: skip


def _below_every_roof(findings: Sequence[Finding], room: Headroom) -> NextStep:
    left = room.speedup_bound
    if left < PAYS:
        return NextStep(do="stop", words=f"stop: {_left(left)} to the roof", why=f"bounded by {room.bounded_by}")
    hint = next((f for f in findings if f.severity != "info"), None)
    why = f"nothing is full, the roof is {room.bounded_by}, and no rule knows a gain: look at the hottest lines"
    return NextStep(do="go_on", words=f"go on: at most {at_most(left)}, {hint.code if hint else 'no rule says how'}",
                    why=why, code=hint.code if hint else None)  # fmt: skip


def _nothing(findings: Sequence[Finding], *, roofed: bool) -> str:
    """Why nothing is left to do; a promise beyond the bar that little is sure of is one all the same."""
    least = PAYS if roofed else 1.03
    unsure = any(f.estimate is not None and f.estimate.speedup > least for f in findings if f.severity != "info")
    return f"no rule {'is sure enough of' if unsure else 'promises'} more than {percent(least - 1)}"


def _left(speedup: float) -> str:
    return percent(max(0.0, 1 - 1 / max(speedup, 1.0)))
