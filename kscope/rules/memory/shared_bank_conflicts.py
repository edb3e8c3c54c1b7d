"""Lanes of a warp hit different words of one shared-memory bank, and the access is replayed.

## What it does

Compares the wavefronts of each shared-memory instruction with the fewest that its width needs. A 16-byte access
needs four wavefronts without any conflict, so width is not mistaken for one.

## Why it costs time

Shared memory has 32 banks of 4 bytes. Two lanes that want different words of one bank are served one after the
other: an n-way conflict takes n wavefronts of the L1 data pipe, and every other memory instruction queues behind
(`mio_throttle`, `short_scoreboard`).

## Evidence

`memory_l1_wavefronts_shared` against `memory_l1_wavefronts_shared_ideal` an instruction. The hardware counters
`l1tex__data_bank_conflicts_*` are not used: they include arbitration with LDGSTS, TMA and tensor reads.

## Fix

Pad the row by one access width, or swizzle the column with the row.

Before:

    __shared__ float t[32][32];   ... t[threadIdx.x][threadIdx.y]     // stride 32 words: one bank

After:

    __shared__ float t[32][33];   // or t[y][x ^ y]

The SASS keeps its `LDS`; only the address stride changes.

## When it is wrong

A conflict in a cold prologue costs nothing; the estimate follows the samples. Padding can break 16-byte alignment:
pad by 4 words for float4, or swizzle.

## Source

CUDA C++ Best Practices Guide, Shared Memory and Memory Banks.
"""

from __future__ import annotations

from kscope.features.columns import total
from kscope.features.facts import Facts
from kscope.rules.base import PASSED, Missing, Outcome, Rule, derived, percent

ACTUAL = "memory_l1_wavefronts_shared"
IDEAL = "memory_l1_wavefronts_shared_ideal"


class SharedBankConflicts(Rule):
    code = "MEM103"
    slug = "shared-bank-conflicts"
    title = "Shared-memory accesses conflict on banks"
    regime = "memory"
    needs_sass = True
    needs_samples = True
    collect = "--section SourceCounters"

    def check(self, facts: Facts) -> Outcome:
        code = facts.code
        assert code is not None
        actual, ideal = code.column(ACTUAL), code.column(IDEAL)
        if actual is None or ideal is None:
            if not len(code.where(lambda ins, op: op.space == "shared")):
                return PASSED
            return Missing(f"{ACTUAL} was not collected; profile with {self.collect}")
        bad = [i for i, x in enumerate(actual) if x > ideal[i] * 1.1]
        excess = total(actual, bad) - total(ideal, bad)
        if not len(bad) or excess < 0.05 * total(actual):
            return PASSED
        share = code.blamed_share(bad)
        every = facts.kernel.metrics.get("l1tex__data_pipe_lsu_wavefronts.sum") or total(actual)
        ratio = total(ideal, bad) / total(actual, bad)
        scale = {"l1_wavefronts": max(0.0, 1 - excess / every)}
        worst = code.hottest(bad)[0]
        ways = actual[worst] / max(ideal[worst], 1)
        return self.finding(
            title=f"{code[worst].name} replays {ways:.0f} times on bank conflicts",
            why=(
                f"{total(actual, bad):,.0f} wavefronts where {total(ideal, bad):,.0f} would do: a {ways:.0f}-way "
                f"conflict, by access pattern, not arbitration. {percent(share)} of all samples are at or behind them."
            ),
            fix="pad the row by one access width (t[32][33]) or swizzle the column with the row",
            evidence=[
                derived(ACTUAL, total(actual), "wavefront", "all shared accesses"),
                derived(IDEAL, total(ideal), "wavefront", "the same accesses without conflict"),
                derived("samples behind these accesses", share, "", "share of warp samples, blamed by def-use"),
            ],
            locations=code.locations(bad),
            estimate=facts.bounds.relieve(share, ratio, scale),
            confidence=0.9,
        )
