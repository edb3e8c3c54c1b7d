"""Atomics on few addresses are served one after the other.

## What it does

Finds atomic and reduction instructions (global and shared) that warps wait for, or whose queue holds blocks back at
their end.

## Why it costs time

Atomics on one address are serialised where they are performed: in one L2 slice for global memory, in the SM for
shared memory. Thousands of lanes that add to four counters take turns, while the rest of the device idles.

## Evidence

Samples blamed on `ATOM`/`ATOMG`/`RED`/`ATOMS`, `drain` waits at their end (stores and reductions not yet accepted).
Reductions without a result are not waited for: the loads behind them are, in the queue of the L2 slice that holds the
few addresses. Then the busiest slice (`lts__t_sectors.max`) works all the time while the average one idles, and where
no unit is busy and latency explains little, all waits of the kernel are its queue. So are waits for a place in the
load/store queue (`lg_throttle`) in front of units that have nothing to do: what stands in it holds it up.

## Fix

Aggregate before the atomic: in registers over several elements, across the warp (`__reduce_add_sync`, shuffles, or
match-and-elect), in shared memory per block; then one atomic a block and bin.

Before:

    atomicAdd(&bins[b], v);                                       // every element

After:

    loc[b] += v; ...                                              // registers, then
    s = __reduce_add_sync(~0u, loc[b]); if (!lane) atomicAdd(&bins[b], s);

## In SASS

Each lane's own reduction to memory; or one `REDUX` a warp, and one lane's `REDG` for all 32.

Before (capture atomics.slow):

    LDG.E.CONSTANT R2, desc[UR4][R2.64]
    ...
    REDG.E.ADD.STRONG.GPU desc[UR4][R4.64], R7

After (capture atomics.fast):

    REDUX.SUM.S32 UR10, R8
    ...
    @P1   REDG.E.ADD.STRONG.GPU desc[UR8][R2.64], R5
    ...
    REDUX.SUM.S32 UR4, R4
    ...
    @P1   REDG.E.ADD.STRONG.GPU desc[UR8][R2.64+0x4], R5
    ...
    REDUX.SUM.S32 UR4, R0

## When it is wrong

Nobody waits for a reduction whose result is not used: few samples are on it, and the last warp may end long before
the memory has added up. Where one slice of L2 is the busy one, the time behind the last warp counts as the atomics'.
Atomics spread over many addresses run at L2 throughput: then samples on them are few and the rule stays silent. Where
each lane has a sector of its own that comes from device memory (a hash table), nothing is added up by turns: the rule
speaks only of two atomics on neighbouring words (1.19x measured on such a table, for one compare-and-swap of 64 bits
instead of two atomics of 32). Where the slices of L2 are loaded so evenly that the atomics must go to more sectors
than an SM's shared memory holds, and the lanes of a warp hardly meet, a block has nothing to add up: two ways of
doing it all the same, in tiles of a map and with images grouped first, took 1.25 and 1.4 times as long. Places that
several atomics claim, write and poll each want fewer of them (1.75x; added up first, as it was told, 0.94x). In
shared memory lanes that meet rarely gain nothing from looking for each other first: the search (`MATCH`) and the
handing on of results (`SHFL`) pass the same queue as the atomics, which the estimate counts.

## Source

A public dot product of one atomic an element, 46x once blocks add up first (33x said); Kernel Profiling Guide; NVIDIA
technical blog, "CUDA Pro Tip: Optimized Filtering with Warp-Aggregated Atomics".
"""

from __future__ import annotations

from kscope.features.facts import SECTOR, SECTORS, WAVEFRONTS, Code, Facts, total
from kscope.rules._shared.atomics import ADD, LARGEST, ONCE, apart, queueing, raced, sectors_share, spaces
from kscope.rules._shared.blocks.claims import claimed
from kscope.rules._shared.blocks.spread_atomics import folding, scattered
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

AGGREGATED = 1 / 32  # of the atomics remain after aggregation across the warp
RETRIES = frozenset({"CAST", "CAS", "SPIN"})
LANES = 32
MEET = 1.5  # sectors a request up to which its lanes meet in one place


class AtomicContention(ProfiledRule):
    code = "MEM109"
    slug = "atomic-contention"
    title = "Atomics wait for each other"
    regime = "memory"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        atomics = code.ran(code.where(lambda ins, op: op.access in ("atomic", "reduction") and op.space != "tmem"))
        if not len(atomics):
            return PASSED
        # A compare-and-swap loop (ATOMS.CAST.SPIN, CAS) retries until it wins: all of it is the atomic.
        retried = {code.cfg.loop_of[i] for i in atomics if RETRIES & set(code[i].mods)} - {None}
        loops = [code.cfg.loops[n] for n in retried if n is not None]
        spinning = [i for loop in loops if loop.innermost for i in loop.instructions]
        members = sorted({*atomics, *spinning})
        share = min(1.0, code.blamed_share(members))
        hot = facts.counters.hot_slice
        if share < 0.1 and hot is None:
            return PASSED
        if hot is None and (places := self._places(facts, code, atomics, share)) is not None:
            return places
        slow, behind = queueing(facts, share, hot is not None), facts.counters.launch.behind
        executed = total(code.executed, atomics)
        kept = self._kept(facts, code, atomics)
        sectors = 1 - sectors_share(facts, atomics) * (1 - kept)
        scale = facts.profile.demands_after(members, kept)
        scale |= dict.fromkeys(("l2_sectors", "l2_requests", "l2_writes"), sectors)
        scale |= {"atomics": kept, "l2_slice": 1 - (1 - kept) * facts.counters.beyond_mean}
        return self.finding(
            why=(
                f"{executed:,.0f} atomic instructions; {percent(share)} of all warp time waits for them, retries them "
                "or waits for their queue to drain."
                + (
                    f" The busiest L2 slice has {hot:.1f} times the work of the average one: few addresses take "
                    f"most of them, and {percent(slow)} of warp time is behind its queue"
                    f"{f'; {percent(behind)} of the time comes after the last warp' if behind else ''}."
                    if hot is not None
                    else f" No unit is busy: {percent(slow)} of warp time stands in the queue that they hold up."
                    if slow > share
                    else ""
                )
            ),
            fix=ONCE if raced(facts) else ADD,
            evidence=[
                derived("atomic instructions", executed, "inst", "ATOM, ATOMG, RED, ATOMS"),
                derived("share of warp time at atomics", share, "", "blamed samples, retry loops and drain included"),
                measured(facts, "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed"),
                *([measured(facts, "lts__t_sectors.max", "of one L2 slice")] if hot is not None else []),
            ],
            locations=code.locations(atomics),
            estimate=facts.estimate.relieve(
                slow,
                kept,
                scale,
                latency=facts.estimate.floor_without(members, kept),
                brings=self._inside(facts, code, atomics), behind=behind,
            ),
            first=_before(facts, hot),
            confidence=0.85 if slow > LARGEST or hot is not None else 0.6,
        )

    def _places(self, facts: Facts, code: Code, atomics: list[int], share: float) -> Outcome | None:
        if apart(facts, code, atomics):
            return folding(self, facts, code, atomics, share)
        claims = claimed(self, facts, code, atomics, share)
        return claims if claims is not None else scattered(self, facts, code, atomics, share)

    def _kept(self, facts: Facts, code: Code, atomics: list[int]) -> float:
        """What is left of the atomics. Where a warp's lanes all meet in one sector, a block's threads likely add to few
        addresses: one atomic a block. Elsewhere aggregation ends at the warp."""
        sectors = code.column(SECTORS)
        outside, inside = spaces(code, atomics)
        if inside and not any(RETRIES & set(code[i].mods) for i in inside):
            far, near = total(code.executed, outside), total(code.executed, inside)
            return (far * AGGREGATED + near * self._elected(code, inside)) / (far + near)
        executed = total(code.executed, outside)
        if sectors is None or inside or not executed:
            return AGGREGATED
        one = total(sectors, outside) < MEET * executed and total(code.threads, outside) > LANES / 2 * executed
        return AGGREGATED / facts.counters.launch.warps_per_block if one else AGGREGATED

    def _inside(self, facts: Facts, code: Code, atomics: list[int]) -> tuple[float, str]:
        """What adding up inside the SM asks of L1 instead, as a share of the present time: a round of shared memory an
        instruction, or one a lane where lanes certainly meet, for the sectors could not hold a word for each."""
        launch, l1 = facts.counters.launch, facts.counters.units.get("l1")
        if l1 is None or not launch.cycles:
            return 0.0, ""
        outside = spaces(code, atomics)[0]
        sectors = code.column(SECTORS) or code.threads
        met = [i for i in outside if sectors[i] * SECTOR < code.threads[i] * code.classes[i].bytes]
        rounds = total(code.executed, outside) + total(code.threads, met)
        return rounds / (launch.cycles * launch.sms) / l1.attainable, f"{l1.title}, where lanes add up first"

    def _elected(self, code: Code, atomics: list[int]) -> float:
        """What is left of atomics on shared memory: each takes a round for every lane that meets others at the busiest
        address. Finding the lanes that meet (MATCH), one atomic by each group, and handing on a result that is used
        (SHFL) pass the same queue."""
        rounds = code.column(WAVEFRONTS)
        executed = total(code.executed, atomics)
        if rounds is None or not total(rounds, atomics):
            return AGGREGATED
        used = total(code.executed, [i for i in atomics if code.defuse.consumers(i)]) / executed
        return min(1.0, (2 + used) * executed / total(rounds, atomics))


def _before(facts: Facts, hot: float | None) -> list[str]:
    """Each SM sends atomics by itself: where most are empty, no slice is behind and nobody races, blocks go first."""
    launch = facts.counters.launch
    return ["GRD401"] if hot is None and launch.blocks <= launch.sms / 2 and not raced(facts) else []
