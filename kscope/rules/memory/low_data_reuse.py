"""The multiply-adds of the hot loop load both operands each time.

## What it does

Finds loops whose FMAs take both factors from loads of the same loop, and counts loaded words an FMA. So it does where
something else joins the pairs before they are added up or chosen from: differences (`|a - b|`, `(a - b)^2`), sums
(`min(a + b)`), bits that differ. A tile of registers would use each loaded word several times.

Where no such loop is hot, finds windows: loads of shared or global memory whose addresses, computed for all lanes, show
that the next thread (a lane, a row, a block on) loads all but one of the same values again, as moving sums, filters and
stencils do; and says how much less several outputs a thread load.

Where there is neither, finds float arithmetic that every thread does anew though it is the same for all: it follows
from parameters, loop counters and loads at places that these give (the slope of an edge against which each thread tests
a point of its own). Several results a thread compute it once for all of them.

## Why it costs time

An FMA pipe does one warp instruction a cycle a sub-partition; shared memory delivers a quarter of that in words. With
two loads an FMA the load path is the limit at a few percent of the arithmetic peak. A window of W values a thread is W
loads an output; R outputs side by side load W + R - 1 for all of them.

## Evidence

Loads and FMAs of the loop (executions), def-use from load to FMA, load on L1 and the load/store queue, samples blamed
on those loads. Of windows: places along an axis by lane addresses, samples in line for L1 or the load/store unit, which
must be busy. Of arithmetic that is alike: def-use from whatever tells threads apart, active lanes, samples.

## Fix

From global memory: stage tiles in shared memory. From shared memory: compute a tile of outputs a thread (1 x 8, then
8 x 8), so that 8 + 8 loads feed 64 FMAs; load them as float4. Windows: 4 or 8 outputs a thread, what they need in
registers, each value used by all of them: 25 loads for a sum of 25, or 32 (8 of 16 bytes) for 8 such sums. Outputs side
by side want 16 bytes a load and a store; those one below the other keep lanes on neighbouring addresses.

Before:

    for (k) s += as[ty][k] * bs[k][tx];                            // 2 loads, 1 FMA

After:

    for (k) { ra[i] = as[k][ty*8+i]; rb[j] = bs[k][tx*8+j];        // 16 loads,
              acc[i][j] += ra[i] * rb[j]; }                        // 64 FMAs

## In SASS

One result a thread: a load or more for each `FFMA`. A tile of results: 16 bytes a load, 64 `FFMA` on four of them.

Before (capture gemm_f32.shared):

    LDS R28, [R6]
    LDS.128 R12, [R17]
    LDS R25, [R6+0x80]
    LDS R27, [R6+0x100]
    LDS R22, [R6+0x180]

After (capture gemm_f32.vector):

    LDS.128 R76, [R10]
    LDS.128 R80, [R11]
    LDS.128 R84, [R10+0x10]
    LDS.128 R88, [R11+0x10]
    FFMA R92, R76, R80, R28

## When it is wrong

Pairs that meet once (two streams, neighbours of a stencil) are left aside: one load must be the same for all lanes, or
come from another memory, or each side ignore a dimension of the grid. A dot product or matrix-vector product uses each
matrix element once: there is no reuse to win, device memory is the roof, and the estimate is capped by it. A tile of
64 results needs as many registers: where a thread has no room for them, half the side is promised. Work that is the
same for all threads is cheap where issue slots are not full and nobody waits for it; fewer, longer threads need waves
to be taken from (four at least; for windows as many as outputs, the last one nearly full). A window clamped at borders
(by minima, or by tests and selects) is taken for one of the inside; indices that run-time divisions make (a linear
index split into channel and pixel) are not followed. Where nobody waits for the loads, but their clamped indices fill
the integer pipe, fewer loads are fewer indices: the same fix, told by that pipe. Minima, maxima and sums of long
windows can be had for less than any number of outputs a thread brings: combined two by two, then four by four, in
shared memory.

## Source

A public product in tiles of 4 x 4, half a word a multiply-add: 1.24x with 8 x 8 and two buffers (1.76x said); it counts
where the load path is the fullest unit. Volkov and Demmel, SC 2008; S. Boehm, "How to Optimize a CUDA Matmul Kernel".
Our own pairs without products: manhattan.one 2.4x, centroids.each 1.6x, detours of sums and minima 1.3x with four
results a thread; a product whose steps stand beside a loop that copies (steps.one) 3.0x; points beside lines whose
slopes every thread computes (lines.each) 2.8x with eight points a thread; windows of 25 in shared memory (window.one)
1.8x with eight sums a thread.
"""

from __future__ import annotations

from kscope.features.facts import FMA_OPCODES, Code, Facts, FmaLoop, up_to
from kscope.model.contract.analysis import Estimate, Remedy
from kscope.rules._shared.data_reuse import stores_gone, wasteful
from kscope.rules._shared.windows import shared_windows
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, percent

SIDE = 8  # results of a register tile in either direction: 2 / 8 loaded words an FMA
REGISTERS = 255  # a thread can have
SHARED = 0.625  # of the load path's work stays when the operands come from a tile in shared memory: each value of one
# operand is read again by every product, the other one's lie side by side along k and come four at a time
LEAST = 0.1  # of all samples
RESULTS, ORDINAL = 4, "quarter"  # results a thread that share what is alike, where there are as many waves
SHARING = "several results a thread, which share what is the same for all; or a small kernel that computes it once"
STENCIL = 0.25  # of the loads remain when a thread keeps a column of a stencil's inputs


class LowDataReuse(ProfiledRule):
    code = "MEM112"
    slug = "low-data-reuse"
    title = "Each loaded value feeds too little arithmetic"
    regime = "memory"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        loops = wasteful(facts, code)
        loads = sorted({i for lp in loops for i in lp.loads})
        share = code.blamed_share(loads)
        if share < LEAST:
            shared = shared_windows(self, facts, code)
            return self._anew(facts, code) if shared is PASSED else shared
        worst = max(loops, key=lambda lp: lp.fmas)
        side = self._side(facts, code, worst)
        ratio = max(2 / side / worst.words_per_fma, 1 / side) if worst.both else STENCIL
        spaces = {code.classes[i].space or "any" for i in worst.loads}
        space = " and ".join(sorted(spaces))
        # The next step is a tile in shared memory where nothing lies there yet.
        staged = "global" in spaces and worst.both
        step = "shared memory, then registers" if staged and len(spaces) == 1 else "registers"
        joined = "multiply-add" if worst.opcode in FMA_OPCODES else "pair of values joined"
        sums = self._sums(facts, code, loads)
        estimate = self._estimate(facts, loads, share, ratio, sums)
        first = " The sums that are stored in each round then stay in registers as well." if sums else ""
        if staged:
            # Of the operands, SHARED are still read there, or where one side stays in registers; tiles of results are
            # the step behind it, and what the estimate's upper end allows.
            once = self._estimate(facts, loads, share, SHARED, sums)
            alone = "A tile in shared memory alone" if len(spaces) == 1 else "One side in registers alone"
            first += f" {alone} brings about {once.speedup:.1f}x, a tile of results behind it the rest."
            estimate = up_to(once, estimate)
        tile = f"{side} x {side} outputs a thread" if worst.both else "several outputs a thread"
        full = f"{facts.kernel.launch.registers} registers a thread leave no room for 64 results"
        less = [Remedy(step=f"{SIDE} x {SIDE} outputs a thread", applies=False, why=full)] if side < SIDE else []
        return self.finding(
            why=(
                f"the hot code loads {worst.words_per_fma:.1f} words a {joined} from {space} memory; {tile} in "
                f"{step} need {worst.words_per_fma * ratio:.2g}. {percent(share)} of all samples wait for the "
                f"loads.{first}"
            ),
            fix=f"tile in {step} ({tile}): each loaded value then feeds several of them",
            evidence=[
                derived("loaded words an FMA", worst.words_per_fma, "word", f"loads over {worst.opcode}s, executed"),
                derived("FMAs on loaded factors", worst.fmas, "inst", f"warp instructions, {worst.opcode}"),
                derived("samples behind the loads", share, "", "share of warp samples, blamed by def-use"),
            ],
            locations=code.locations(loads),
            estimate=estimate,
            remedies=less,
            pulls=["+shared memory", "+tile"] if staged else ["+registers", "+tile"],
            confidence=0.75 if worst.both else 0.6,
        )

    def _anew(self, facts: Facts, code: Code) -> Outcome:
        """What each thread computes anew though it is the same for all: results that share it in one thread."""
        floats, members = facts.profile.alike
        waves, issue = facts.counters.launch.waves, facts.counters.units.get("issue")
        if code.issue_share(floats) < LEAST or (waves is not None and waves < RESULTS):
            return PASSED
        slots = code.issue_share(members) * facts.estimate.saturation(issue.load if issue else 0.0)
        share = max(slots, code.blamed_share(members))
        if share < LEAST:
            return PASSED
        left = 1 / RESULTS
        return self.finding(
            title="Each thread computes anew what is the same for all",
            why=(
                f"{percent(code.issue_share(members))} of all instructions depend on nothing that tells threads apart: "
                f"parameters, loop counters, loads at places that follow from these. {percent(share)} of the time is "
                f"theirs; {RESULTS} results a thread need a {ORDINAL} of them."
            ),
            fix=SHARING,
            evidence=[
                derived("arithmetic that is alike in all threads", code.issue_share(floats), "", "of all instructions"),
                derived("with its loads and integer work", code.issue_share(members), "", "by def-use"),
            ],
            locations=code.locations(floats),
            estimate=facts.estimate.relieve(share, left, facts.profile.demands_after(members, left)),
            pulls=["+registers", "-threads"],
            confidence=0.6,
            regime="compute",
        )

    def _side(self, facts: Facts, code: Code, loop: FmaLoop) -> int:
        """Of the tile of results that a thread has registers for: 8, or 4 where 64 results more would spill. A kernel
        whose tile comes from global memory is rewritten, registers and all."""
        if any(code.classes[i].space == "global" for i in loop.loads):
            return SIDE
        words = 2 if loop.opcode == "DFMA" else 1
        return SIDE if facts.kernel.launch.registers + SIDE * SIDE * words <= REGISTERS else SIDE // 2

    def _sums(self, facts: Facts, code: Code, loads: list[int]) -> list[int]:
        """Stores of sums that the loops of these loads keep in memory: a tile's sums lie in registers."""
        loops = {code.cfg.loop_of[i] for i in loads}
        kept = [k for k in facts.patterns.kept_in_memory if k.loop in loops and not k.written_out]
        return [i for k in kept for i in k.stores]

    def _estimate(self, facts: Facts, loads: list[int], share: float, ratio: float, sums: list[int]) -> Estimate:
        """Gain if `ratio` of these loads is left, and none of the stores of their sums."""
        sectors = 1 - facts.profile.sectors_share(loads) * (1 - ratio)
        scale = facts.profile.demands_after(facts.patterns.addresses_of(loads), ratio)
        scale |= {"l2_sectors": sectors, "l2_requests": sectors}
        scale = {**scale, **{d: scale.get(d, 1.0) * kept for d, kept in stores_gone(facts, sums).items()}}
        return facts.estimate.relieve(share, ratio, scale, latency=facts.estimate.floor_without(loads, ratio))
