"""The multiply-adds of the hot loop load both operands each time.

## What it does

Finds loops whose FMAs take both factors from loads of the same loop, and counts loaded words an FMA. A tile of
registers would use each loaded word several times.

## Why it costs time

An FMA pipe does one warp instruction a cycle a sub-partition; shared memory delivers a quarter of that in words. With
two loads an FMA the load path is the limit at a few percent of the arithmetic peak.

## Evidence

Loads and FMAs of the loop (executions), def-use from load to FMA, load on L1 and the load/store queue, samples blamed
on those loads.

## Fix

From global memory: stage tiles in shared memory. From shared memory: compute a tile of outputs a thread (1 x 8, then
8 x 8), so that 8 + 8 loads feed 64 FMAs; load them as float4.

Before:

    for (k) s += as[ty][k] * bs[k][tx];                            // 2 loads, 1 FMA

After:

    for (k) { ra[i] = as[k][ty*8+i]; rb[j] = bs[k][tx*8+j];        // 16 loads,
              acc[i][j] += ra[i] * rb[j]; }                        // 64 FMAs

## When it is wrong

A dot product or matrix-vector product uses each matrix element once: there is no reuse to win, device memory is the
roof, and the estimate is capped by it.

## Source

Volkov and Demmel, SC 2008; S. Boehm, "How to Optimize a CUDA Matmul Kernel".
"""

from __future__ import annotations

from kscope.features.columns import total
from kscope.features.facts import Facts
from kscope.features.matmul import fma_loops
from kscope.rules.base import PASSED, Outcome, Rule, derived, percent

TILE = 0.25  # loaded words an FMA of an 8 x 8 register tile
STEP = 4.0  # reduction of loads that one step of tiling (global to shared, shared to registers) brings at least


class LowDataReuse(Rule):
    code = "MEM112"
    slug = "low-data-reuse"
    title = "Each loaded value feeds too few multiply-adds"
    regime = "memory"
    needs_sass = True
    needs_samples = True

    def check(self, facts: Facts) -> Outcome:
        code = facts.code
        assert code is not None
        loops = [lp for lp in fma_loops(code) if lp.words_per_fma > 0.6]
        if not loops:
            return PASSED
        loads = sorted({i for lp in loops for i in lp.loads})
        share = code.blamed_share(loads)
        if share < 0.1:
            return PASSED
        worst = max(loops, key=lambda lp: lp.fmas)
        ratio = max(TILE / worst.words_per_fma, 1 / STEP)
        lsu = code.where(lambda ins, op: op.pipe == "lsu")
        mine = total(code.executed, loads) / max(1.0, total(code.executed, lsu))
        left = 1 - mine * (1 - ratio)
        issue = code.issue_share(loads)
        scale = {
            "l1_wavefronts": left, "l1_writeback": left, "l1_banks": left, "lsu_instructions": left,
            "mio_instructions": left, "instructions": 1 - issue * (1 - ratio),
            "l2_sectors": left, "l2_requests": left, "dram_bytes": 1.0,
        }  # fmt: skip
        where = code.classes[loads[0]].space or "memory"
        step = "shared memory" if where == "global" else "registers (8 x 8 outputs a thread)"
        return self.finding(
            why=(
                f"the loop loads {worst.words_per_fma:.1f} words a multiply-add from {where} memory; a tile in "
                f"{step} needs {max(TILE, worst.words_per_fma / STEP):.2g}. {percent(share)} of all samples wait for the loads."
            ),
            fix=f"tile in {step}: each loaded value then feeds several multiply-adds",
            evidence=[
                derived("loaded words an FMA", worst.words_per_fma, "word", "loop loads over loop FMAs, by executions"),
                derived("FMAs in the loop", worst.fmas, "inst", "warp instructions"),
                derived("samples behind the loads", share, "", "share of warp samples, blamed by def-use"),
            ],
            locations=code.locations(loads),
            estimate=facts.bounds.relieve(share, ratio, scale, unit="l1", latency=ratio),
            confidence=0.75,
        )
