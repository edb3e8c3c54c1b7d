"""The consumers of a pipeline wait for data because its producer is late.

## What it does

Finds warp-specialised kernels whose MMA (or consumer) role waits for data in the steady phase while slots are free:
the producer itself is the slow part.

## Why it costs time

The tensor pipe runs only while its operands are there. A producer that computes addresses, converts, waits for other
data or issues many small copies hands over stages more slowly than they are used; more stages would only move the
first wait.

## Evidence

Exposed waits of the consumers at the barriers that bulk copies signal; the producer's own waits for free slots (few:
it is never ahead), exact retry counts on both sides, memory units that are not full.

## Fix

Make the producer faster: larger boxes a copy, one elected lane, addresses by increments, tensor maps prefetched,
multicast in a cluster so that each block issues less, a second producer warp for the other operand; nothing else in the
producer's loop. Where the producer itself computes what is handed over (converts, scales), give that to more warps.

Before:

    for (k...) { wait(empty); addr = f(k); for (r...) copy_row(addr, r); }      // 64 small copies a stage

After:

    for (k...) { wait(empty); tma_load(a, k); tma_load(b, k); }                 // two boxes a stage

## In SASS

The consumers' code is the same; the time is at the `TRYWAIT` on the full barrier, which the slow producer arrives at
late.

Before (capture ws_gemm.produce_exposed):

    SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9+0x30000], R2
    ...
    WARPGROUP.ARRIVE
    ...
    HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24, UP0
    ...
    HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24
    ...
    HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24

After (capture ws_gemm.best):

    HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24.gsb0
    WARPGROUP.DEPBAR.LE gsb0, 0x1
    ...
    WARPGROUP.DEPBAR.LE gsb0, 0x0
    ...
    SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR13+0x30020], R0
    ...
    SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9+0x30000], R2

## When it is wrong

A producer that waits for memory shows the same exposed waits, but also waits for slots, or memory is full: then it is
ASY504 or the memory itself.

## Source

PTX ISA, mbarrier and cp.async.bulk.tensor; CUTLASS, pipeline of sm90 warp-specialised mainloops.
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts
from kscope.rules._shared.pipelines import DataRule, role_evidence, sampled, unit_title
from kscope.rules.base import PASSED, Missing, Outcome, Passed, derived, percent

COPIES = "larger boxes a copy, multicast in a cluster, less work in the producer's loop, a second producer warp"
COMPUTES = "more warps for the producer's arithmetic, or leave it to those that use the data; less of it a stage"


class ProducerBoundPipeline(DataRule):
    code = "ASY502"
    slug = "producer-bound-pipeline"
    title = "Consumers wait for data that the producer sends late"
    regime = "memory"

    def check(self, facts: Facts, code: Code) -> Outcome:
        known = self.late(facts)
        if isinstance(known, (Passed, Missing)):
            return known
        sp, loss, slots = known
        if not sp.asks_late:
            return PASSED
        made = sp.makes >= facts.constants.producer_makes
        producers = [i for r in sp.roles.producers for i in r.members]
        return self.finding(
            why=(
                f"The {unit_title(sp)} loses {percent(loss.data)} of the time while its role waits for data, yet the "
                f"producer waits for a free slot in only {percent(slots)} of its own time: it works on "
                f"{percent(1 - slots)} of it. No memory unit is full ({percent(facts.counters.beyond_l1_load)})."
            ),
            fix=COMPUTES if made else COPIES,
            evidence=[
                *self.lost(sp, loss, slots),
                *([derived("arithmetic of the producer", sp.makes, "", "of what it executes")] if made else []),
                *role_evidence(sp),
            ],
            locations=sampled(code, producers),
            estimate=facts.estimate.regain(loss.data, sure=1.0, high=loss.steady),
            confidence=0.8,
            regime="compute" if made else None,
        )
