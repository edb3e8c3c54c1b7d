"""The tiles of a product on tensor cores are too small for L2.

## What it does

Holds the tensor operations of a kernel against the bytes that it asks of L2, which gives the side of its tiles, and
fires where L2 is the limit, holds up the tensor pipe, and larger tiles ask for clearly less.

## Why it costs time

A tile of M x N results reads M + N values for each M x N multiply-adds of a step: with tiles half as wide, the bytes
double. Tensor cores finish a tile of 64 x 64 before L2 has brought the next.

## Evidence

Operations a byte that was asked of L2, the side of a tile that asks for so much, the load of L2 and of the tensor pipe.

## Fix

A larger tile a block: 128 x 128, then 128 x 256 with two consumer warpgroups; clusters that multicast tiles; an order
of blocks that shares them in L2.

Before:

    constexpr int TM = 64, TN = 64;                                // 32 operations a byte

After:

    constexpr int TM = 128, TN = 256;                              // 85 operations a byte

## In SASS

The side of a tile stands in the number of products between two copies, not in their kind.

From (capture proj_out.fragments):

    LDGSTS.E.BYPASS.128 [R33], desc[UR4][R4.64]
    LDGSTS.E.BYPASS.128 [R35], desc[UR4][R6.64]
    LDGSTS.E.BYPASS.128 [R33+0x2800], desc[UR4][R28.64]
    LDGSTS.E.BYPASS.128 [R35+0x2800], desc[UR4][R30.64]
    ...
    HMMA.16816.F32.BF16 R68, R36, R88, R68
    HMMA.16816.F32.BF16 R64, R36, R90, R64

## When it is wrong

A product with a short side has no larger tile to give. Several passes over the same tile, or bytes that device memory
cannot deliver, are other faults; kernels that show these are passed over.

## Source

CUTLASS, efficient GEMM (threadblock tiles). Captures hgemm.wmma_padded, mma_ring.wait_three, proj_out.fragments.
"""

from __future__ import annotations

from kscope.features.facts import SQUARE, Code, Demand, Facts
from kscope.rules._shared.data_reuse import wasteful
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

BUSY = 0.75  # load of L2 from which the tiles of a tensor-core product are too small for it (judged)
LESS = 0.9  # of the bytes that a larger tile asks for, and of L2's load that the tensor pipe has: above, no finding


class SmallProductTiles(ProfiledRule):
    code = "MEM117"
    slug = "small-product-tiles"
    title = "Product tiles ask L2 for too many bytes"
    regime = "memory"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        units, now = facts.counters.units, facts.counters.product_tile
        l2, tensor = units.get("l2"), units.get("tensor")
        if l2 is None or tensor is None or now is None or l2.load < BUSY or tensor.load > LESS * l2.load:
            return PASSED
        if now.kept > LESS or facts.counters.l2_passes or not facts.specialized.held_up("l2") or wasteful(facts, code):
            return PASSED
        loads = code.where(
            lambda ins, op: op.pipe == "tma" or (op.space == "global" and op.access in ("load", "async_copy"))
        )
        waiting = facts.counters.stalls.of("long_scoreboard", "barrier")
        scale: dict[Demand, float] = dict.fromkeys(("l2_sectors", "l2_requests", "dram_bytes"), now.kept)
        return self.finding(
            why=(
                f"{now.intensity:.0f} operations for each byte from L2: what tiles of {now.side:.0f} x {now.side:.0f} "
                f"have. L2 is {percent(l2.busy)} busy, the tensor pipe {percent(tensor.busy)}; tiles of "
                f"{'128 x 128' if now.better == SQUARE else '128 x 256'} ask for {percent(now.kept)} of the bytes."
            ),
            fix="a larger tile a block: 128 x 128, then 128 x 256 with two consumer warpgroups; clusters that "
            "multicast tiles; an order of blocks that shares them in L2",
            evidence=[
                derived("operations a byte from L2", now.intensity, "", "tensor operations over bytes asked for"),
                derived("side of such a tile", now.side, "", "harmonic mean of both sides"),
                measured(facts, l2.parts[0].metric),
            ],
            locations=code.locations(code.ran(loads)),
            estimate=facts.estimate.relieve(waiting, now.kept, scale, latency=now.kept),
            pulls=["+tile", "+shared memory"],
            confidence=0.75,
        )
