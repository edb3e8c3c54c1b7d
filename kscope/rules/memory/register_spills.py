"""Values that did not fit the register file are stored to and reloaded from local memory.

## What it does

Counts the local-memory instructions that the compiler marked as spills and refills, and what their traffic costs.

## Why it costs time

A spill is a store to, a refill a load from, memory that lives in L1 and falls through to L2 and device memory when
many warps spill at once. The refill's latency sits on the critical path, and the traffic displaces useful data.

## Evidence

`sass__inst_executed_register_spilling` (from the compiler's own annotation), local sectors at L1, samples blamed on
`LDL` and `STL`.

## Fix

Let the compiler use more registers (`__launch_bounds__` with fewer blocks or threads, `-maxrregcount` removed), or
keep fewer values alive: a smaller tile a thread, a loop split in two, recomputation.

Before:

    __global__ void __launch_bounds__(1024, 2) k(...)     // 32 registers a thread: STL / LDL in the loop

After:

    __global__ void __launch_bounds__(256, 2) k(...)      // 128 registers a thread: no LDL

## In SASS

Slots at constant offsets from the stack pointer R1, or none.

Before (capture spill.slow):

    LDL.LU R15, [R1+0x198]
    ...
    LDL.LU R22, [R1+0x194]
    ...
    LDL.LU R23, [R1+0x190]
    ...
    LDL.LU R24, [R1+0x18c]
    ...
    LDL.LU R25, [R1+0x188]

After (capture spill.fast):

    FFMA R31, R100, R31, R21
    FFMA R28, R101, R28, R16
    FFMA R29, R62, R29, R19
    FFMA R27, R93, R27, R14
    FFMA R26, R90, R26, R17

## When it is wrong

A few spills outside the hot loop cost nothing. More registers mean fewer warps (the estimate counts those that a
register for each slot costs); where latency is hidden by occupancy alone, the trade can lose.

## Source

CUDA C++ Programming Guide, Launch Bounds; Kernel Profiling Guide, local memory.
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts, total
from kscope.rules._shared.local_memory import fewer_warps, local_estimate, local_instructions
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

SPILLS = "sass__inst_executed_register_spilling"


class RegisterSpills(ProfiledRule):
    code = "MEM104"
    slug = "register-spills"
    title = "Registers spill to local memory"
    regime = "memory"
    moves_roof = True
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        spills, _ = local_instructions(facts, code)
        if not len(spills):
            return PASSED
        share = code.blamed_share(spills)
        issue = code.issue_share(spills)
        if share < 0.01 and issue < 0.01:
            return PASSED
        fewer = fewer_warps(facts, code, spills)
        lost = f" With a register for each, an SM holds {percent(fewer)} of the warps." if fewer < 1 else ""
        executed, sectors = total(code.executed, spills), facts.counters.traffic.local_sectors
        return self.finding(
            title=f"{facts.kernel.launch.registers} registers a thread are too few: values spill",
            why=(
                f"{executed:,.0f} spill and refill instructions ({percent(issue)} of all issued) move "
                f"{sectors * 32 / 1e9:.2f} GB through L1. {percent(share)} of all samples wait "
                f"for them.{lost}"
            ),
            fix="allow more registers (__launch_bounds__, no -maxrregcount) or keep fewer values alive",
            evidence=[
                measured(facts, SPILLS, "by the compiler's own annotation"),
                measured(facts, "launch__registers_per_thread"),
                derived("local sectors", sectors, "sector", "l1tex__t_sectors_pipe_lsu_mem_local"),
                derived("samples behind spills", share, "", "share of warp samples, blamed by def-use"),
            ],
            locations=code.locations(spills),
            estimate=local_estimate(facts, code, spills, [], fewer),
            pulls=["+registers"],
            confidence=0.9,
        )
