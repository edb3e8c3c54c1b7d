"""Warps wait for loads while bandwidth is to spare.

## What it does

Finds loads whose consumers wait (long scoreboard) although neither device memory nor L2 is near its limit, and shows
how soon the first use follows. A memory that is busy, though not full, has no queue where loads come back about as soon
as on an idle device: then they wait for their round trip.

## Why it costs time

A load takes hundreds of cycles. What hides them is other work in flight: more warps, or more loads of the same warp
before the first use. Bytes in flight = bandwidth x latency (Little's law); below it, bandwidth stays unused.

## Evidence

Long-scoreboard share by producing load (def-use), the distance to the first use, device-memory and L2 load, warps.

## Fix

Issue several loads before the first use (unroll), prefetch the next iteration into registers, or copy
asynchronously (cp.async, TMA) into shared memory several stages ahead.

Before:

    for (i...) s += x[i];                                          // load, wait, add

After:

    #pragma unroll 8                                               // 8 loads in flight a thread
    for (i...) s += x[i];

## In SASS

The address of each load comes from the load before; four lists at once give four loads in flight.

Before (capture list_walk.serial):

    IMAD R5, R5, -0x7a143589, RZ
    ...
    IMAD R4, R4, -0x3d4d51c3, RZ
    ...
    IMAD.WIDE.U32 R4, R4, 0x4, R6
    ...
    LDG.E.CONSTANT R4, desc[UR6][R4.64]
    ...
    IMAD.IADD R3, R4, 0x1, R3

After (capture list_walk.four):

    LDG.E.CONSTANT R7, desc[UR6][R6.64]
    ...
    LDG.E.CONSTANT R9, desc[UR6][R8.64]
    ...
    LDG.E.CONSTANT R10, desc[UR6][R10.64]
    LDG.E.CONSTANT R15, desc[UR6][R12.64]

## When it is wrong

Pointer chasing has nothing to load ahead: only several chains at once help. Rounds that load and store one array at
places that data pick (rows exchanged) may need one another; that is said. Loads outside loops have no later round:
several elements a thread bring theirs, if there are waves enough, and not 28 loads of its own already (0.65x). Where
three or more waits stand in a row outside loops, for loads whose addresses need nothing of one another (a store or a
branch keeps the compiler from moving them up), as many are issued together as registers allow; whether a store feeds a
later load, the reader knows. What all lanes load from one address can lie in shared or constant memory as well. Loads
take registers: a grid of up to four rounds may take one more for them (0.69x): the limit is said; where a loop has
several rounds' in flight already, they are paid with warps (0.71x). Words that all lanes want and by which other loads
go are loaded a lane each and handed out (1.56x; a batch with tests in each thread: 0.64x), unless they tell the list's
end. Chains of uneven lengths wait for the longest (0.89x), warps without an element are none (0.93x).

## Source

Little's law as in Volkov's thesis (UC Berkeley, 2016), chapter 4. Loads between stores that all came first
(streams.between): 1.99x; a lattice's nine speeds: 1.27x; a stencil's layers: 1.38x.
"""

from __future__ import annotations

from kscope.features.facts import Code, Demand, Facts
from kscope.model.contract.analysis import Finding, Remedy
from kscope.rules._shared.blocks.deeper_loads import DEEPER, GUARDS, SIDE, TESTED, UNROLL, chains, deeper
from kscope.rules._shared.blocks.one_round_more import CROWDED, crowded, hidden, in_rounds, working_waves
from kscope.rules._shared.data_reuse import wasteful
from kscope.rules._shared.uniform_loads import for_all_lanes, ways
from kscope.rules._shared.waits_in_row import (
    EARLIER,
    ROUNDS,
    earlier,
    fetching,
    in_a_row,
    loops_first,
    named,
    waits_in_row,
)  # fmt: skip
from kscope.rules.base import FAINT, PASSED, Outcome, ProfiledRule, counted, derived, measured, percent

BLIND = "Loads are waited for; whether bandwidth is to spare was not collected"
UNSEEN = "how busy memory is was not collected"
CHASED = 2.0  # chains a thread can follow side by side where each address comes from the load before
WAITED = 0.4  # of warp time, from which counters alone are worth a word
FATTER = "several elements a thread, all their loads before the first use"
PULLS = {"deeper": ["+registers", "+unrolling"], "longer": ["-threads"], "": []}
WAVES, LANES = 2.0, 32  # waves from which threads can take several elements each and still fill the device once
BUSY = 0.75  # of what a memory attains, up to which no queue needs to be looked for
SOONER = 1.25  # loads in flight where a thread has only its own few, and most are issued together already
ROW, HALF = 3, 2.0  # waits one after the other outside loops, and how many times shorter one for all of them is
SURE, UNSURE = 0.65, 0.4  # experts had named it in 112 of 135 public kernels in which it was among the first three
AHEAD = 4.0  # loads in flight after unrolling by four or double buffering: what one change usually brings


class ExposedMemoryLatency(ProfiledRule):
    code = "LAT302"
    slug = "exposed-memory-latency"
    title = "Loads are waited for while bandwidth is to spare"
    regime = "memory"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        stalls = facts.counters.stalls
        loads = fetching(facts, code)
        share = code.blamed_share(loads, "long_scoreboard")
        if facts.specialized.pipeline is not None:  # roles wait by design: what a busy unit covers is no loss
            share = facts.specialized.pipeline.exposed_of("long_scoreboard", share)
        full = facts.counters.memory_load
        if share < 0.25 or self._in_line(facts):
            return PASSED
        hot = code.hottest(loads, code.blame.by_producer.get("long_scoreboard"))[:4]
        hot = loops_first(facts, code, [i for i in hot if code.blamed[i] > 0])
        running = max(0.02, stalls.of("selected", "not_selected"))
        way, ahead, others = self._way(facts, code, hot)
        row = waits_in_row(facts, code, loads)
        together = row.count >= ROW and row.sooner >= HALF and way in (FATTER, EARLIER)
        if together:
            way, ahead = earlier(row), max(row.sooner, SOONER)
        kind = "longer" if way == FATTER else "deeper" if way in DEEPER else ""
        way, ahead, factor = in_rounds(facts, code, hot, kind, (way, ahead), share)
        more: dict[Demand, float] = {"blocks": 1 / ahead} if kind == "longer" else {}
        more |= {"instructions": GUARDS} if way.startswith(TESTED) else {}
        spare = f"memory runs at {percent(full)} of what it attains" if full is not None else UNSEEN
        known = [derived("load of the fullest memory unit", full, "", "of what kernels attain")] if full else []
        return self.finding(
            title=None if full is not None else BLIND,
            why=(
                f"{percent(share)} of all samples wait for {named(code, hot)}, while {spare} and warps run "
                f"{percent(running)} of the time. The first use of the hottest load follows "
                f"{counted(_distance(code, hot[:1]), 'instruction')} behind it."
                + (in_a_row(row) if together else "")
            ),
            fix=way,
            evidence=[
                derived("samples waiting for loads", share, "", "long_scoreboard, blamed by def-use"),
                *known,
                measured(facts, "smsp__warps_eligible.avg.per_cycle_active"),
            ],
            locations=code.locations(hot),
            estimate=facts.estimate.overlap(factor, more, alone=True),
            remedies=others,
            pulls=PULLS[kind],
            first=["GRD401"] if self._alone(facts, code, hot) else [],
            confidence=SURE if ahead > 1.5 else UNSURE,
        )

    def _alone(self, facts: Facts, code: Code, hot: list[int]) -> bool:
        """Part of one warp runs on the whole device: what is written for its one thread is written anew once a warp
        shares the work. Measured: loads a round ahead 0.65x, a warp in place of the thread 4.9x."""
        loops = [n for i in hot[:1] if (n := code.cfg.loop_of[i]) is not None]
        part = facts.counters.launch.blocks == 1 and facts.kernel.launch.threads < LANES
        return facts.kernel.launch.known and part and all(map(facts.patterns.shareable, loops))

    def _in_line(self, facts: Facts) -> bool:
        """Whether loads wait for a busy memory rather than for their round trip. Device memory and L2 can be busy
        without a line, where loads come back about as soon as on an idle device."""
        full, l1 = facts.counters.memory_load or 0.0, facts.counters.units.get("l1")
        # What a product reads again and again wants a tile (MEM112), which is what makes L1 busy.
        most = BUSY if facts.code is not None and wasteful(facts, facts.code) else facts.constants.at
        if full <= BUSY or (l1 is not None and l1.load > most) or full >= facts.constants.at:
            return full > BUSY
        floor = facts.estimate.latency_floor
        return floor is None or not floor.share or facts.estimate.queue > 0

    def _way(self, facts: Facts, code: Code, hot: list[int]) -> tuple[str, float, list[Remedy]]:
        """What brings more loads into flight, how many times more, and what does not for want of its condition: loads
        of later rounds need addresses that do not hang on this one's, loads of other elements need elements."""
        loop = code.cfg.loop_of[hot[0]] if hot else None
        rounds = facts.patterns.trips(loop) if loop is not None else 1.0
        ring = facts.patterns.chained(loop) if loop is not None else ()
        walks = any(code.classes[i].scoreboard == "long" for i in ring)
        if hot and (facts.addresses.chases(hot[0]) or walks):
            none = [Remedy(step=UNROLL, applies=False, why="each address comes from the load before")]
            outer = any(facts.patterns.trips(n) >= ROUNDS for n in code.cfg.loops_around(hot[0]) if n != loop)
            way, alone = chains(facts, code, hot[0], again=outer)
            return way, SOONER if alone else CHASED, [*none, *(Remedy(step=SIDE, applies=False, why=w) for w in alone)]
        if rounds >= ROUNDS or not hot:
            more = min(AHEAD, rounds) if hot else AHEAD  # a later entry's loads are not to be issued ahead
            return deeper(facts, code, hot), more, ways(facts, code, hot) if for_all_lanes(facts, code, hot) else []
        why = f"the loads run {counted(rounds, 'round')} a thread" if loop is not None else "the loads are in no loop"
        none = [Remedy(step=UNROLL, applies=False, why=why)]
        if words := crowded(facts, code):
            return EARLIER, SOONER, [*none, Remedy(step=FATTER, applies=False, why=CROWDED.format(words))]
        if (waves := working_waves(facts, code, hot)) >= WAVES:
            return FATTER, min(AHEAD, waves), none  # no more than the grid has
        few = f"{waves:.2g} waves of warps that come here: longer threads would leave SMs empty"
        return EARLIER, SOONER, [*none, Remedy(step=FATTER, applies=False, why=few)]

    def by_counters(self, facts: Facts) -> Finding | None:
        share = facts.counters.stalls.of("long_scoreboard")
        full = facts.counters.memory_load if facts.counters.memory_load is not None else 1.0
        if share < WAITED or full > BUSY or facts.specialized.asynchronous:
            return None  # the counter has waits for TMA and products too
        return self.finding(
            why=(
                f"{percent(share)} of all warp time is waiting for L1, L2 or device memory, by the warp-state "
                f"counters, while memory runs at {percent(full)} of what it attains. Which loads, and how soon they "
                "are used, needs samples (--section SourceCounters)."
            ),
            fix="several loads before the first use (unroll), prefetch, more warps; look at the access pattern first",
            evidence=[measured(facts, "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio")],
            estimate=facts.estimate.overlap(hidden(share, AHEAD), alone=True),
            confidence=FAINT,
        )


def _distance(code: Code, loads: list[int]) -> int:
    return min((c - load for load in loads for c in code.defuse.consumers(load) if c > load), default=0)
