"""Loads that L1 may not answer, of data that all blocks share and nobody writes.

## What it does

Finds strong loads (`volatile`, `ld.relaxed`, `ld.cg`: `LDG.STRONG`) whose address ignores the block index, in kernels
without a fence, an atomic or a strong store that do not poll, with warps waiting for them.

## Why it costs time

L1 is not coherent and may not answer a strong load: each is a trip to L2, and the compiler neither merges volatile
loads nor moves them up. All blocks read the same few bytes, which L1 would hold.

## Evidence

Samples that wait for these loads (def-use), how many there are, and what of their latency is left in L1.

## Fix

Drop `volatile` or the cache operator: `const T* __restrict__`, `__ldg`. `volatile` is for flags that somebody else
writes meanwhile.

Before:

    const volatile float* c;                                       // each use is a load of its own

After:

    const float* __restrict__ c;                                   // one load of 16 bytes, answered by L1

## In SASS

`LDG.E.STRONG`, 4 bytes each; the plain loads are merged.

Before (capture nearest.debug):

    LDG.E.STRONG.SYS R25, desc[UR4][R2.64]
    LDG.E.STRONG.SYS R26, desc[UR4][R2.64+0x4]
    LDG.E.STRONG.SYS R27, desc[UR4][R2.64+0x8]
    FADD R0, R4, -R25

After (capture nearest.plain):

    LDG.E.128.CONSTANT R40, desc[UR4][R48.64]
    LDG.E.128.CONSTANT R36, desc[UR4][R48.64+0x10]
    FADD R2, R20, -R40

## When it is wrong

Strong loads are right where the host or another kernel writes the data meanwhile; the report does not show those.

## Source

PTX ISA, memory consistency model (strong operations) and cache operators. The pair nearest, measured.
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, percent

WAITED = 0.1  # share of the samples behind strong loads from which they are worth a word (judged)


class StrongGlobalLoads(ProfiledRule):
    code = "MEM116"
    slug = "strong-global-loads"
    title = "Loads of data that all blocks share may not use L1"
    regime = "memory"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        loads = facts.patterns.strong_loads_shared_by_blocks(facts.kernel.launch)
        share = code.blamed_share(loads, "long_scoreboard", "lg_throttle")
        if share < WAITED:
            return PASSED
        kept = facts.patterns.l1_over_l2_latency
        sectors = 1 - facts.profile.sectors_share(loads) * (1 - 1 / facts.counters.launch.warps_per_block)
        return self.finding(
            why=(
                f"{percent(share)} of all samples wait for {code[loads[0]].name}: a strong load (volatile, "
                "ld.relaxed, ld.cg) goes to L2 each time and is neither merged nor moved up. All blocks read the same "
                "few bytes, and the kernel neither fences nor counts nor publishes: a plain load would find them in L1."
            ),
            fix="drop volatile (or the cache operator): const T* __restrict__, __ldg; volatile is for flags that "
            "somebody else writes meanwhile",
            evidence=[
                derived("samples behind strong loads", share, "", "long_scoreboard, lg_throttle, blamed on the loads"),
                derived("strong loads", len(loads), "inst", "LDG.STRONG, addresses without the block index"),
                derived("latency left", kept, "", "unloaded latency of L1 over L2 (kscope/arch/latency.toml)"),
            ],
            locations=code.locations(loads),
            estimate=facts.estimate.relieve(
                share,
                kept,
                {"l2_sectors": sectors, "l2_requests": sectors},
                latency=facts.estimate.floor_without(loads, kept),
            ),
            confidence=0.75,
        )
