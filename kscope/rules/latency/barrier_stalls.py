"""Warps wait at block-wide barriers for others to arrive.

## What it does

Finds `BAR.SYNC` instructions at which warps spend their time, and what runs between them: also code that one warp or
one lane runs on the way to the barrier while the others wait there, and whether more threads could share its rounds.

## Why it costs time

A barrier releases nobody until the slowest warp arrives: the block runs at the pace of its latest warp, phase by phase.

## Evidence

Barrier share of warp time, the barriers by samples, executions of the code between them (warps that took part).

## Fix

Balance the work between barriers; let warps that need only each other sync alone (named barriers, `__syncwarp`); the
loads of a tile's edges beside those of its middle, not behind them; warp shuffles instead of shared-memory trees; a
scan instead of one thread that walks a running sum; double buffering to drop one of two barriers; several smaller
blocks an SM; where warps only put results together that shuffles found, a warp an item.

Before:

    for (s = 128; s; s >>= 1) { if (t < s) sm[t] += sm[t + s]; __syncthreads(); }

After:

    v = warp_reduce(v); if (!lane) sm[warp] = v; __syncthreads(); ... // one barrier

## In SASS

Store, barrier, load, barrier for every exchange; within a warp a shuffle does it alone. Of a scan or a tree over the
block (a round for each halving) all instructions of the rounds go, not the trips alone.

Before (capture bitonic1024.barriers):

    BAR.SYNC.DEFER_BLOCKING 0x0
    LDS R9, [R4+UR4]
    VIMNMX R10, R8, R9, PT
    @P0   VIMNMX R10, R8, R9, !PT
    BAR.SYNC.DEFER_BLOCKING 0x0

After (capture bitonic1024.shuffles):

    @P0   VIMNMX R6, R4, R5, !PT
    ...
    SHFL.BFLY PT, R5, R6, 0x2, 0x1f
    VIMNMX R7, R6, R5, PT
    @P0   VIMNMX R7, R6, R5, !PT
    ...
    SHFL.BFLY PT, R8, R7, 0x1, 0x1f

## When it is wrong

An exchange in which data say where each value goes (the scatter of a sort) needs its two barriers and its trips through
shared memory: they are left out of what is promised. Time at a barrier is often the time of the slowest load before it:
then the load's finding ranks higher, and a tile that nobody hides (LAT307) comes first. Without shared memory warps
that have no work are waited for by nobody: smaller blocks took 2.2 times as long (public). Waits for wgmma results are
counted as barrier by the sampler on sm_90; they are none.

## Source

Kernel Profiling Guide, stall reason barrier. A public radix sort with ranks from ballots and two barriers a bit in
place of six: 2.03x, 2.0x promised.
"""

from __future__ import annotations

from kscope.features.facts import Alone, Code, Facts, total
from kscope.isa.families import family
from kscope.model.contract.analysis import Finding
from kscope.rules._shared.blocks import trees
from kscope.rules._shared.data_reuse import wasteful
from kscope.rules._shared.tile_rings import before_barriers
from kscope.rules.base import FAINT, PASSED, Outcome, ProfiledRule, counted, derived, figure, measured, percent, spelled

WAITED = 0.3  # of warp time at barriers, from which counters alone are worth a word
NEAR = 64  # instructions: a longer branch skips more than a phase
FEW = 0.75  # of the lanes, below which that is worth a word
SHARE_OUT = "let all threads take part: a scan or tree over warps (shuffles), one partial result a thread, then joined"
TREE = "warp shuffles for the last 32 lanes, fewer phases, __syncwarp or named barriers"
WIDER = "several elements a thread in registers: what it exchanges with itself needs neither a trip nor a barrier"
EDGE = "issue what few threads load (a tile's edges) with everybody's loads, before the first of them is waited for"
_SHUFFLES = family("lane_shuffle")
MANY = 6  # barriers a warp passes from which their phases are too short to balance


class BarrierStalls(ProfiledRule):
    code = "LAT304"
    slug = "barrier-stalls"
    title = "Warps wait for each other at barriers"
    regime = "overhead"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        barriers = code.ran(code.where(lambda ins, op: "barrier" in op.kind and ins.opcode == "BAR"))
        share = code.blamed_share(barriers, "barrier")
        if facts.specialized.pipeline is not None:  # roles wait by design: what a busy unit covers is no loss
            share = facts.specialized.pipeline.exposed_of("barrier", share)
        if share < 0.1 or not len(barriers):
            return PASSED
        rounds = max(code.executed[i] for i in barriers) * len(barriers) / max(1, facts.counters.launch.warps)
        lone = facts.profile.serial_section
        serial = lone.warps if lone is not None else 1.0
        lone = lone if serial < 0.5 else None
        phases = self._phases(facts, code, barriers) if rounds >= MANY else []
        # Work that a part of the warps does alone can be shared out; a tree of short phases goes to shuffles, with its
        # trips through shared memory; waiting for even work shrinks only in part.
        # Barriers around an exchange that data decide stay, with their waits.
        going = [i for i in barriers if not phases or i not in facts.patterns.exchanges]
        whole = trees.rounds(facts)  # all instructions of a scan or a tree go, not the trips alone
        trips = code.blamed_share({*phases, *whole}.difference(barriers))
        waits = code.blamed_share(going, "barrier") / code.blamed_share(barriers, "barrier")
        touched = share * waits + trips
        remaining = max(serial, 0.1) if lone is not None else 0.3 if phases else 0.5
        gone = facts.patterns.addresses_of([*phases, *going, *whole, *_guards(code, phases)])
        latency, few, places = 1.0, "", code.locations([])
        if whole:
            latency = facts.estimate.floor_without(gone, remaining)
        if lone is not None:
            few = f"; between them {percent(serial)} of the block's warps do the work"
            if lone.lanes < FEW:
                few += f", with {counted(32 * lone.lanes, 'lane', '.2g')} of each"
            places = code.locations(lone.members, 2)
            if lone.shareable:  # its own rounds shrink too when all threads take part
                touched += total(code.samples, lone.members) / max(1.0, total(code.samples))
                remaining = max(lone.threads, 0.1)
                gone = sorted({*gone, *lone.members})
                latency = facts.estimate.floor_without(lone.members, remaining)
            else:
                touched *= trees.lost(code, serial)
        estimate = facts.estimate.relieve(
            touched, remaining, facts.profile.demands_after(gone, remaining), latency=latency, hides=True
        )
        if apart := trees.of_each_warp(facts):
            estimate = trees.one_warp(facts, code, apart, barriers, share)
        tree = f"; the phases between them, {percent(trips)} more, are trips through shared memory"
        return self.finding(
            why=(
                f"{percent(share)} of all samples wait at {spelled(len(barriers))} barrier{'s' * (len(barriers) > 1)}, "
                f"which each warp passes {_often(rounds)}{few}{tree if phases else ''}."
            ),
            fix=trees.ONE if apart else self._fix(code, facts, lone, rounds, tree=bool(phases)),
            evidence=[
                derived("samples at barriers", share, "", "stall reason barrier at BAR"),
                derived("barriers passed by a warp", rounds, "", "executions over warps of the launch"),
                derived("warps taking part between barriers", serial, "", "by executions of the hottest other code"),
            ],
            locations=places + code.locations(barriers),
            estimate=estimate,
            first=before_barriers(code, alone=lone is not None),
            confidence=_sure(share, known=bool(few), phases=bool(phases)),
        )

    def by_counters(self, facts: Facts) -> Finding | None:
        share = facts.counters.stalls.of("barrier")
        if share < WAITED or facts.specialized.asynchronous:
            return None  # the counter has the waits for products, which are no barriers
        return self.finding(
            why=(
                f"{percent(share)} of all warp time is waiting at barriers, by the warp-state counters. Which "
                "barriers, and who comes late, needs samples (--section SourceCounters)."
            ),
            fix="fewer phases, warp shuffles, balanced work, named barriers, smaller blocks",
            evidence=[measured(facts, "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio")],
            estimate=facts.estimate.relieve(share, 0.5, {}, hides=True),
            confidence=FAINT,
        )

    def _fix(self, code: Code, facts: Facts, lone: Alone | None, rounds: float, *, tree: bool) -> str:
        """What to do. Loads of few warps that come behind a wait for everybody's own make all wait for two round
        trips, one after the other; none of them needs the other."""
        shuffled = code.ran(code.where(lambda ins, op: ins.opcode in _SHUFFLES))
        phases = (WIDER if shuffled else TREE) if tree else trees.even(facts, rounds)
        if lone is None or lone.shareable:
            return SHARE_OUT if lone is not None else phases
        loads = [
            i for i in lone.members
            if code.classes[i].space == "global" and code.classes[i].access == "load" and not facts.addresses.gathers(i)
        ]  # fmt: skip
        waited = facts.profile.blame.by_producer.get("long_scoreboard")
        late = waited is not None and total(waited, loads) > total(code.samples, lone.members) / 2
        return EDGE if late else phases if trees.shared(code) else trees.FEWER

    def _phases(self, facts: Facts, code: Code, barriers: list[int]) -> list[int]:
        """Shared-memory accesses in the loops (or straight-line code) that hold the barriers, but those of exchanges
        that data decide: no shuffle does them."""
        around = {code.cfg.loop_of[b] for b in barriers}
        products = [*facts.patterns.fma_loops, *wasteful(facts, code)]
        if any(code.classes[i].space == "shared" for lp in products for i in lp.loads):  # operands: the work itself
            return []
        stay = facts.patterns.exchanges
        return [
            i for i in code.where(lambda ins, op: op.space == "shared" and op.access in ("load", "store"))
            if code.cfg.loop_of[i] in around and code.executed[i] > 0 and i not in stay
        ]  # fmt: skip


def _sure(share: float, *, known: bool, phases: bool) -> float:
    """By the share of the samples; less where only the waits are seen, more where it is known for whom."""
    return 0.8 if share > 0.4 else 0.7 if known else 0.6 if phases else 0.5


def _guards(code: Code, phases: list[int]) -> list[int]:
    """The branches around phases in which only some of the threads take part, and their reconvergence: lanes of a
    shuffle need neither."""
    inside, found, opened = set(phases), [], {}
    for i, ins in enumerate(code.program.instructions):
        block = code.cfg.blocks[code.cfg.block_of[i]]
        if ins.opcode == "BRA" and ins.guard is not None and i == block.end - 1:
            over = [code.cfg.blocks[s].start for s in block.successors]
            if any(not inside.isdisjoint(range(i + 1, target)) for target in over if target - i < NEAR):
                found.append(i)
        elif ins.opcode == "BSSY":
            opened[ins.operands[0]] = i
        elif ins.opcode == "BSYNC":
            first = opened.pop(ins.operands[0], i)
            if i - first < NEAR and not inside.isdisjoint(range(first, i)):
                found += [first, i]
    return code.ran(found)


def _often(rounds: float) -> str:
    return "once" if rounds == 1 else "twice" if rounds == 2 else f"{figure(rounds)} times"
