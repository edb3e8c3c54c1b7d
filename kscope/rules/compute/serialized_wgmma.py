"""Each wgmma is waited for before the next one starts.

## What it does

Finds loops in which a `WARPGROUP.DEPBAR` (or an arrive and wait) follows every few `HGMMA`, with the tensor pipe idle
in between; and warp-specialised kernels whose tensor pipe idles between groups of products because the warps that
issue them wait for one group, signal, and only then start the next.

## Why it costs time

A wgmma runs asynchronously for tens to hundreds of cycles. Waiting for each one exposes its whole latency; several in
flight keep the pipe full. The compiler also serialises them when accumulator registers are touched in between.

## Evidence

Executions of `HGMMA` against waits in the loop, barrier samples at the waits (the sampler counts the wait for wgmma as
`barrier`), tensor pipe utilisation.

## Fix

Commit groups and wait for all but the newest (`wgmma.wait_group 1`), keep the accumulators untouched between them,
unroll over K. A second consumer warpgroup fills the gaps of the first; a wider tile has fewer of them; one thread a
warpgroup arrives at the barriers instead of all 128.

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

from typing import TYPE_CHECKING

from kscope.features.facts import Code, Facts, Scale, total
from kscope.model.operand import ends_with
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

if TYPE_CHECKING:
    from kscope.features.facts import Specialization

IDLE = 0.05  # share of the time that the pipe idles between groups of products
CROWD = 2.0  # lanes an arrival, above which the barrier is crowded
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
            return self._between_groups(facts, code, facts.specialized.pipeline)
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

    def _between_groups(self, facts: Facts, code: Code, sp: Specialization) -> Outcome:
        """Specialised kernels: what the pipe loses in the loop over K, and what fills its gaps."""
        from kscope.isa.operand_shapes import mma_shape
        from kscope.rules._shared.pipelines import REMOVED

        loss, main = sp.loss, sp.time_of(sp.main)
        if loss is None or main is None or not sp.resolved or not sp.products or loss.loop < IDLE:
            return PASSED
        loop = [i for i in sp.loops if code.executed[i]]
        arrivals = [i for i in loop if code[i].opcode == "SYNCS" and "ARRIVE" in code[i].mods]
        lanes = total(code.threads, arrivals) / max(1.0, total(code.executed, arrivals))
        drained = any(code[i].opcode == "WARPGROUP" and ends_with(code[i].operands, 0) for i in loop)
        shapes = [mma_shape(code[i].opcode, code[i].mods) for i in facts.specialized.products(loop)]
        widest = max((shape[1] for shape in shapes if shape is not None), default=0)
        groups = round((main.role.warps or 4) / 4)
        crowd = f", and {lanes:.0f} lanes of each warp arrive at the barriers one by one" if lanes > CROWD else ""
        fixes = [  # what fills the gaps first, then what shortens them
            "a second consumer warpgroup fills the gaps of the first" if groups < 2 else "",
            f"a wider tile (N = {widest} now, 256 is the most)" if 0 < widest < 256 else "",
            f"one thread a warpgroup arrives at the barriers ({lanes:.0f} lanes a warp now)" if lanes > CROWD else "",
            "wait for all but the newest group (wgmma.wait_group 1)" if drained else "",
            "unrolling over K, less address arithmetic between products",
        ]
        # Another warpgroup or a wider product is a larger tile, which asks L2 for less.
        now = facts.counters.product_tile
        larger = now is not None and (groups < 2 or 0 < widest < 256)
        scale: Scale = {}
        if now and larger:
            scale = dict.fromkeys(("l2_sectors", "l2_requests", "dram_bytes"), now.kept)
        return self.finding(
            title="The tensor pipe idles between groups of products",
            why=(
                f"In the loop over K the tensor pipe loses {percent(loss.loop)} of the time while its {groups} "
                f"warpgroup{'s' * (groups > 1)} issue, signal and wait their turn; every group of products is "
                f"{'waited for before the next starts' if drained else 'followed by such a gap'}{crowd}."
            ),
            fix="; ".join(f for f in fixes if f),
            evidence=[
                derived("lost between products", loss.loop, "", "tensor timeline, by where its warps are"),
                derived("MMA role neither waiting nor storing", main.issued.point, "", "share of its samples"),
                derived("lanes an arrival", lanes, "", "SYNCS.ARRIVE in the loop"),
                measured(facts, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
            ],
            locations=code.locations([*arrivals, *(i for i in loop if code[i].opcode == "WARPGROUP")]),
            estimate=facts.estimate.regain(loss.loop, sure=REMOVED, high=loss.steady, scale=scale),
            confidence=0.75 if lanes > CROWD or groups < 2 else 0.6,
        )
