"""An array that each thread indexes at run time lives in local memory instead of registers.

## What it does

Finds local loads and stores that are not spills: their address is computed, so the compiler could not keep the array
in registers. Where all places are known and a function is called through a pointer, says that instead: the compiler
does not know what such a function reads, so what may be handed to it, and what its caller keeps, lies in memory.

## Why it costs time

Registers cannot be indexed at run time. The array goes to local memory: one 4-byte word a lane, 128 bytes a warp and
access, through L1 and, when all warps' arrays outgrow it, through L2 and device memory. Where only the counter of a
loop indexes it, a loop of a run-time length is the cause, and it costs more than the array: counters, tests, addresses,
and a load for every constant that the counter picks (`LDC c[0x3][R12]`), all of which a full unroll makes operands.

## Evidence

`LDL`/`STL` whose address is a computed register, local sectors, L1 hit rate, samples blamed on them, and the
compiler's own spill count, which does not include them. What the loops do to count: integer work, branches and indexed
constants that no stored value and no other address needs (def-use).

## Fix

Make every index a compile-time constant (unroll the loop fully; where no loop indexes it, scalars and a selection among
them), or move the array to shared memory with the thread as the fastest index, or replace a table by arithmetic, a
select chain or `__constant__`/`__ldg` data. Sizes and strides in a structure that is a parameter are copied thread by
thread where a loop of a run-time length picks among them: declare the parameter `const __grid_constant__`, and they are
read from constant memory, where the launch put them (`LDC R6, c[0x0][R4+0x210]`). In place of a pointer to a function
a template parameter or a functor, so that it is inlined.

Before:

    float lut[64];              ... s += lut[v & 63];                  // LDL

After:

    extern __shared__ float sm[]; float* lut = sm + threadIdx.x;
    ... s += lut[(v & 63) * blockDim.x];                               // LDS, no conflict: lane = bank

## In SASS

The index is in a register (`[R11]`, not `[R1+0x40]`), so the array cannot live in registers. In shared memory the
same pattern is `LDS` and `STS`.

Before (capture local_array.slow):

    STL [R11], R8
    LDL R7, [R9]
    ...
    FADD R7, R8, R7
    STL [R12], R7
    LDL R8, [R10]

After (capture local_array.fast):

    LDS R14, [R14]
    FADD R3, R7, R14
    ...
    STS [R8], R3
    ...
    LDS R12, [R12]
    ...
    LEA R14, R14, R5, 0x2

## When it is wrong

A small array that stays in L1 in a cold place costs little. Functions that are linked in (`printf`, `assert`) are
called through a table of the driver's and count as known. Shared memory lowers occupancy: check LAT301 afterwards.
Both take warps, which the estimate counts (200 words, unrolled into registers: 0.57x): the way is told that leaves more
of them, registers from half of them on.
For an array that neither registers nor the block's shared memory can hold, by the bytes that the kernel sets aside for
a thread, what is left is a layout in which narrow elements do not take a word each; where they are words already, the
finding names no gain.

## Source

CUDA C++ Programming Guide, Device Memory Accesses: Local Memory; `__grid_constant__` Parameters (that a parameter whose
address is taken is copied by each thread otherwise).
"""

from __future__ import annotations

from msgspec import Struct

from kscope.features.facts import Code, Facts, total
from kscope.model.contract.analysis import Remedy
from kscope.rules._shared.local_memory import beside, local_estimate, local_instructions
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

REGISTERS = 4 * 255  # bytes that a thread can have in registers, on every chip from sm_50 on
UNROLL = "loops of a length that the compiler knows (template argument), unrolled: the array stays in registers"
CONSTANT = "constant indices (full unroll)"
SELECTED = "scalars, and a selection among them by the index (or of the pointer before the load): no loop indexes it"
SHARED = "the array in shared memory with the thread as fastest index"
ASIDE = "the array in global memory with the thread as fastest index: a warp's elements side by side"
SMALLER = "a smaller array: one for the block where threads hold the same, narrower or fewer elements"
MUCH = 0.15  # of all samples behind an array that has no place to go: the share from which a stall is to be explained
WHERE_IT_LIES = (
    "the parameter declared const __grid_constant__ (CUDA 11.7): its members are read where the launch put them, by "
    "an index that a warp shares"
)
INLINED = (
    "the function known to the compiler and inlined (a template parameter, a functor, a switch over the few that there "
    "are) in place of a pointer to it: what it is handed, and what its caller keeps, stays in registers"
)
PASSED_ON = (
    "{:,.0f} local loads and stores at known places are no spills and no array that an index walks: a function is "
    "called through a pointer, and what it may read, and registers that it may change, pass through memory. {} of all "
    "samples wait for them."
)
COPY = " They are a copy that each thread makes of the launch's own parameters."
ROOM = 0.5  # of the warps that registers leave, from which they are the place, for loops go with the array (judged)
MANY = "it has more words than a thread has registers"
PACKED = "its few narrow elements in one register or two, and shifts by the index: no loop indexes it"
FEW, BOTH = 8, 8  # words among which a selection can cost less than an access, and bytes of two registers (judged)
SHIFTS = 3  # instructions of an access to an element of a register: a shift, a mask, and one to put it back
WORD = 4  # bytes a lane that an access of local memory moves, however narrow it is


class Place(Struct, frozen=True):
    """Where an array can go: in words, the share of the warps that an SM holds then, the share of its traffic that
    stays, what has no room, and the instructions that an access takes then (`each`)."""

    fix: str
    warps: float
    left: float
    remedies: list[Remedy]
    each: int = 0


IN_PLACE = Place(WHERE_IT_LIES, 1.0, 0.0, [])
OPEN, KEPT = "LDL/STL at computed addresses", "LDL/STL at known places"
KNOWN = Place(INLINED, 1.0, 0.0, [])


class LocalMemoryIndexing(ProfiledRule):
    code = "MEM105"
    slug = "local-memory-indexing"
    title = "A run-time indexed array lives in local memory"
    regime = "memory"
    moves_roof = True
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        _, arrays = local_instructions(facts, code)
        if not len(arrays):
            return PASSED
        share = code.blamed_share(arrays)
        if share < 0.01:
            return PASSED
        executed, sectors = total(code.executed, arrays), facts.counters.traffic.local_sectors
        counting = facts.patterns.only_counting(arrays)
        loops = (
            f" Loop counters alone index it: what the loops do to count is {percent(code.issue_share(counting))} of "
            "all that is issued, and goes too where the compiler knows the counters."
            if counting
            else ""
        )
        copied = facts.patterns.copied_parameters(arrays)
        passed = facts.patterns.passed_on(arrays)
        place = (
            IN_PLACE if copied else KNOWN if passed else self._ways(facts, code, arrays, counted=bool(counting))
        )
        return self.finding(
            title="Values pass through local memory around a call by pointer" if passed else None,
            why=PASSED_ON.format(executed, percent(share)) if passed else (
                f"{executed:,.0f} local loads and stores at computed addresses are no spills but an array that the "
                f"compiler could not keep in registers. {percent(share)} of all samples wait for them."
                f"{COPY * copied}{loops}"
            ),
            fix=place.fix,
            remedies=place.remedies,
            evidence=[
                derived("local accesses that are no spills", executed, "inst", KEPT if passed else OPEN),
                measured(facts, "sass__inst_executed_register_spilling", "spills, for contrast"),
                derived("local sectors", sectors, "sector", "l1tex__t_sectors_pipe_lsu_mem_local"),
                derived("samples behind them", share, "", "share of warp samples, blamed by def-use"),
            ],
            locations=code.locations(arrays),
            estimate=(
                local_estimate(facts, code, arrays, counting, place.warps, place.left, place.each)
                if place.left < 1 else None
            ),
            severity="major" if share >= MUCH else "info",
            confidence=0.9,
        )

    def _ways(self, facts: Facts, code: Code, arrays: list[int], *, counted: bool) -> Place:
        """Registers, where the loops have their counters from the launch alone and as many warps stay as beside shared
        memory, or half of them; else shared memory; else what neither holds."""
        each, threads = facts.patterns.frame, facts.kernel.launch.threads
        narrowest = min(WORD, *(code.classes[i].bytes for i in arrays))
        words = -(-each // narrowest)  # an element a register
        chosen = words <= FEW and not counted and all(code.cfg.loop_of[i] is None for i in arrays)
        packed = chosen and narrowest < WORD and each <= BOTH
        alone = UNROLL if counted else PACKED if packed else SELECTED if chosen else CONSTANT
        in_registers = beside(facts, words) if each <= REGISTERS else 0.0
        if not facts.profile.fits_shared(each, threads):
            why = f"{each:,} bytes a thread are {each * threads / 1024:,.0f} KiB a block: more than an SM has"
            not_ = [Remedy(step=SHARED, applies=False, why=why)]
            if in_registers:
                return Place(alone, in_registers, 0.0, not_)
            left = min(1.0, max(code.classes[i].bytes for i in arrays) / WORD)
            return Place(ASIDE if left < 1 else SMALLER, 1.0, left, not_)
        in_shared = beside(facts, shared=each * threads)
        if in_registers >= min(in_shared, ROOM):
            ways = alone if counted or chosen else f"{alone}, or {SHARED}"
            return Place(ways, max(in_registers, in_shared), 0.0, [], chosen * (SHIFTS if packed else words))
        why = f"{words} registers more a thread leave {percent(in_registers)} of the warps" if in_registers else MANY
        return Place(SHARED, in_shared, 0.0, [Remedy(step=alone, applies=False, why=why)])
