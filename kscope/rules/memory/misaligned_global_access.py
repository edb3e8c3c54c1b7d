"""Contiguous accesses start off a sector boundary and touch one sector more.

## What it does

Finds global loads and stores whose lanes are contiguous but whose requests touch a sector more than their bytes need:
a base address that is no multiple of 32 bytes.

## Why it costs time

A warp that reads 128 bytes from an address 4 bytes off a boundary touches five sectors instead of four: a quarter
more traffic through L1 and L2, and through device memory unless a neighbour uses the rest from a cache.

## Evidence

`memory_l2_theoretical_sectors_global` against its ideal an instruction, with an excess below half of the ideal.

## Fix

Align the base: pad rows to a multiple of 32 bytes (`cudaMallocPitch`), move headers out of the way, start the loop at
the aligned element and handle the head apart.

Before:

    const float* row = data + r * (cols + 1) + 1;                  // 4-byte header before each row

After:

    const float* row = data + r * pitch;                           // pitch a multiple of 8 floats

## When it is wrong

A stencil reads its neighbours at offsets by design; the extra sectors hit in L1, and the estimate is small.

## Source

CUDA C++ Best Practices Guide, A Sequential but Misaligned Access Pattern.
"""

from __future__ import annotations

from kscope.features.columns import total
from kscope.features.facts import Facts
from kscope.rules.base import PASSED, Missing, Outcome, Rule, derived, percent
from kscope.rules.memory.uncoalesced_global_access import EXCESS, IDEAL, TOUCHED

LEAST = 0.05  # excess over ideal below which nothing is called misaligned


class MisalignedGlobalAccess(Rule):
    code = "MEM108"
    slug = "misaligned-global-access"
    title = "Contiguous accesses start off a sector boundary"
    regime = "memory"
    needs_sass = True
    needs_samples = True
    collect = "--section SourceCounters"

    def check(self, facts: Facts) -> Outcome:
        code = facts.code
        assert code is not None
        touched, ideal = code.column(TOUCHED), code.column(IDEAL)
        if touched is None or ideal is None:
            return Missing(f"{TOUCHED} was not collected; profile with {self.collect}")
        off = [i for i, x in enumerate(touched) if ideal[i] * (1 + LEAST) < x <= ideal[i] * (1 + EXCESS)]
        if not off or total(touched, off) - total(ideal, off) < LEAST * total(touched):
            return PASSED
        share = code.blamed_share(off)
        ratio = total(ideal, off) / total(touched, off)
        kept = 1 - (total(touched, off) - total(ideal, off)) / total(touched)
        caught = facts.traffic.l1_hit or 0.0
        beyond = 1 - (1 - kept) * (1 - caught)
        scale = {"l1_wavefronts": kept, "l2_sectors": beyond, "l2_requests": beyond, "dram_bytes": beyond}
        worst = code.hottest(off)[0]
        return self.finding(
            why=(
                f"{code[worst].name} touches {touched[worst] / max(code.executed[worst], 1):.1f} sectors a request "
                f"where {ideal[worst] / max(code.executed[worst], 1):.1f} hold its bytes; L1 catches "
                f"{percent(caught)} of them. {percent(share)} of all samples wait for these accesses."
            ),
            fix="align the base to 32 bytes: pitched rows, headers elsewhere, an aligned main loop with a scalar head",
            evidence=[
                derived(TOUCHED, total(touched, off), "sector", "the misaligned accesses"),
                derived(IDEAL, total(ideal, off), "sector", "the same bytes, aligned"),
                derived("samples behind these accesses", share, "", "share of warp samples, blamed by def-use"),
            ],
            locations=code.locations(off),
            estimate=facts.bounds.relieve(share, ratio, scale),
            confidence=0.8 if caught < 0.3 else 0.4,
        )
