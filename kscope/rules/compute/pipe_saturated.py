"""A pipe, a cache or the issue slots run near the peak.

## What it does

Says that the kernel is at a roof inside the chip: which pipe or cache, and what feeds it. A pipe that is not full but
works more than any other unit, while warps queue for it or for issue slots, is named as well, as a minor finding.

## Why it costs time

A pipe that is busy in every cycle cannot be made to do the same work faster by more occupancy or better memory
access. Only less work, cheaper work or another pipe helps.

## Evidence

The pipe's utilisation over the whole kernel against what kernels attain, and the opcodes that fill it.

## Fix

Fewer or cheaper operations (a better algorithm, reuse of intermediate results), a smaller type, packed instructions
(HFMA2, FFMA2, IDP), another pipe (tensor cores for products, FMA for integer multiply, LUT for functions).

Before:

    acc += a[i] * b[i];     // FFMA, FMA pipe 96 %

After:

    acc2 = __hfma2(a2[i], b2[i], acc2);   // two products an instruction, where half precision suffices

## In SASS

Independent multiply-adds back to back: every issue slot does work.

From (capture tail_effect.fast):

    FFMA R8, R8, R5, 0.5
    FFMA R10, R10, R5, 0.5
    FFMA R12, R12, R5, 0.5
    FFMA R6, R6, R5, 0.5
    FFMA R8, R8, R5, 0.5

## When it is wrong

A pipe can be full of useless work: redundant index arithmetic (CMP205), idle lanes (LAT305), accidental FP64
(CMP203). Those findings then come first.

## Source

Kernel Profiling Guide, Pipelines; attained rates: kscope/arch/units.toml.
"""

from __future__ import annotations

from msgspec import structs

from kscope.features.facts import Code, Facts, Unit
from kscope.model.contract.analysis import Location
from kscope.rules.base import PASSED, CounterRule, Missing, Outcome, derived, measured, percent

LEFT = 0.06  # of the time that a specialised kernel's pipe loses in the steady phase, above which it is not at its peak
NEAR = 0.85  # of what is attainable
TOLD = 0.6  # the same of the fullest part with a name, below which the unit is at no peak
FIXES = {
    "l2": "fewer bytes from L2: whole sectors, values kept in registers or shared memory, a smaller type",
    "tiles": "larger tiles (more work a byte from L2), clusters with multicast, a smaller type, fewer re-reads",
    "l1": "keep values in registers (tiles), wider or fewer shared-memory accesses",
    "tensor": "at the roof: a smaller type (FP8), sparsity, or less work",
    "xu": "polynomials on the FMA pipe for a part of the functions, fewer of them, a table",
    "fp64": "FP32 or tensor-core FP64 where the precision allows",
}
SLOTS = "More issue slots are taken than anything else"
SHOWN = 3  # places of a pipe that is not full: all its instructions are no fault
QUEUES = ("not_selected", "math_pipe_throttle", "dispatch_stall", "mio_throttle")  # for a turn on a pipe or a slot
OFF_CHIP = ("global", "generic", "local")
CACHED = {"l1": ("shared", "dshared", *OFF_CHIP), "l2": ("dshared", *OFF_CHIP)}  # spaces whose accesses load the cache
PIPES = ("tensor", "fma", "fp64", "alu", "xu", "issue", "l2", "l1")


class PipeSaturated(CounterRule):
    code = "CMP208"
    slug = "pipe-saturated"
    title = "A pipe is at its peak: do less work or use another"
    regime = "compute"
    collect = "--section SpeedOfLight --section ComputeWorkloadAnalysis"

    def check(self, facts: Facts) -> Outcome:
        outer = _memorys(facts)
        pipes = [facts.counters.units[p] for p in PIPES if p in facts.counters.units and p not in outer]
        if not pipes:
            return Missing(f"no pipe utilisation was collected; profile with {self.collect}")
        full = max(pipes, key=lambda u: u.load)
        sp = facts.specialized.pipeline
        if sp is not None and full.name == "tensor" and sp.loss is not None and sp.loss.steady > LEFT:
            return PASSED  # its timeline shows what it still loses between its plateaus
        if not facts.specialized.held_up(full.name):
            return PASSED
        if full.load < NEAR:
            return self._used(facts, full)
        if full.name == "l2" and full.named < TOLD:
            return PASSED  # a counter that nobody explains says busy, all of L2's ports have room
        code = facts.code
        locations = [] if code is None else _users(code, full.name)
        unit = "tiles" if full.name == "l2" and facts.counters.product_tile is not None else full.name
        found = self.finding(
            title=_peaks(full) if full.name != "issue" else "Every issue slot is taken",
            why=(
                f"{full.title} {percent(full.busy)} busy over the whole kernel, {percent(full.load)} of what kernels "
                f"attain: only less work, cheaper instructions or another pipe make this faster.{_waste(facts, full)}"
            ),
            fix=FIXES.get(unit, "fewer or cheaper operations, packed or tensor instructions, a smaller type"),
            evidence=[
                measured(facts, full.parts[0].metric),
                derived("attainable share of peak", full.attainable, "", "kscope/arch/units.toml"),
            ],
            locations=locations,
            confidence=0.85,
            regime=full.regime,
            severity="major",
        )
        return structs.replace(found, roof=full.name)


    def _used(self, facts: Facts, unit: Unit) -> Outcome:
        """A pipe that is not full, but works more than any other unit while warps queue for it or for the issue slot:
        fewer of its instructions are what makes the kernel shorter, how much nobody can tell from here."""
        stalls = facts.counters.stalls
        queued = stalls.of("selected", *QUEUES)
        most = max((share for reason, share in stalls.waiting() if reason not in QUEUES), default=0.0)
        named = unit.load >= facts.constants.full_unit or (unit.load >= facts.constants.used_unit and queued > most)
        if unit.regime != "compute" or not named:
            return PASSED
        code = facts.code
        return self.finding(
            title=SLOTS if unit.name == "issue" else f"The {unit.title} is used more than any other unit",
            why=(
                f"{unit.title} {percent(unit.busy)} busy, and {percent(queued)} of warp time is work or waiting for a "
                "turn: fewer or cheaper instructions there shorten the kernel."
            ),
            fix=FIXES.get(unit.name, "fewer or cheaper operations, packed or tensor instructions, a smaller type"),
            evidence=[
                measured(facts, unit.parts[0].metric),
                derived("warp time at work or queued", queued, "", "stall reasons"),
            ],
            locations=[] if code is None else _users(code, unit.name)[:SHOWN],
            confidence=0.5,
            regime=unit.regime,
            severity="minor",
        )


def _memorys(facts: Facts) -> tuple[str, ...]:
    """Caches that carry what device memory delivers: where that is near its rate too, or loads queue for it, MEM107
    speaks."""
    dram = facts.counters.units.get("dram")
    if dram is not None and dram.load > NEAR:
        return "l2", "l1"
    behind = facts.counters.l2_passes or (facts.counters.l2_shows_dram and facts.estimate.queue >= 1)
    return ("l2",) if behind else ()


def _waste(facts: Facts, full: Unit) -> str:
    """Of a full cache whose accesses nobody counted: work that a better layout saves looks like work."""
    if full.name not in CACHED or facts.code is not None or facts.kernel.counters is not None:
        return ""
    return (
        " Whether bank conflicts or scattered lanes make a part of it was not collected "
        "(--section SourceCounters --import-source yes)."
    )


def _peaks(unit: Unit) -> str:
    return "L1 and shared memory are at their peak" if unit.name == "l1" else f"The {unit.title} is at its peak"


def _users(code: Code, unit: str) -> list[Location]:
    """The instructions that load a unit most: of a cache the accesses by the rounds that they take in it (an LDS with
    conflicts 32), of a pipe its instructions by how often they ran."""
    if unit in CACHED:
        users = code.where(lambda ins, op: op.space in CACHED[unit] or op.pipe == "tex")
        return code.locations(users, 3, weight=code.costs)
    pipes = ("fma", "fmaheavy") if unit == "fma" else (unit,)
    users = code.where(lambda ins, op: unit == "issue" or op.pipe in pipes)
    return code.locations(users, 3, weight=code.executed)
