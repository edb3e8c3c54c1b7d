"""The same data is read again and again from L2 or device memory.

## What it does

Follows the address of each global load back to the block index (def-use). A load whose address ignores one grid
dimension is repeated by every block along it; so is nearly all of a window that a block passes over while its
neighbours' windows start a few bytes further (lags, offsets). A second loop over the same pointer passes over the data
again. Device traffic far above the distinct bytes is redundant.

## Why it costs time

Re-read data costs bandwidth as if it were new unless it is still in a cache. When blocks that share data run far
apart in time, L2 has dropped it, and device memory serves it again.

## Evidence

The grid dimensions that reach each load's address, how far it moves a block and a round, bytes that the loads ask for,
bytes moved at L2 and device memory, the L2 hit rate.

## Fix

Tile: let a block (or cluster) keep the shared operand in shared memory for more outputs. Reorder blocks so that
neighbours in time share operands: grouped or Hilbert order instead of row-major. On sm_90 and later multicast TMA
loads through a cluster; mark the reused operand persistent in L2.

Before:

    int by = blockIdx.y, bx = blockIdx.x;                          // a whole row of B passes between reuses of A

After:

    int id = blockIdx.y * gridDim.x + blockIdx.x;                  // groups of 8 rows: both operands stay in L2
    int g = id / (8 * gridDim.x), by = g * 8 + id % 8, bx = (id / 8) % gridDim.x;

Several passes over one row (maximum, sum, scale) become one when the row stays in registers, or two with an online
algorithm. Where a thread cannot have registers for its part, and shared memory for a row leaves fewer warps to wait for
loads, the finding says so: a wider block holds the row, a few words in each thread.

## In SASS

A load from memory for each pass; with the row in registers, loads before the first exponential and none after it.

Before (capture softmax_rows.threepass):

    LDG.E.128.CONSTANT R4, desc[UR8][R4.64]
    ...
    LDG.E.128.CONSTANT R4, desc[UR8][R4.64]
    ...
    MUFU.EX2 R4, R9
    ...
    MUFU.EX2 R5, R11
    MUFU.EX2 R7, R6

After (capture softmax_rows.registers):

    LDG.E.128.CONSTANT R4, desc[UR6][R36.64]
    LDG.E.128.CONSTANT R32, desc[UR6][R36.64+0x4000]
    LDG.E.128.CONSTANT R28, desc[UR6][R36.64+0x8000]
    LDG.E.128.CONSTANT R24, desc[UR6][R36.64+0xc000]
    LDG.E.128.CONSTANT R20, desc[UR6][R36.64+0x10000]

## When it is wrong

Kernels of bulk copies, whose sizes the code does not tell, are skipped.
The distinct bytes are inferred from the grid, not from the arrays' sizes: where they would fill less than an eighth of
L2, the inference is not believed. Indirect addresses (gathers) are skipped.

## Source

A public normalisation, a warp a row of 48 KiB: the row in shared memory 0.80x, blocks of 16 warps 2.02x. Triton
tutorial 03 (grouped ordering); CUDA C++ Programming Guide, L2 persistence.
"""

from __future__ import annotations

from kscope.features.facts import Code, Demand, Facts
from kscope.isa.families import family
from kscope.rules._shared.passes import WORTH, covered, ways
from kscope.rules.base import PASSED, Missing, Outcome, ProfiledRule, derived, measured, percent

BULK = family("bulk_read")
KEPT = 0.125
"""Of L2, below which data do not go to device memory and come back while they are in use. Judged: loops over a grid
whose size is no launch dimension made 0.1 MB of 1,200 (a public OpenACC kernel on a V100)."""
BUSY = 0.4  # load of device memory below which its bytes are not what costs time


class RedundantMemoryTraffic(ProfiledRule):
    code = "MEM106"
    slug = "redundant-memory-traffic"
    title = "Device memory serves the same data again and again"
    regime = "memory"
    moves_roof = True
    needs = ("dram__bytes_read.sum",)
    collect = "--section MemoryWorkloadAnalysis"

    def check(self, facts: Facts, code: Code) -> Outcome:
        read = facts.kernel.metrics["dram__bytes_read.sum"]
        if "dram" not in facts.counters.units:
            return Missing("device-memory utilisation was not collected; profile with --section SpeedOfLight")
        if facts.counters.units["dram"].load < BUSY:
            return PASSED
        if code.ran(code.where(lambda ins, op: ins.opcode in BULK)):
            return PASSED  # how much a bulk copy brings stands in a register, not in the code
        seen = covered(facts, code)
        distinct = seen.distinct
        if not seen.repeated or not distinct or read < WORTH * distinct:
            return PASSED
        if distinct < KEPT * (facts.kernel.metrics.get("device__attribute_l2_cache_size") or 0.0):
            return PASSED  # L2 would have kept so little: the addresses are not what they look like
        written = facts.kernel.metrics.get("dram__bytes_write.sum") or 0.0
        kept = (distinct + written) / (read + written)
        fewer = max(kept, distinct / seen.asked)
        scale: dict[Demand, float] = {"dram_bytes": kept, "l2_sectors": fewer, "l2_requests": fewer}
        return self.finding(
            why=(
                f"the loads cover about {distinct / 1e6:,.0f} MB of distinct data, device memory delivered "
                f"{read / 1e6:,.0f} MB: {read / distinct:.1f} times. L2 hit rate "
                f"{percent(facts.counters.traffic.l2_hit or 0.0)}."
            ),
            fix=seen.fix,
            evidence=[
                measured(facts, "dram__bytes_read.sum"),
                derived("distinct bytes", distinct, "byte", "loads over the dimensions that their address ignores"),
                derived("bytes asked for", seen.asked, "byte", "by all global loads"),
                measured(facts, "lts__t_sector_hit_rate.pct"),
            ],
            locations=code.locations(seen.repeated),
            estimate=facts.estimate.relieve(code.blamed_share(seen.repeated), kept, scale),
            remedies=ways(facts, seen),
            confidence=0.6,
        )
