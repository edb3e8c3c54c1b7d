"""Integer work, mostly index arithmetic and divisions, takes the issue slots.

## What it does

Finds integer divisions and modulos by run-time values (the sequence around `I2F.RP`, `MUFU.RCP`, `F2I` and `IMAD.HI`)
and kernels in which what only computes addresses, loop counts and bounds, and the branches on them, outnumber all else.

## Why it costs time

A GPU has no integer divider: a 32-bit division takes about 20 instructions, 64-bit about 70 or a call. Index
arithmetic shares the issue slots with the work.

## Evidence

Executed division sequences and their instructions (def-use cone); the share of issue of integer instructions that no
stored value and no test of loaded data needs (def-use), and of branches; ALU pipe utilisation.

## Fix

Where a thread takes its own number apart (row, column, plane): a grid of two or three dimensions, which divides
nothing. In a loop, keep running indices and correct them (strength reduction). Else multiply by a precomputed
reciprocal (`fast_divmod`); make the divisor a compile-time constant or a power of two; use 32-bit indices where they
suffice.

Before:

    int x = j % w, y = (j / w) % h;                                // 2 divisions, 2 modulos an element

After:

    x += step; if (x >= w) { x -= w; if (++y == h) y = 0; }

## In SASS

The sequence of a division by a run-time value; the running index is an add and a compare.

Before (capture int_division.slow):

    I2F.RP R10, R11
    ...
    F2I.FTZ.U32.TRUNC.NTZ R15, R14
    ...
    F2I.FTZ.U32.TRUNC.NTZ R9, R9
    ...
    MUFU.RCP R3, R8
    ...
    IMAD.HI.U32 R4, R15, R7, R14

After (capture int_division.fast):

    ISETP.GE.AND P0, PT, R0, UR4, PT
    ...
    IADD3 R4, R0, 0x3d1, RZ
    ...
    IADD3 R6, R0, 0x7a2, RZ
    ...
    IADD3 R14, R0, 0x1315, RZ
    ...
    ISETP.GE.AND P0, PT, R4, R5, PT

## When it is wrong

When memory limits, the integer work hides behind it: the estimate is capped by the busy unit. Integer arithmetic whose
result is stored (a hash, a cipher, packed bits) is the kernel's work, not its overhead: that is left to CMP208. A
remainder that is divided again in the next round (a power modulo n) has no running index: only a reduction by a kept
reciprocal is left, which on 64 bits is about as long (a public prime test gained nothing by it).

## Source

CUDA C++ Best Practices Guide, Division and Modulo Operations; Granlund and Montgomery, PLDI 1994. In three public
kernels that take a thread's number apart, reciprocals, shifts or 32 bits brought 1.0x to 1.3x, grids of more dimensions
1.4x to 2.9x (with more work a thread).
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts, total
from kscope.isa.families import family
from kscope.isa.opcodes import OpClass
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

NAMED = 0.7  # measured: experts had named it in 18 of 27 public kernels where it was among the first three
LEAST = 0.1  # of all that is issued, from which what goes with the divisions is worth a word
REPLACED = 0.15  # instructions of a strength-reduced index over those of the division sequence
REDUCED = 0.6  # the same of a product reduced by a kept reciprocal: 6 of 23 on 32 bits, more than all on 64 (measured)
INDICES = "constant or power-of-two divisors; running indices instead of / and %; precomputed reciprocals"
GRID = (
    "a grid of two or three dimensions, its rows from blockIdx.y and .z (short rows in blocks of several), so that no "
    "division is left; where the grid must stay, precomputed reciprocals"
)
LOADED = "precomputed reciprocals (a multiplication and a shift); constant or power-of-two divisors"
NARROW = "32-bit operands where they suffice: each division asks at run time whether they do; "
PRODUCTS = 6  # with reciprocals, of a number taken apart into a grid's three dimensions: two a division
ROUNDS = 2.0  # of a loop, from which a thread has another number in each
MODULUS = "Montgomery's form or one reciprocal a modulus, where 32 bits suffice; several numbers a thread side by side"
FOLDED = "hoist index arithmetic out of the loop, 32-bit indices, constant strides, unroll so that offsets fold"
BOUNDS = "bounds that hold for a whole tile checked once, its halo in the tile; loops of known length unrolled"
CHECKED = 0.15  # of all that is issued, from which the branches of bounds are the larger part to save; judged
MOSTLY = 0.55  # of all that is issued, from which index arithmetic is what the kernel does
FULL = 0.7  # load of the issue slots, from which they are what runs short
HOISTED = 0.7  # of index arithmetic that stays when what does not change is hoisted out of the loop


class IntegerAddressOverhead(ProfiledRule):
    code = "CMP205"
    slug = "integer-address-overhead"
    title = "Integer index arithmetic takes the issue slots"
    regime = "compute"

    def check(self, facts: Facts, code: Code) -> Outcome:
        seeds = facts.patterns.integer_divisions
        members = [i for i in sorted(facts.patterns.same_computation(seeds)) if whole(code.classes[i])] if seeds else []
        divisions = total(code.executed, seeds) if seeds else 0.0
        integer = code.where(lambda ins, op: "int" in op.kind or "int_mul" in op.kind)
        share_int = code.issue_share(integer)
        issuing = facts.counters.units["issue"].load if "issue" in facts.counters.units else 0.0
        gone = facts.patterns.removed_with(members) if seeds else []
        issue = code.issue_share(gone)
        if issue >= LEAST:
            # A slot that nobody else wants costs nothing: where issue is not full, time is where warps stand.
            slots = issue * facts.estimate.saturation(issuing)
            share = max(slots, total(code.samples, gone) / max(1.0, total(code.samples)))
            chained = total(code.executed, self._chained(facts, code, seeds)) > MOSTLY * divisions
            kept = REDUCED if chained else REPLACED
            scale = facts.profile.demands_after(gone, kept)
            return self.finding(
                title=f"Run-time integer division and what serves it take {percent(issue)} of the instructions",
                why=(
                    f"{divisions:,.0f} divisions or modulos by run-time values expand to "
                    f"{total(code.executed, members):,.0f} instructions; integer work is {percent(share_int)} of all "
                    "that is issued."
                ),
                fix=MODULUS if chained else self._way(facts, code, seeds),
                evidence=[
                    derived("division sequences executed", divisions, "inst", "I2F, MUFU.RCP, F2I, IMAD.HI"),
                    derived("instructions in them", total(code.executed, members), "inst", "def-use cone"),
                    measured(facts, "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active"),
                ],
                locations=code.locations(seeds),
                estimate=facts.estimate.relieve(
                    share, kept, scale, latency=facts.estimate.floor_without(gone, kept)
                ),
                confidence=0.4 if chained else NAMED,
            )
        return self._addresses(facts, code, integer, issuing)

    def _addresses(self, facts: Facts, code: Code, integer: list[int], issuing: float) -> Outcome:
        """Addresses, counts and bounds where what they run on is short."""
        share_int = code.issue_share(integer)
        pipe = facts.counters.units["alu"].load if "alu" in facts.counters.units else 0.0
        if max(issuing, pipe) < FULL:
            return PASSED
        own = facts.patterns.results
        turns = code.where(lambda ins, op: bool(op.kind & {"branch", "control"}))
        serving, branches = ([i for i in some if i not in own] for some in (integer, turns))
        around = sorted({*serving, *branches})
        share, checks = code.issue_share(around), code.issue_share(branches)
        short, full = "issue slots are", issuing
        if issuing < FULL:  # the pipe of comparisons, clamps and logic is what runs short, not the slots
            share = 1 - facts.profile.demands_after(around, 0.0).get("alu", 1.0)
            short, full = "integer (ALU) pipe is", pipe
        if share < MOSTLY or share_int < checks:
            return PASSED
        of = "all instructions" if issuing >= FULL else "what that pipe does"
        return self.finding(
            why=(
                f"{percent(share)} of {of} serves addresses, loop counts and bounds alone (branches: "
                f"{percent(checks)} of all instructions); the {short} {percent(full)} full."
            ),
            fix=BOUNDS if checks >= CHECKED else FOLDED,
            evidence=[
                derived("integer share of issue", share_int, "", "by opcode"),
                derived("of it for addresses, counts and bounds", share, "", "no stored value needs it"),
                measured(facts, "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active"),
            ],
            locations=code.locations(serving, weight=code.executed),
            estimate=facts.estimate.relieve(share, HOISTED, facts.profile.demands_after(around, HOISTED)),
            confidence=0.4,
        )

    def _way(self, facts: Facts, code: Code, seeds: list[int]) -> str:
        """What stands for most of the divisions: dimensions of the grid for the one number of a thread's that is taken
        apart (not for others that it makes of it, nor for one each round), nothing that runs along for loaded data."""
        launch = facts.kernel.launch
        flat = max(*launch.grid[1:], *launch.block[1:]) == 1
        most = MOSTLY * total(code.executed, seeds)
        of = {i: facts.patterns.dividend(i) for i in seeds}
        loaded = [i for i in seeds if of[i][0] & {"load", "table"}]
        one = [i for i in seeds if of[i][1] <= PRODUCTS and not self._repeated(facts, code, i)]
        apart = [i for i in one if "x" in of[i][0] and i not in loaded]
        if flat and total(code.executed, apart) > most:
            return GRID + (" of 32 bits" if self._wide(code) else "")
        way = LOADED if total(code.executed, loaded) > most else INDICES
        return (NARROW if self._wide(code) else "") + way

    def _repeated(self, facts: Facts, code: Code, division: int) -> bool:
        loop = code.cfg.loop_of[division]
        return loop is not None and facts.patterns.trips(loop) >= ROUNDS

    def _wide(self, code: Code) -> bool:
        """Some division has 64-bit operands: the code brings the long way along, even where it never runs."""
        return bool(code.where(lambda ins, op: ins.opcode in family("integer_to_float") and "U64" in ins.mods))

    def _chained(self, facts: Facts, code: Code, seeds: list[int]) -> list[int]:
        """Divisions whose result is divided again in the next round of their loop, by the same number: a power modulo
        n, a generator of random numbers. No running index stands for these. Where each round has a divisor of its own,
        an index is taken apart."""
        out = []
        for loop in {code.cfg.loop_of[i] for i in seeds} - {None}:
            assert loop is not None
            ring, body = set(facts.patterns.chained(loop)), set(code.cfg.loop_body(loop))
            here = [i for i in seeds if code.cfg.loop_of[i] == loop and not self._divisors(code, i) & body]
            out += [i for i in here if not ring.isdisjoint(facts.patterns.same_computation([i]))]
        return out

    def _divisors(self, code: Code, division: int) -> set[int]:
        """What makes the number whose reciprocal this is."""
        conversions = [p for ps in code.defuse.sources(division).values() for p in ps]
        return {p for i in conversions for ps in code.defuse.sources(i).values() for p in ps}


def whole(op: OpClass) -> bool:
    """Integer work: no floating-point arithmetic but the reciprocal and its conversions."""
    return not op.kind & {"fp32", "fp32_fma", "fp16", "fp64"} or "conversion" in op.kind
