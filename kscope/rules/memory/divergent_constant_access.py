"""Lanes read different constants, and the constant cache serves one address at a time.

## What it does

Finds constant loads with a register index (`LDC`, `c[..][R..]`) whose index depends on the lane or on loaded data.

## Why it costs time

The constant cache broadcasts one word a cycle to the whole warp. Lanes that want n different words take n rounds, and
the warp waits for the last.

## Evidence

`idc__requests` a constant load (1 when uniform; those of loads at a fixed address are taken off), samples on the loads.

## Fix

Put tables that lanes index differently into shared memory (one word a lane and round, no serialisation across banks)
or plain global memory through L1; keep `__constant__` for what all lanes read together.

Before:

    __constant__ float lut[256];     y = lut[x[i] & 255];

After:

    __shared__ float lut_s[256];     y = lut_s[x[i] & 255];

## In SASS

`c[0x3][R0]`: a constant at an address of the lane's own. From shared memory it is an `LDS`.

Before (capture lut256.constant):

    LDC.64 R2, c[0x0][0x218]
    ...
    LDC R4, c[0x3][R0]
    LDC R5, c[0x3][R8]
    LDC R7, c[0x3][R7]
    ...
    LDC R6, c[0x3][R6]

After (capture lut256.shared):

    LDG.E.CONSTANT R4, desc[UR6][R4.64]
    ...
    LDS R4, [R0]
    LDS R5, [R5]
    LDS R7, [R10]
    LDS R6, [R6]

## When it is wrong

A uniform index (same for all lanes) is what constant memory is for; the rule checks requests a load. Loads through the
uniform datapath (`ULDC c[..][UR..]`) have a cache of their own; where they miss it (`imc_miss`) lanes do not differ. In
a public kernel tables that loops walk lost there all that multiplications for divisions had won (0.90x); with the
tables in shared memory too it was 2.80x.

## Source

CUDA C++ Best Practices Guide, Constant Memory.
"""

from __future__ import annotations

from kscope.features.facts import Code, Demand, Facts, total
from kscope.rules.base import PASSED, Missing, Outcome, ProfiledRule, derived, measured, percent

FULL = 0.9  # load of the constant cache from which all that queues for it waits for these loads


class DivergentConstantAccess(ProfiledRule):
    code = "MEM111"
    slug = "divergent-constant-access"
    title = "Constant memory is indexed by the lane"
    regime = "memory"
    needs_samples = True
    collect = "--section MemoryWorkloadAnalysis_Chart"

    def check(self, facts: Facts, code: Code) -> Outcome:
        m = facts.kernel.metrics
        indexed = code.indexed_constants
        if not len(indexed):
            return PASSED
        executed = total(code.executed, indexed)
        if m.get("idc__requests.sum") is None and executed:
            return Missing(f"rounds of indexed constant loads were not collected; profile with {self.collect}")
        rounds = code.constant_rounds or 0.0
        requests = rounds * executed
        share = code.blamed_share(indexed)
        cache = facts.counters.units.get("constant")
        if cache is not None and cache.load > FULL:
            # The queue in front of a full cache holds back whatever else goes through it, the next loads too.
            share = max(share, facts.counters.stalls.of("imc_miss", "mio_throttle", "short_scoreboard"))
        if rounds < 2 or share < 0.03:
            return PASSED
        return self.finding(
            why=(
                f"{executed:,.0f} indexed constant loads took {requests:,.0f} rounds: {rounds:.1f} different "
                f"addresses a warp. {percent(share)} of all samples wait for them."
            ),
            fix="put the table into shared memory, or read it through L1 (__ldg); keep __constant__ for uniform reads",
            evidence=[
                measured(facts, "idc__requests.sum"),
                derived("indexed constant loads", executed, "inst", "LDC with a register index"),
                measured(facts, "idc__request_cycles_active.avg.pct_of_peak_sustained_elapsed"),
            ],
            locations=code.locations(indexed),
            estimate=facts.estimate.relieve(share, 1.5 / rounds, self._scale(code, executed, requests)),
            confidence=0.75,
        )

    def _scale(self, code: Code, executed: float, requests: float) -> dict[Demand, float]:
        """Each round goes through the memory-instruction queue again; as loads of L1 or shared memory they are one
        instruction of the load/store unit each."""
        loads = total(code.executed, code.where(lambda ins, op: op.pipe == "lsu"))
        others = total(code.executed, code.where(lambda ins, op: op.pipe in ("lsu", "xu", "adu"))) - executed
        return {
            "constants": executed / requests,
            "mio_instructions": (others + executed) / (others + requests),
            "lsu_instructions": (loads + executed) / loads if loads else 1.0,
        }
