"""The block size wastes lanes or block slots.

## What it does

Finds block sizes that are no multiple of 32, blocks so small that the limit of blocks an SM leaves warp slots empty,
and blocks so small and many that they cannot be started as fast as they end. For each it asks what a larger block would
make of the launch: lanes, threads an SM holds, starts. Finds launches, too, of which half the warps or more have no
data: they make none of the accesses whose address hangs on the block, and hand nothing on to others; and blocks larger
than the item that each deals out to its threads: some have no element of it, or none in the last round. And blocks
whose rows are shorter than a line of memory, where L2 has more requests than bytes.

## Why it costs time

Lanes of the last, partial warp are issued but do nothing. An SM holds at most 16 to 32 blocks: with 32 threads each,
half or more of its warps cannot exist. A device starts less than one block a cycle: however many would fit, an SM whose
blocks end sooner than that stays half empty. A warp of an 8 x 8 x 8 block lies in four rows: each access asks L2 four
times for one sector, where rows of 32 threads ask once for four, and a request takes L2 a cycle, however small it is.

## Evidence

Threads a block, warps a block, the occupancy limit by block slots, lanes active an instruction, blocks started a cycle;
lanes that run the loop that a block deals out, and what is run outside it; how busy L2 is with requests.

## Fix

A multiple of 32 (best 128 or 256) threads a block; two-dimensional blocks as 32 x n. As many items a block as its
threads have use for, or blocks no larger than their items; no block without any.

Before:

    dim3 block(10, 10);                                            // 100 threads: 4 warps, 28 lanes idle

After:

    dim3 block(32, 4);

## In SASS

36 threads are two warps; the second runs each instruction with four lanes.

From (capture julia.block6x6):

    FFMA R7, R4, R4, -R7
    FFMA R9, R9, R8, 0.20000000298023223877
    ...
    FFMA R4, R7, R7, -R4
    ...
    FFMA R8, R9, R8, 0.20000000298023223877
    ...
    FFMA R4, R9, R9, -R4

## When it is wrong

Blocks that cooperate closely on few elements can be better small; the estimate shows what occupancy would bring. A grid
that does not fill the slots is GRD401's. Blocks of two and more whole warps that end as soon as they can be started
have threads that do too little (GRD405). Threads that search or branch each on their own gain nothing from sharing a
warp, and what each keeps in shared memory limits how many fit: then the finding says so and promises nothing (a public
search with blocks of 4 such threads took 4 % longer with 32). That shared memory grows with the threads is assumed.
Longer rows share less of what neighbours in other directions load: no word of them where L1 answers half.

## Source

CUDA C++ Best Practices Guide, Thread and Block Heuristics. A public average over an image's phases, 8 x 8 x 8 threads a
block (L2 takes requests in 72 % of its cycles and moves bytes in 43 %): 2.2x in rows of 32.
"""

from __future__ import annotations

from msgspec import Struct

from kscope.features.facts import Demand, Facts, Packing, between
from kscope.model.contract.analysis import Estimate, Remedy
from kscope.rules._shared.blocks.idle_warps import without_data
from kscope.rules._shared.blocks.item_blocks import too_large
from kscope.rules._shared.blocks.narrow_rows import narrow_rows
from kscope.rules._shared.blocks.started import WHOLE, held, outrun, starting
from kscope.rules.base import PASSED, CounterRule, Outcome, counted, derived, measured, percent

LEAST = 1.05  # gain below which another block size is not worth a word
COMMON = 128  # threads a block: four warps, of which several blocks fit on an SM
SIZES = (64, 128, 256)  # threads a block that are tried, and the present ones rounded up to whole warps
NEARLY = 0.97  # of the best gain, from which the smaller block is taken
IDLE = 0.5  # of the lanes, from which a block that should stay as it is wants a word
WASTED = 0.03  # of the lanes, from which a partial warp counts
NAMED = 0.6  # that warps or threads have no data: experts had named it in 3 of 9 public kernels
ENOUGH = "threads a block that are enough"
APART = 1.5  # times as long that a warp's path becomes, from which its lanes go different ways
ISSUED: tuple[Demand, ...] = (
    "instructions", "fma", "fmaheavy", "alu", "xu", "fp64", "branches", "constants", "lsu_instructions",
    "mio_instructions",
)  # fmt: skip
ROUNDS: tuple[Demand, ...] = ("l1_wavefronts", "l1_banks", "l1_writeback")


class Choice(Struct, frozen=True):
    """A block size and what it brings."""

    packing: Packing
    estimate: Estimate


class BlockSize(CounterRule):
    code = "GRD404"
    slug = "block-size"
    title = "The block size wastes lanes or warp slots"
    regime = "overhead"
    needs = ("launch__block_size",)
    collect = "--section LaunchStats"

    def check(self, facts: Facts) -> Outcome:
        if (empty := self._empty(facts)) is not None:
            return empty
        launch, occ = facts.counters.launch, facts.counters.occupancy
        threads = facts.kernel.launch.threads
        wasted = 1 - threads / (32 * launch.warps_per_block)
        # Slots limit only a grid that fills them, and only where more warps would find something to wait for.
        crowded = occ is not None and "blocks" in occ.limiters and occ.theoretical < 0.6 * occ.maximum
        crowded = crowded and launch.waves >= 1 and not facts.specialized.asynchronous
        started = threads < WHOLE and outrun(facts)  # of larger ones the threads do too little: GRD405
        if wasted < WASTED and not crowded and not started:
            return PASSED
        best = self._best(facts, threads, started=started)
        if best is None or (best.estimate.speedup < LEAST and wasted < IDLE):
            return PASSED
        pays = best.estimate.speedup >= LEAST
        title, why = self._words(facts, threads, wasted, started=started)
        size, fix = best.packing.threads, self._step(facts, best.packing.threads, wasted)
        against = self._against(facts, best.packing)
        return self.finding(
            title=title,
            why=f"{why}{'' if pays else f' Larger blocks would not help: {against}.'}",
            fix=fix if pays else "leave the block as it is; look for what the lanes have in common",
            evidence=[
                measured(facts, "launch__block_size"),
                derived("idle lanes", wasted, "", "of all lanes launched"),
                measured(facts, "launch__occupancy_limit_blocks"),
                derived(ENOUGH, size, "", "those that bring nearly as much as any"),
            ],
            estimate=best.estimate,
            remedies=[] if pays else [Remedy(step=fix, applies=False, why=against)],
            confidence=0.7 if threads > 1 else 0.4,
        )

    def _step(self, facts: Facts, size: int, wasted: float) -> str:
        several = sum(n > 1 for n in facts.kernel.launch.block) > 1
        fix = f"{size} threads a block" + (f", 32 x {size // 32}" if several and size > 32 else "")
        return f"{fix}, several items a block or more warps an item" if wasted < WASTED else fix

    def _empty(self, facts: Facts) -> Outcome | None:
        """Warps or threads without data, where fewer of them pay; rows shorter than a line."""
        for empty in (without_data(facts), too_large(facts), narrow_rows(facts)):
            if empty is not None and empty.estimate.speedup >= LEAST:
                return self.finding(
                    title=empty.title, why=empty.why, fix=empty.fix, evidence=empty.evidence,
                    locations=empty.locations, estimate=empty.estimate, remedies=empty.remedies, confidence=NAMED,
                )  # fmt: skip
        return None

    def _words(self, facts: Facts, threads: int, wasted: float, *, started: bool) -> tuple[str | None, str]:
        """Title and reason of what the block size wastes."""
        launch, occ = facts.counters.launch, facts.counters.occupancy
        small = f"Blocks of {counted(threads, 'thread')}"
        slots = f"fill {occ.theoretical} of {occ.maximum} warp slots" if occ is not None else ""
        if wasted >= WASTED:
            warps = counted(launch.warps_per_block, "warp")
            title = f"{small} leave {percent(wasted)} of the lanes idle" if wasted >= IDLE else None
            why = f"{counted(threads, 'thread')} fill {warps}: {percent(wasted)} of the lanes never work."
            if occ is not None and "blocks" in occ.limiters and launch.waves >= 1:
                why += f" Block slots are taken too: an SM holds {launch.blocks_per_sm} blocks, that is few threads."
        elif started:
            title = f"{small} end as fast as the device can start them"
            why = starting(facts)
        else:
            title = f"{small} {slots}"
            why = (
                f"An SM holds {counted(launch.blocks_per_sm, 'block')} of {counted(launch.warps_per_block, 'warp')}, "
                "limited by block slots alone."
            )
        return title, why

    def _best(self, facts: Facts, threads: int, *, started: bool) -> Choice | None:
        """COMMON threads where they bring nearly as much as any, else the smallest block that does."""
        whole = 32 * facts.counters.launch.warps_per_block
        tried = [facts.counters.packed(size) for size in sorted({whole, *SIZES}) if size > threads]
        choices = [Choice(p, self._estimate(facts, p, started=started)) for p in tried if p is not None]
        most = max((c.estimate.speedup for c in choices), default=1.0)
        good = [c for c in choices if c.estimate.speedup >= NEARLY * most]
        return next((c for c in good if c.packing.threads == COMMON), good[0] if good else None)

    def _estimate(self, facts: Facts, packing: Packing, *, started: bool) -> Estimate:
        """Issue slots of fuller warps, threads that an SM holds, and starts: where these are what blocks wait for, an
        SM holds fewer warps now than would fit."""
        more = held(facts) if started else 1.0
        estimate = self._with(facts, packing, more)
        return between(estimate, low=self._with(facts, packing.apart, more))

    def _with(self, facts: Facts, packing: Packing, more: float) -> Estimate:
        """more: times as many warps as now that an SM could hold with the present blocks."""
        kept = packing.instructions
        scale: dict[Demand, float] = dict.fromkeys(ISSUED, kept)
        # Neighbours' accesses share a round where they lie side by side, and need one each where they do not.
        scale |= dict.fromkeys(ROUNDS, kept**0.5)
        scale["l2_requests"] = kept ** (1 - self._scattered(facts))
        scale["blocks"] = packing.blocks
        factor = packing.factor if facts.counters.launch.limits else 1 / packing.path
        return facts.estimate.overlap(factor * more, scale, stay=False)

    def _scattered(self, facts: Facts) -> float:
        """How far lanes read sectors of their own: 0 where a request is one sector, 1 where it is one a lane."""
        traffic = facts.counters.traffic
        lanes = facts.kernel.metrics.get("smsp__thread_inst_executed_per_inst_executed.ratio") or 32.0
        if lanes <= 1 or not traffic.global_load_requests:
            return 0.5
        each = traffic.global_load_sectors / traffic.global_load_requests
        return min(1.0, max(0.0, (each - 1) / (lanes - 1)))

    def _against(self, facts: Facts, packing: Packing) -> str:
        """Why a larger block brings nothing."""
        lanes = facts.kernel.metrics.get("smsp__thread_inst_executed_per_inst_executed.ratio")
        width = facts.kernel.launch.threads / facts.counters.launch.warps_per_block
        if packing.path >= APART and lanes is not None:
            return f"lanes go different ways ({lanes:.1f} of {width:.0f} are active on average)"
        if packing.in_flight < LEAST:
            return "an SM would hold no more threads than now"
        return "the units have nothing to gain"
