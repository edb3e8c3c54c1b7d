"""Global memory is read or written a few bytes a lane where 16 would do.

## What it does

Finds global loads and stores of 1, 2, 4 or 8 bytes a lane on contiguous data, and groups at adjacent offsets of one
register that one wider instruction could replace (def-use: no other base, barrier or store between them but of what
they bring), aligned whatever the launch values are, lanes side by side or at one address, be it only all pieces
together. Three pieces of a structure (a colour) count as well: a fourth makes one access of them. Lanes further apart
are MEM101's, but records that a thread reads, or elements that it copies, word by word are named here too.

Where a block walks rows that start anywhere (odd lengths), its lanes lie side by side though no base is aligned: a head
of single elements makes wide accesses possible.

## Why it costs time

Each instruction costs an issue slot, a slot of the load/store queue and one round of latency, whatever it carries. A
lane that moves 2 bytes a round needs 8 times the rounds of one that moves 16: where nothing is saturated, that is
most of the time. Where device memory is full already, width changes nothing, and the estimate says so. Nor does it
where loads leave together: they share one round trip, and only their queue at the load/store unit is shorter; or where
the threads of a block meet at a barrier, for then the tile sets how often each waits.

## Evidence

`memory_access_size_type` and the opcode (`LDG.E.U16`, `LDG.E`, `.64`, `.128`), executions, sectors a request, the
samples blamed on these accesses, and the latency floor of the launch.

## Fix

Process 16 bytes a thread: `float4`, `half8` as `uint4`, `__restrict__` and an aligned base.

Before:

    out[i] = __hmul(in[i], s);                                   // LDG.E.U16

After:

    uint4 v = in4[i]; half2* h = (half2*)&v;                     // LDG.E.128
    for (int k = 0; k < 4; k++) h[k] = __hmul2(h[k], s2);
    out4[i] = v;

sm_100 and later have 32-byte loads (`LDG.E.ENL2.256`).

## In SASS

Sixteen bits a lane, or 128: the same two instructions carry eight times the data.

Before (capture narrow_loads.slow):

    LDG.E.U16.CONSTANT R2, desc[UR4][R2.64]
    ...
    HMUL2 R0, R2.H0_H0, UR6.H0_H0
    STG.E.U16 desc[UR4][R4.64], R0

After (capture narrow_loads.fast):

    LDG.E.128.CONSTANT R8, desc[UR4][R2.64]
    ...
    HMUL2 R10, R10, R3
    ...
    HMUL2 R8, R8, R3
    STG.E.128 desc[UR4][R4.64], R8

## When it is wrong

Rows that start anywhere must be longer than what head and tail take; arrays that are read together must be off by the
same number of elements. Elsewhere the base must be 16-byte aligned and the length a multiple (or a scalar tail
handled). More bytes a thread means more registers and fewer threads: small problems may empty SMs. One access a thread
gains by fewer waves and by what it does once, unless its loads stand apart or take 16 bytes each (0.55x, 0.70x).

## Source

CUDA C++ Best Practices Guide; NVIDIA technical blog, "CUDA Pro Tip: Increase Performance with Vectorized Memory
Access".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from kscope.features.facts import WIDE, Code, Facts, total
from kscope.model.contract.analysis import Estimate, Remedy
from kscope.rules._shared.askew_rows import askew
from kscope.rules._shared.coarser_threads import coarsened, masked_beside
from kscope.rules._shared.own_records import apart, fetched_again, widest
from kscope.rules._shared.uniform_loads import for_all_lanes, ways
from kscope.rules._shared.wide_accesses import (
    AT_ONCE,
    FATTER,
    adjacent,
    apart_stores,
    candidates,
    fix,
    padding,
    streams,
    wavefronts_left,
)  # fmt: skip
from kscope.rules._shared.wide_waits import Left, left_in_line, waits_left
from kscope.rules.base import PASSED, Outcome, ProfiledRule, counted, derived, percent

if TYPE_CHECKING:
    from kscope.features.facts import Demand, Merge

EMPTY = "{:.2g} waves: fewer threads would leave SMs empty sooner than save waits"
PROVEN = 0.85
STREAMED, COMPUTED = 0.4, 0.25
"""Lanes of 4 bytes fill their sectors and wavefronts already: wider accesses ask no unit for less, and bring in flight
what unrolling would as well. Of 31 such findings that promised 1.1x on labelled kernels, 5 named what held the kernel
up (none of the 8 that stream), of 14 narrower or adjacent ones 12: fixtures/h200 and two sets of public programs."""
ONE_SURE = 0.6  # a thread that makes one and ends: of 15 on libraries' kernels 11 named the cause, 9 of 10 steps gained
PEELED = 0.5  # the rows of a launch may all be short, and what is read beside it (a mask, a scale) may be off otherwise
WORD = 4  # bytes a lane, with which lanes side by side fill their sectors
LEAST = 1.1  # gain, from which there is more to it: elements share the arithmetic of their indices
LITTLE, COVERED = 0.15, 0.5  # of all samples, below and above which (`_covered`)
ONE_EACH = " Each thread makes one such element: its index, parameters and waits would serve 16 bytes as well."


def _remedies(facts: Facts, code: Code, members: list[int], *, alike: bool, empty: bool) -> list[Remedy]:
    """alike: all lanes want the same; empty: fewer threads would leave SMs empty."""
    found = ways(facts, code, [i for i in members if code.cfg.loop_of[i] is not None]) if alike else []
    fewer = Remedy(step=FATTER, applies=False, why=EMPTY.format(facts.counters.launch.waves))
    return [*found, fewer] if empty else found


class NarrowGlobalAccess(ProfiledRule):
    code = "MEM102"
    slug = "narrow-global-access"
    title = "Global memory is accessed a few bytes a lane"
    regime = "memory"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        groups, narrow = candidates(facts, code)
        off = sorted(set(askew(facts, code)).difference(narrow))
        narrow = sorted({*narrow, *off})
        grouped = {i for g in groups for i in g.members}
        members = sorted(grouped | set(narrow))
        before = total(code.executed, members)
        if not before:
            return PASSED
        records = apart(facts, code, groups)
        kept = self._kept(code, groups, narrow, records)
        ratio = max(kept / before, 1 / 8)
        share = code.blamed_share(members)
        coarse = coarsened(facts, code, members, ratio)
        if share < 0.05 and coarse is None:
            return PASSED
        whole, peeled, merged = (2 * total(code.executed, sorted(part)) > before for part in (records, off, grouped))
        left = waits_left(facts, code, groups, narrow, ratio)
        scale = self._demands(facts, code, groups, members, ratio)
        if records:
            scale["l2_sectors"] = scale["l2_requests"] = fetched_again(facts, code, records, ratio)
        scale = padding(facts, code, groups, scale)
        estimate = self._relieved(facts, code, groups, members, left, scale, ratio, whole=whole)
        if self._covered(facts, code, members, fatter=left.fewer and not merged, gain=estimate.speedup):
            return PASSED
        if fatter := coarse is not None and coarse.speedup > estimate.speedup:
            estimate = coarse
        width = code.classes[first := code.hottest(members)[0]].bytes
        most = max(code.classes[i].bytes for i in members)
        wide = widest(groups * merged if narrow else groups, records)  # of what most are
        alike, few = for_all_lanes(facts, code, members), left.fewer and left.path > ratio
        return self.finding(
            title=f"{code[first].name} moves {counted(width, 'byte')} a lane",
            why=(
                f"{before:,.0f} global accesses of up to {counted(most, 'byte')} a lane could be {kept:,.0f} of {wide}"
                f"{adjacent(groups)}. {percent(share)} of all samples wait for them.{ONE_EACH if fatter else ''}"
            ),
            fix=AT_ONCE.format(wide) if alike else fix(facts, code, members, groups, peeled=peeled, own=whole, few=few),
            evidence=[
                derived("narrow global accesses", before, "inst", "inst_executed over the listed opcodes"),
                derived(f"accesses at {wide} bytes", kept, "inst", "the same bytes a lane"),
                derived("samples behind these accesses", share, "", "share of warp samples, blamed by def-use"),
            ],
            locations=code.locations(members),
            estimate=estimate,
            remedies=_remedies(facts, code, members, alike=alike, empty=few),
            pulls=["-threads"] if left.fewer or fatter else [],
            confidence=self._sure(
                code, before, peeled=peeled, proven=width < 4 * (not few) or merged, fatter=fatter, few=share < LITTLE
            ),
        )

    def _covered(self, facts: Facts, code: Code, members: list[int], *, fatter: bool, gain: float) -> bool:
        """Few wait, and warps that could go on wait for their turn most of the time: those waits cost nothing, and four
        elements a thread take registers from warps (svd3x3, a public kernel, 40 registers or 127: 0.94x)."""
        turns = facts.counters.stalls.of("selected", "not_selected", "math_pipe_throttle", "dispatch_stall")
        words = all(code.classes[i].bytes >= WORD for i in members)
        little = gain < LEAST and words and code.blamed_share(members) < LITTLE and turns > COVERED
        return fatter and (little or masked_beside(code, members))

    def _sure(self, code: Code, before: float, *, peeled: bool, proven: bool, fatter: bool, few: bool) -> float:
        """few: wait for these accesses, so that fatter threads save what each does once, if anything."""
        narrower = ONE_SURE if fatter else STREAMED if streams(code, before) else COMPUTED
        return PEELED if peeled else PROVEN if proven and not (fatter and few) else narrower

    def _relieved(
        self, facts: Facts, code: Code, groups: Sequence[Merge], members: list[int], left: Left,
        scale: dict[Demand, float], ratio: float, *, whole: bool,
    ) -> Estimate:  # fmt: skip
        """whole: most are records that L2 is asked for less often: what is its queue becomes shorter as well."""
        waits = min(left.share, left_in_line(facts, code, members, ratio, scale)) if whole else left.share
        scale = {**scale, "blocks": ratio} if left.fewer else scale
        share, spread = code.blamed_share(members), apart_stores(facts, code, groups)
        return facts.estimate.relieve(share, waits, scale, latency=left.path, posted=spread, hides=True)

    def _demands(
        self, facts: Facts, code: Code, groups: Sequence[Merge], members: list[int], ratio: float
    ) -> dict[Demand, float]:
        """What of each demand is left, without the blocks."""
        waves = wavefronts_left(facts, code, members)
        if not all(facts.profile.compact(g.members[0]) for g in groups):  # lanes apart take a round a sector as before
            waves = max(waves, ratio)
        # A request carries up to four sectors to L2; narrower than 4 bytes a lane it is not full.
        widest = max(code.classes[i].bytes for i in members)
        scale = facts.profile.demands_after(facts.patterns.addresses_of(members), ratio)
        written = 1 - apart_stores(facts, code, groups)
        requests = min(written, max(widest / 4, ratio))
        return {**scale, "l1_wavefronts": waves, "l2_requests": requests, "l2_sectors": written, "l2_writes": written}

    def _kept(self, code: Code, groups: Sequence[Merge], narrow: Collection[int], records: Mapping[int, int]) -> float:
        """Accesses that move the same bytes where each is as wide as it can be: whole records, from round to round, as
        their length allows."""
        merged = sum(code.executed[g.members[0]] * g.bytes / widest([g], records) for g in groups)
        return merged + sum(float(code.executed[i]) * code.classes[i].bytes / WIDE for i in narrow)
