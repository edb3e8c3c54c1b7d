"""Global memory is read or written a few bytes a lane where 16 would do.

## What it does

Finds global loads and stores of 1, 2, 4 or 8 bytes a lane on contiguous data, and groups of loads or stores whose
addresses are the same register plus adjacent offsets (def-use: the base is not redefined between them, no store or
barrier between), so that one wider instruction could do their work: aligned whatever the launch values are, and with
lanes side by side or at one address, be it only all pieces together. Three adjacent pieces of a structure (the bytes of
a colour) count as well: a fourth makes one access of them. Lanes that are further apart are MEM101's.

## Why it costs time

Each instruction costs an issue slot, a slot of the load/store queue and one round of latency, whatever it carries. A
lane that moves 2 bytes a round needs 8 times the rounds of one that moves 16: where nothing is saturated, that is
most of the time. Where device memory is full already, width changes nothing, and the estimate says so.

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

The base must be 16-byte aligned and the length a multiple (or a scalar tail handled). More bytes a thread means more
registers and fewer threads: small problems may empty SMs. One access a thread gains only by fewer waves.

## Source

CUDA C++ Best Practices Guide; NVIDIA technical blog, "CUDA Pro Tip: Increase Performance with Vectorized Memory
Access".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from kscope.features.facts import WIDE, Code, Facts, total
from kscope.model.contract.analysis import Estimate, Remedy
from kscope.rules._shared.wide_accesses import candidates, padded, streams, wavefronts_left
from kscope.rules.base import PASSED, Outcome, ProfiledRule, counted, derived, percent

if TYPE_CHECKING:
    from kscope.features.facts import Demand, Merge

PICKS = ("PRMT", "HADD2")  # read the byte or half of a register that they name, as conversions do
FATTER = "fewer, fatter threads"
FIX = "move 16 bytes a thread: float4 / uint4 on a 16-byte aligned base, __restrict__"
PAD = "give the structure of three a fourth piece (uchar4, float4): one load for all; or "
EMPTY = "{:.2g} waves: fewer threads would leave SMs empty sooner than save waits"
ONE_EACH = " Each thread makes one such element: its index, parameters and waits would serve 16 bytes as well."
MOSTLY = 0.5  # of the accesses, from which those outside loops decide whether threads must become fewer


def _not_fatter(facts: Facts) -> list[Remedy]:
    return [Remedy(step=FATTER, applies=False, why=EMPTY.format(facts.counters.launch.waves))]


def _fix(facts: Facts, first: int) -> str:
    threes = {i for g in padded(facts, set()) for i in g.members}
    return f"{PAD if first in threes else ''}{FIX}; {FATTER}"


class NarrowGlobalAccess(ProfiledRule):
    code = "MEM102"
    slug = "narrow-global-access"
    title = "Global memory is accessed a few bytes a lane"
    regime = "memory"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        groups, narrow = candidates(facts, code)
        grouped = {i for g in groups for i in g.members}
        members = sorted(grouped | set(narrow))
        before = total(code.executed, members)
        if not before:
            return PASSED
        kept = self._kept(code, groups, narrow)
        ratio = max(kept / before, 1 / 8)
        share = code.blamed_share(members)
        coarse = self._coarsened(facts, code, members, ratio)
        if share < 0.05 and coarse is None:
            return PASSED
        scale = self._demands(facts, code, groups, members, ratio)
        left, fewer = self._left(facts, code, narrow, before, ratio)
        if fewer:
            scale["blocks"] = ratio
        estimate = facts.estimate.relieve(share, left, scale, latency=left, hides=True)
        if fatter := coarse is not None and coarse.speedup > estimate.speedup:
            estimate = coarse
        first = code.hottest(members)[0]
        width = code.classes[first].bytes
        wide = max([g.bytes for g in groups] + [WIDE] * bool(narrow))
        adjacent = f"; {counted(len(groups), 'group')} at adjacent offsets of one base" if groups else ""
        proven = width < 4 or 2 * total(code.executed, sorted(grouped)) > before
        return self.finding(
            title=f"{code[first].name} moves {counted(width, 'byte')} a lane",
            why=(
                f"{before:,.0f} global accesses of up to {counted(width, 'byte')} a lane could be {kept:,.0f} of {wide}"
                f"{adjacent}. {percent(share)} of all samples wait for them.{ONE_EACH if fatter else ''}"
            ),
            fix=_fix(facts, first),
            evidence=[
                derived("narrow global accesses", before, "inst", "inst_executed over the listed opcodes"),
                derived(f"accesses at {wide} bytes", kept, "inst", "the same bytes a lane"),
                derived("samples behind these accesses", share, "", "share of warp samples, blamed by def-use"),
            ],
            locations=code.locations(members),
            estimate=estimate,
            remedies=_not_fatter(facts) if fewer and left > ratio else [],
            pulls=["-threads"] if fewer or fatter else [],
            confidence=0.85 if proven else 0.6 if streams(code, before) else 0.4,
        )

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
        return {**scale, "l1_wavefronts": waves, "l2_requests": min(1.0, max(widest / 4, ratio))}

    def _kept(self, code: Code, groups: Sequence[Merge], narrow: Collection[int]) -> float:
        """Accesses that move the same bytes where each is as wide as it can be."""
        merged = sum(float(code.executed[g.members[0]]) for g in groups)
        return merged + sum(float(code.executed[i]) * code.classes[i].bytes / WIDE for i in narrow)

    def _left(
        self, facts: Facts, code: Code, narrow: list[int], before: float, ratio: float
    ) -> tuple[float, bool]:
        """What is left of the waits (0..1), and whether threads become fewer: a thread that makes one access outside
        any loop can only take the elements of others. What it waits for it then waits for as long, and only as many
        times less as the launch takes waves less."""
        once = total(code.executed, [i for i in narrow if code.cfg.loop_of[i] is None])
        if once < MOSTLY * before:
            return ratio, False
        return max(ratio, min(1.0, 1 / max(facts.counters.launch.waves, 1e-9))), True

    def _coarsened(self, facts: Facts, code: Code, members: list[int], ratio: float) -> Estimate | None:
        """Where a thread stores one element of 1 or 2 bytes and ends: with 16 bytes of elements a thread, only the
        arithmetic behind the stored values stays; what a thread does once, and waits for, shrinks with the threads.
        None for other kernels."""
        launch = facts.counters.launch
        stores = [i for i in members if code.classes[i].access == "store" and code.cfg.loop_of[i] is None]
        if not stores or not launch.warps or any(code.classes[i].bytes >= 4 for i in stores):
            return None
        times = min(WIDE / max(code.classes[i].bytes for i in stores), launch.waves)
        if times < 2 or any(code.executed[i] > 0 and loop is not None for i, loop in enumerate(code.cfg.loop_of)):
            return None
        element = set(facts.patterns.values_of(stores))
        values = self._values_behind(code, [*stores, *element])
        loads = self._narrow_loads(code) & values  # each leaves an instruction that takes its element out of a register
        moved = {*members, *loads}
        once = [i for i in range(len(code)) if code.executed[i] > 0 and i not in moved and i not in element]
        kept, wide = facts.profile.demands_after(once, 1 / times), facts.profile.demands_after(sorted(moved), ratio)
        scale = {d: max(0.0, kept.get(d, 1.0) + wide.get(d, 1.0) - 1) for d in kept.keys() | wide.keys()}
        scale["blocks"] = 1 / times
        scale["instructions"] = 1 - code.issue_share([*once, *stores]) * (1 - 1 / times)
        scale["alu"] = scale.get("alu", 1.0) + self._taken_out(code, loads)
        scale |= {"l2_requests": max(1 / times, max(code.classes[i].bytes for i in stores) / 4)}
        working = total(code.samples, sorted(element)) / max(1.0, total(code.samples))
        waited = code.blamed_share(code.where(lambda ins, op: op.access is not None))
        return facts.estimate.relieve(min(1.0, max(waited, 1 - working)), 1 / times, scale, latency=1 / times)

    def _values_behind(self, code: Code, members: Sequence[int]) -> set[int]:
        return {p for i in members for ps in code.defuse.sources(i).values() for p in ps}

    def _narrow_loads(self, code: Code) -> set[int]:
        return set(code.where(lambda ins, op: op.space == "global" and op.access == "load" and 0 < op.bytes < 4))

    def _taken_out(self, code: Code, loads: Collection[int]) -> float:
        """Taking an element out of a wide register is an instruction of the integer pipe, unless a conversion, which
        picks its byte or half itself (I2F.U8.B1, PRMT), is the first to read it. As a share of that pipe's now."""
        taken = total(code.executed, [i for i in sorted(loads) if not self._converted(code, i)])
        every = code.issued_by_pipe.get("alu", 0.0)
        return taken / every if every else 0.0

    def _converted(self, code: Code, load: int) -> bool:
        """Whether all readers take their element out of a wide register themselves; a shift makes a BF16 a float."""
        readers = [i for i in code.defuse.consumers(load) if code.executed[i] > 0]
        return all(
            "conversion" in code.classes[i].kind or code[i].opcode in PICKS
            or any(o.equals(0x10000) for o in code[i].operands)
            for i in readers
        )
