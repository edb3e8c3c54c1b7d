"""Each wgmma is waited for before the next one starts.

## What it does

Finds loops in which a `WARPGROUP.DEPBAR` (or an arrive and wait) follows every few `HGMMA`, with the tensor pipe idle
in between. Warp-specialised kernels have a rule of their own (CMP213).

## Why it costs time

A wgmma runs asynchronously for tens to hundreds of cycles. Waiting for each one exposes its whole latency; several in
flight keep the pipe full. The compiler also serialises them when accumulator registers are touched in between.

## Evidence

Executions of `HGMMA` against waits in the loop, barrier samples at the waits (the sampler counts the wait for wgmma as
`barrier`), tensor pipe utilisation.

## Fix

Commit groups and wait for all but the newest (`wgmma.wait_group 1`), keep the accumulators untouched between them,
unroll over K.

Before:

    wgmma(...); commit(); wait<0>();                               // each k step

After:

    wgmma(...); commit(); wait<1>();                               // the next one is in flight already

## In SASS

`DEPBAR` behind every `HGMMA`; or one behind a batch, whose last carries the scoreboard (`gsb0`).

Before (capture wgmma_flight.each):

    HGMMA.64x64x16.F32 R24, gdesc[UR4], R24.gsb0
    WARPGROUP.DEPBAR.LE gsb0, 0x0
    WARPGROUP.ARRIVE
    HGMMA.64x64x16.F32 R24, gdesc[UR4], R24.gsb0
    WARPGROUP.DEPBAR.LE gsb0, 0x0

After (capture wgmma_flight.sixteen):

    HGMMA.64x64x16.F32 R24, gdesc[UR4], R24.gsb0
    WARPGROUP.DEPBAR.LE gsb0, 0x0
    WARPGROUP.ARRIVE
    HGMMA.64x64x16.F32 R24, gdesc[UR4], R24
    HGMMA.64x64x16.F32 R24, gdesc[UR4], R24

## When it is wrong

One wait a tile, before the epilogue reads the accumulators, is needed. With a tensor pipe near its peak the waits are
covered.

## Source

PTX ISA, wgmma.wait_group; ptxas warning C7510 (potential performance loss: wgmma serialised).
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts, total
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

FEW = 2.5  # HGMMA a wait, below which they count as serialised


class SerializedWgmma(ProfiledRule):
    code = "CMP209"
    slug = "serialized-wgmma"
    title = "Each wgmma is waited for before the next starts"
    regime = "compute"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        tensor = facts.counters.units.get("tensor")
        if facts.specialized.pipeline is not None:
            return PASSED
        products = code.ran(code.where(lambda ins, op: "wgmma" in op.kind and "wgmma_wait" not in op.kind))
        waits = code.ran(code.where(lambda ins, op: "wgmma_wait" in op.kind))
        if not products or not waits:
            return PASSED
        ratio = total(code.executed, products) / total(code.executed, waits)
        share = code.blamed_share([*waits, *products])
        busy = tensor.busy if tensor is not None else 0.0
        if ratio > FEW or share < 0.2 or busy > 0.85:
            return PASSED
        # The pipe's own time stays; what is exposed is the part of the waiting in which it idles.
        exposed = share * (1 - busy)
        return self.finding(
            why=(
                f"{ratio:.1f} HGMMA for each wait; {percent(share)} of all samples wait for their results, and the "
                f"tensor pipe is {percent(busy)} busy."
            ),
            fix="several groups in flight (wgmma.wait_group 1 or more), accumulators untouched in between",
            evidence=[
                derived("HGMMA a wait", ratio, "", "executions"),
                derived("samples waiting for wgmma", share, "", "WARPGROUP.DEPBAR and ARRIVE"),
                measured(facts, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
            ],
            locations=code.locations([*waits, *products]),
            estimate=facts.estimate.relieve(exposed, 0.2, {}, latency=1 - exposed),
            confidence=0.8,
        )
