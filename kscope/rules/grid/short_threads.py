"""Threads are so short that starting them and combining their results costs more than their work.

## What it does

Finds rows that are given more than they have use for: blocks that join what each thread found in one or two elements of
an item, where a warp would do (also where there is no loop: an element a thread), and warps that walk rows of up to 16
elements. Finds launches of many waves whose threads touch only one or two elements each, and in which warps spend their
time on what is paid once a thread or a block: reading parameters and indices, the reduction across the block, its
barriers. Where one warp of a block works alone behind a barrier, waiting for it is LAT304's matter. Where warps stand
in line for the issue slot, no wait shows what is paid once: there, instructions outside loops are counted that neither
the thread's index nor loaded data reach. And finds blocks of whole warps that end as fast as a device can start them.

## Why it costs time

A thread pays for its start whatever it does: special registers, parameters, addresses, a load that all its neighbours
repeat. A block that reduces one element a thread pays its whole tree for 256 elements. Eight elements a thread pay
the same once, and have eight loads in flight.

## Evidence

Loads and stores of elements a warp (executions over warps), waves, warp samples at instructions that are paid once a
thread, bytes written over bytes read.

## Fix

Let each thread work on 4 to 16 elements: a grid-stride or unrolled loop, partial results in registers, one tree at
the end. Keep at least one full wave of blocks.

Before:

    float m = x[blockIdx.x * 256 + t];  m = block_max(m);          // one element, one tree

After:

    for (int k = 0; k < 8; k++) m = fmaxf(m, x[(blockIdx.x * 8 + k) * 256 + t]);
    m = block_max(m);                                              // eight elements, one tree

## In SASS

One load, then the tree; or many loads, one comparison each, and the tree once.

Before (capture signal_max.one):

    LDG.E.CONSTANT R7, desc[UR6][R6.64]
    ...
    LDG.E.CONSTANT R8, desc[UR6][R8.64]
    ...
    FMNMX R4, RZ, R4, !PT
    SHFL.BFLY PT, R5, R4, 0x10, 0x1f
    FMNMX R5, R4, R5, !PT

After (capture signal_max.many):

    LDG.E.CONSTANT R0, desc[UR6][R4.64]
    ...
    LDG.E.CONSTANT R14, desc[UR6][R4.64+-0x2000]
    LDG.E.CONSTANT R16, desc[UR6][R4.64+-0x1c00]
    LDG.E.CONSTANT R18, desc[UR6][R4.64+-0x1800]
    LDG.E.CONSTANT R10, desc[UR6][R4.64+-0x1400]

## When it is wrong

Where the tree is the work (a sort, a scan), it grows with the elements. Fewer threads than fill the device lose more
than they save. Rows of one launch may differ in length. A tree of many barriers comes first (LAT304), and this only
pays after it, unless the tree takes most of the block's time: then fewer threads have less of it, with or without
shuffles (a public kernel with a distance a thread and a tree of ten rounds: 4.4x by eight distances a thread, 1.3x by
shuffles).

## Source

A public book's sum by a tree in global memory, 3.2x with a grid-stride loop and shuffles (2.4x said);
CUDA C++ Best Practices Guide, Thread and Block Heuristics; M. Harris, "Optimizing Parallel Reduction in CUDA";
measured: fixtures/h200/signal_max.one and signal_max.many.
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts, total
from kscope.model.contract.analysis import Evidence
from kscope.rules._shared.blocks.item_warps import a_warp_an_item, few_lanes
from kscope.rules._shared.blocks.started import longer
from kscope.rules._shared.coarser_threads import alike_once
from kscope.rules._shared.paid_once import elements_of, paid_once, reduces_to
from kscope.rules.base import PASSED, Outcome, ProfiledRule, counted, derived, percent

FEW = 2.5  # element accesses a warp makes, above which a thread has a loop of its own
WAVES = 4  # below which fewer, longer threads would leave the device empty
FIXED = 0.4  # share of warp time paid once a thread, from which it is the matter
BEHIND = 0.25  # the same of blocks that reduce behind a barrier, and of instructions in line for the issue slot
LEAST = 1.05  # gain below which they are not worth a word
MORE = 8  # elements a thread after the change
ALONE = 0.5  # share of a block's warps that works between barriers, below which the others wait for these (LAT304)
TREE = 4  # barriers a warp from which the reduction is a tree in shared memory
ONE_READ = 1 / 3  # of the accesses of a tree in global memory, when registers and shared memory have its steps
REDUCES = 8  # bytes read over bytes written from which the blocks reduce
NAMED = 0.75  # measured: experts named it in 21 of 22 libraries' kernels where it promised a tenth; judged 0.6 before


class ShortThreads(ProfiledRule):
    code = "GRD405"
    slug = "short-threads"
    title = "Threads are too short for what they cost to start"
    regime = "overhead"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        launch = facts.counters.launch
        if not launch.warps:
            return PASSED
        if (rows := a_warp_an_item(self, facts, code, NAMED) or few_lanes(self, facts, code)) is not None:
            return rows
        if launch.waves < WAVES:
            return PASSED
        found = self._work(facts, code)
        return found if found is not PASSED else longer(self, facts, code, MORE) or PASSED

    def _work(self, facts: Facts, code: Code) -> Outcome:
        """What a thread or block does once costs more than its elements."""
        launch = facts.counters.launch
        # A tree in global memory loads its elements itself, two a thread in its first step.
        steps = facts.patterns.block_trees(32 * launch.warps_per_block, "global")
        touching = [i for i in elements_of(facts, code) if i not in steps]
        loads = [i for i in touching if code.classes[i].access == "load"]
        a_warp = 2.0 if steps else total(code.executed, loads) / launch.warps
        tree = code.blamed_share(facts.patterns.block_trees(32 * launch.warps_per_block))
        if not (loads or steps) or (a_warp > FEW and tree < FIXED):
            return PASSED
        return self._once(facts, code, touching, steps, a_warp)

    def _once(
        self, facts: Facts, code: Code, touching: list[int], steps: frozenset[int], a_warp: float
    ) -> Outcome:  # fmt: skip
        """Where warps spend their time on what a thread or block pays once. touching: accesses to elements; steps: a
        tree in global memory; a_warp: elements loaded a thread."""
        launch = facts.counters.launch
        reduces = bool(steps) or reduces_to(code, touching, REDUCES)
        joined = facts.patterns.block_trees(32 * launch.warps_per_block)
        once = sorted({*paid_once(code, set(touching), reduces=reduces), *steps, *(joined if reduces else ())})
        share = code.blamed_share(once)
        lone = facts.profile.serial_section if not steps else None
        if lone is not None and lone.warps < ALONE and not joined.issuperset(lone.members):
            # The barrier waits for what few threads do, not for its tree.
            share -= code.blamed_share(code.where(lambda ins, op: ins.opcode == "BAR"), "barrier")
        barriers = total(code.executed, code.where(lambda ins, op: ins.opcode == "BAR"))
        # Behind its barriers a block loads nothing more, yet keeps its place: a smaller share is a loss already.
        if share < (FIXED if not reduces or barriers < launch.warps else BEHIND):
            alone = paid_once(code, set(touching), reduces=False)
            return self._issued(facts, code, sorted({*alone, *alike_once(facts, code)}), a_warp)
        # A tree of many barriers costs by itself: shuffles (LAT304) come first, unless it is most of what there is
        # and each thread has an element: of more of them the tree is less.
        most = a_warp >= 1 and code.blamed_share(joined) >= FIXED
        trees = barriers > TREE * launch.warps and not steps and not most
        # The elements' own waits overlap as more of them are in flight; what is paid once shrinks with the threads.
        scale = facts.profile.demands_after(once, 1 / MORE) | {"blocks": 1 / MORE}
        if steps:  # of n elements 2 n are loaded and n stored where one load of each is enough
            left = 1 - facts.profile.sectors_share(steps) * (1 - ONE_READ)
            scale |= {"l2_sectors": left, "l2_requests": left, "l2_writes": left}
        estimate = facts.estimate.overlap(MORE * share + 2 * (1 - share), scale, stay=False)
        if estimate.speedup < LEAST:
            return PASSED
        return self.finding(
            title=_launched(facts, a_warp),
            why=(
                f"{percent(share)} of all samples are at work that each thread or block does once, whatever its "
                f"elements: parameters and indices{', the reduction and its barriers' if reduces else ''}. The launch "
                f"takes {counted(launch.waves, 'wave')} to repeat it."
            ),
            fix=f"{MORE} elements a thread in a grid-stride or unrolled loop; one reduction a block behind it",
            evidence=[
                *_of_the_launch(facts, a_warp),
                derived("samples paid once a thread", share, "", "blamed by def-use"),
            ],
            locations=code.locations(once),
            estimate=estimate, pulls=["-threads"], first=["LAT304"] if trees else [],
            confidence=0.25 if trees else NAMED,
        )

    def _issued(self, facts: Facts, code: Code, once: list[int], a_warp: float) -> Outcome:
        """Where all warps stand in line for the issue slot, samples do not tell what is paid once: instructions do."""
        fullest, launch = facts.counters.busiest, facts.counters.launch
        issued = code.issue_share(once)
        share = issued * facts.estimate.in_line("issue")
        if fullest is None or fullest.name != "issue" or share < BEHIND:
            return PASSED
        more = min(MORE, int(launch.waves))  # fewer, longer threads that still give every SM a wave
        scale = facts.profile.demands_after(once, 1 / more) | {"blocks": 1 / more}
        estimate = facts.estimate.relieve(share, 1 / more, scale)
        if estimate.speedup < LEAST:
            return PASSED
        return self.finding(
            title=_launched(facts, a_warp),
            why=(
                f"issue slots are what the kernel waits for, and {percent(issued)} of all instructions read a thread's "
                "numbers and parameters, or compute what is the same for all threads of a block: each thread does it "
                f"again for its own element. The launch takes {counted(launch.waves, 'wave')} to repeat it."
            ),
            fix=f"{more} elements a thread (rows, a grid-stride loop), with what all of them share in front of it",
            evidence=[
                *_of_the_launch(facts, a_warp),
                derived("instructions paid once a thread", issued, "", "without the thread's index or loaded data"),
            ],
            locations=code.locations(once),
            estimate=estimate, pulls=["-threads"], confidence=NAMED,
        )


def _launched(facts: Facts, a_warp: float) -> str:
    return f"{counted(facts.counters.launch.blocks, 'block')} of threads with {counted(a_warp, 'load', '.2g')} each"


def _of_the_launch(facts: Facts, a_warp: float) -> list[Evidence]:
    return [
        derived("element loads a warp", a_warp, "inst", "global loads whose address depends on the thread"),
        derived("waves", facts.counters.launch.waves, "", "blocks over what the device holds"),
    ]
