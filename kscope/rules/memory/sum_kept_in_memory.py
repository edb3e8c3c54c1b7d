"""A loop keeps its sum in memory: every round stores it to the same place.

## What it does

Finds innermost loops that store a value made in the loop to an address that does not change in it, and the loads of
that address: `s[t] += ...` in shared memory, `y[i] += ...` in global memory. Loops that hand values to other threads
(a barrier, a fence, an atomic, volatile) are left aside. And sums that are written out (`*out += a * x[i]; *out += b *
x[j]; ...`, the corners of an interpolation) and stored to one global address behind each term.

## Why it costs time

The compiler may not keep such a sum in a register when another pointer, or another part of the same shared array, might
be the same place. Then each round stores, and no load of the next one may be issued before the store: the latency of
shared memory (about 23 cycles) or of L1 stands in every round. L1 is written through, so L2 takes each store to global
memory, and a product that adds up in its result (`c[i] += a * b`) can fill it with nothing else.

## Evidence

Stores to a steady address in the loop (def-use: what makes the address lies outside), their executions, samples at them
and at the loads that must wait their turn.

## Fix

Add into a local variable and store it once behind the loop; `__restrict__` where two pointers never meet; separate
`__shared__` arrays instead of parts of one.

Before:

    for (int k = 0; k < 128; k++) sum[t] += tile[k] * v;

After:

    for (int k = 0; k < 128; k++) s += tile[k] * v;

## In SASS

A store in every step; or none.

Before (capture sums.in_shared):

    FFMA R7, R3, R7, R8
    STS [R4+0x200], R7
    LDS R8, [R6+UR4+-0x1c]
    FFMA R8, R3, R8, R7
    STS [R4+0x200], R8

After (capture sums.in_register):

    LDS.128 R4, [UR4]
    ...
    FFMA R4, R21, R4, R12
    LDS.128 R12, [UR4+0x30]
    FFMA R5, R21, R5, R4
    FFMA R6, R21, R6, R5

## When it is wrong

Threads of one warp may read the place in the same loop without a barrier (warp-synchronous code): then it is a message,
not a sum.

## Source

CUDA C++ Programming Guide, __restrict__; our own pair, sums.in_shared: 3.1x; a public sampler that adds eight corners
to its result in memory: 2.0x.
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts, no_higher, total
from kscope.rules._shared.data_reuse import stores_gone
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, percent

LEAST = 0.1  # of all samples
BATCHED = 0.13  # of the waits for the other loads that stay however many rounds' loads go out together: fitted on
# sums.in_shared (0.10) and seven public loops that add up in global memory (0.09 to 0.22 with 16 and more rounds)
HALVED = 0.5  # of those, for the upper end (judged): a batch is a round trip, whatever its size
LOOPED = (
    "A loop keeps its sum", "in a loop write what it computes to an address that stays the same", "the loop", "the loop"
)
WRITTEN_OUT = (
    "A sum is kept", "write a sum that the next term changes at once, to the same address", "its terms", "the last term"
)
PLACES = {"shared": "shared memory", "global": "global memory", "generic": "memory by generic addresses"}


class SumKeptInMemory(ProfiledRule):
    code = "MEM114"
    slug = "sum-kept-in-memory"
    title = "A loop stores its sum to the same place in every round"
    regime = "memory"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        kept = [k for k in facts.patterns.kept_in_memory if k.stores]
        if not kept:
            return PASSED
        members = sorted({i for k in kept for i in (*k.stores, *k.loads)})
        ordered = sorted({i for k in kept for i in k.others})
        mine, waiting = code.blamed_share(members), code.blamed_share(ordered)
        if mine + waiting < LEAST:
            return PASSED
        # Loads of the rounds that the compiler writes out behind each other go out together once no store is between.
        waits = min(1.0, BATCHED + 1 / max(k.rounds for k in kept))
        touched, remaining = mine + waiting, waits * waiting / (mine + waiting)
        gone = facts.patterns.addresses_of(members)
        left = {**facts.profile.demands_after(gone, 0.0), **stores_gone(facts, members)}
        # On an idle device the loads wait for each other by the same order.
        path = min(facts.estimate.floor_without(members), facts.estimate.floor_without([*members, *ordered], waits))
        first = kept[0]
        estimate = facts.estimate.relieve(touched, remaining, left, latency=path)
        most = 1 / (1 - touched * (1 - HALVED * remaining))
        estimate = no_higher(estimate, most, facts.constants.noise)
        sums, of, behind, once = LOOPED if not first.written_out else WRITTEN_OUT
        return self.finding(
            title=f"{sums} in {PLACES[first.space]}",
            why=(
                f"{total(code.executed, first.stores):,.0f} stores {of}; {percent(mine)} of all samples are theirs and "
                f"{percent(waiting)} wait for other loads of {behind}, none of which may start before the store."
            ),
            fix=f"add into a local variable and store it once behind {once}; __restrict__ where pointers never meet",
            evidence=[
                derived("stores to a steady address", total(code.executed, first.stores), "inst", "by def-use"),
                derived("samples at them and their loads", mine, "", "blamed"),
                derived("samples waiting for other loads of these loops", waiting, "", "blamed"),
            ],
            locations=code.locations([*first.stores, *first.loads]),
            estimate=estimate,
            confidence=0.7,
        )
