"""Code that looks like a matrix product or a stencil: multiply-adds whose factors come from loads, and the same shape
with another operation in their place: sums of differences, minima of sums, counts of bits that differ."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.features.sass.listing import Listing, Structure, once_per_code
from kscope.features.sass.slices import stored
from kscope.isa.families import family

FMA_OPCODES = family("fma")
_UNPACKING = family("unpacking")
_PAIRED = family("paired")
_JOINED_ON = family("joined_on")
_GATHERING = family("sum") | family("choice")
DEPTH = 3  # moves and conversions allowed between a load and the multiply-add
SELDOM = 0.02  # of the stores to shared memory, up to which they are not what the loop multiplies (judged)
STEPS = 8  # instructions from a pair's operation to the sum: an absolute value, a count of bits, a function of the pair
# (the square root takes 4 after its first guess, exp 5: SASS of the CUDA 13 math library, sm_90)
DEEP = 16  # products added up in one chain, as deep as one tensor instruction goes: fewer are a small filter


class FmaLoop(Struct, frozen=True):
    """What stands in one loop and in none of its inner ones, or in no loop. loads: indices of the loads that feed
    factors; both: whether both factors are loaded and summed up in a loop or a long chain (a product of matrices), or
    not (a stencil, a small filter); fmas: executed warp multiply-adds; words_per_fma: 4-byte words loaded a lane over
    multiply-adds; issue: FMA share of the code's instructions; sums: whether some add up."""

    loads: tuple[int, ...]
    fma_indices: tuple[int, ...]
    opcode: str
    both: bool
    fmas: float
    words_per_fma: float
    issue: float
    sums: bool = True


@once_per_code  # several rules ask
def fma_loops(code: Listing) -> tuple[FmaLoop, ...]:
    """Loops (and straight-line code) whose multiply-adds take loaded factors, most executed first."""
    found = (lp for region in _regions(code.structure) for lp in _region(code, *region))
    return tuple(sorted(found, key=lambda lp: -lp.fmas))


@once_per_code
def pair_loops(code: Listing) -> tuple[FmaLoop, ...]:
    """Loops that add up, or choose from, what an operation other than a multiply-add makes of two loaded values:
    |a - b|, (a - b)^2, min(a + b), popc(a ^ b), sqrt(a * b), also where one instruction does both (the least of sums,
    sums of whole products). Those that execute most of them first; `fmas` counts the operations."""
    out = []
    for inside, _, _ in _regions(code.structure):
        fed = {
            i: set().union(*factors)
            for i in inside
            if code[i].opcode in _PAIRED | _JOINED_ON and code.executed[i] > 0
            and len(factors := _loaded_pair(code.structure, i, inside)) == 2 and _gathered(code, i, inside)
        }  # fmt: skip
        if fed:
            out.append(_loop(code, inside, fed, both=True))
    return tuple(sorted(out, key=lambda lp: -lp.fmas))


def product(code: Listing, members: Iterable[int]) -> FmaLoop | None:
    """The loop whose sums of products take a factor from these loads, the other one loaded too; None without."""
    chosen = set(members)
    return next((lp for lp in fma_loops(code) if lp.both and not chosen.isdisjoint(lp.loads)), None)


def halves(code: Listing, loop: FmaLoop) -> bool:
    """The loop multiplies 2-byte values: loaded as such, unpacked from wider loads by a shift of 16 bits or a
    permute, or converted from 2 bytes on their way into shared memory. Tensor cores multiply them exactly."""
    if all(code.classes[i].bytes == 2 for i in loop.loads) or _staged_halves(code, loop):
        return True
    unpacked = 0
    for i in loop.fma_indices:
        registers = [r for o in code[i].operands[1:3] if (r := o.vector) is not None]
        unpacked += all(any(_unpacks(code, p) for p in code.defuse.producers(i, r)) for r in registers)
    return unpacked > 0.5 * len(loop.fma_indices)


def unpacking(code: Listing, loop: FmaLoop) -> list[int]:
    """The conversions, shifts and permutes between the loop's loads and its multiply-adds."""
    found: set[int] = set()
    work = [(i, DEPTH) for i in loop.fma_indices]
    while work:
        i, depth = work.pop()
        for producers in code.defuse.sources(i).values():
            for p in producers:
                if p not in found and depth and (_unpacks(code, p) or "conversion" in code.classes[p].kind):
                    found.add(p)
                    work.append((p, depth - 1))
    return sorted(found)


def _staged_halves(code: Listing, loop: FmaLoop) -> bool:
    """All factors come from shared memory, and what the kernel stores there was unpacked from 2-byte values, but for
    what it stores seldom (a table of the block's)."""
    if not all(code.classes[i].space == "shared" for i in loop.loads):
        return False
    stores = code.ran(code.where(lambda ins, op: op.space == "shared" and op.access == "store"))
    other = [
        i for i in stores
        if not all(any(_from_half(code, p) for p in code.defuse.producers(i, r)) for r in stored(code, i))
    ]  # fmt: skip
    return len(other) < len(stores) and total(code.executed, other) <= SELDOM * total(code.executed, stores)


def _from_half(code: Listing, index: int) -> bool:
    """A conversion to float of one half of a loaded register (HADD2.F32), or the shift or permute that takes one
    out of it."""
    ins = code[index]
    if not (_unpacks(code, index) and (ins.opcode != "HADD2" or "F32" in ins.mods)):
        return False
    return any(code.classes[p].access == "load" for r in ins.uses for p in code.defuse.producers(index, r))


def _chain(code: Listing, fed: dict[int, set[int]]) -> int:
    """Most of these multiply-adds that one sum runs through in straight-line code."""
    depth: dict[int, int] = {}
    for i in sorted(fed):
        register = _addend(code, i)
        before = code.defuse.producers(i, register) if register is not None else ()
        depth[i] = 1 + max((depth.get(p, 0) for p in before if p < i), default=0)
    return max(depth.values(), default=0)


@once_per_code
def _regions(code: Structure) -> list[tuple[set[int], bool, dict[int, list[set[int]]]]]:
    """(instructions, whether they are an innermost loop's, loads behind each loaded factor of their multiply-adds): of
    each loop without its inner ones (an unrolled step of a tile stands beside the loop that copies it), and of what is
    in none."""
    regions = [(set(code.cfg.loop_body(n)), lp.innermost) for n, lp in enumerate(code.cfg.loops)]
    regions.append(({i for i, loop in enumerate(code.cfg.loop_of) if loop is None}, False))
    return [(inside, looped, _fed(code, inside)) for inside, looped in regions]


def _fed(code: Structure, inside: set[int]) -> dict[int, list[set[int]]]:
    out = {}
    for i in inside:
        if code[i].opcode in FMA_OPCODES:
            factors = [f for f in _loaded_factors(code, i, inside) if f]
            if factors and not (len(factors) == 2 and _same_operand(code, i)):  # of a square nothing is reused
                out[i] = factors
    return out


def _region(
    code: Listing, inside: set[int], looped: bool, loaded: dict[int, list[set[int]]]
) -> list[FmaLoop]:
    """The multiply-adds of a region with both factors loaded, and those with one."""
    by_factors: dict[int, dict[int, set[int]]] = {2: {}, 1: {}}
    for i, factors in loaded.items():
        if code.executed[i] > 0:
            by_factors[len(factors)][i] = set().union(*factors)
    return [
        _loop(code, inside, fed, both=n == 2 and (looped or _chain(code, fed) >= DEEP))
        for n, fed in by_factors.items() if fed
    ]  # fmt: skip


def _sums(code: Listing, fed: dict[int, set[int]]) -> bool:
    """Some of these multiply-adds add up: a filter's taps, an inner product. `x * weight + bias` does not."""
    return any(p in fed for i in fed if (r := _addend(code, i)) is not None for p in code.defuse.producers(i, r))


def _addend(code: Listing, index: int) -> int | None:
    """Register of what a multiply-add adds to."""
    return code[index].operands[3].vector if len(code[index].operands) > 3 else None


def _loop(code: Listing, inside: set[int], fed: dict[int, set[int]], *, both: bool) -> FmaLoop:
    loads = tuple(sorted(set().union(*fed.values())))
    executed = total(code.executed, fed)
    words = sum(code.executed[i] * max(code.classes[i].bytes, 4) / 4 for i in loads)
    every = total(code.executed, inside)
    return FmaLoop(
        loads=loads,
        fma_indices=tuple(sorted(fed)),
        opcode=code[min(fed)].opcode,
        both=both,
        fmas=executed,
        words_per_fma=words / executed,
        issue=executed / every if every else 0.0,
        sums=both or _sums(code, fed),
    )


def _loaded_pair(code: Structure, index: int, inside: set[int]) -> list[set[int]]:
    """The loads behind both values that an operation joins; fewer than two where one is not loaded in the region, both
    are the same register, or both come from the same load."""
    joined = code[index].operands[1:3] if code[index].opcode in _JOINED_ON else code[index].operands[1:4]
    registers = list(dict.fromkeys(r for o in joined if (r := o.vector) is not None))
    if len(registers) != 2:
        return []
    found = [_loads_behind(code, index, r, inside, DEPTH) for r in registers]
    return found if all(found) and found[0].isdisjoint(found[1]) else []


def _gathered(code: Listing, index: int, inside: set[int]) -> bool:
    """What the operation makes goes into a sum or a choice that the region carries on, STEPS instructions behind, or
    is that itself."""
    if code[index].opcode in _JOINED_ON:
        return _carries_on(code, index, inside) or _deep(code, index)
    reached = {index}
    for _ in range(STEPS):
        reached = {c for i in reached for c in code.defuse.consumers(i) if c in inside} - {index}
        for c in reached:
            if code[c].opcode in _GATHERING and _carries_on(code, c, inside):
                return True
    return False


def _deep(code: Listing, index: int) -> bool:
    """A link of a chain of such operations, DEEP of them, that no loop carries on: its rounds are written out."""
    opcode, seen, work = code[index].opcode, {index}, [index]
    while work and len(seen) < DEEP:
        i = work.pop()
        addend = _addend(code, i)
        linked = set(code.defuse.producers(i, addend)) if addend is not None else set()
        linked |= {c for c in code.defuse.consumers(i) if code[c].opcode == opcode}
        new = {k for k in linked if code[k].opcode == opcode} - seen
        seen |= new
        work += new
    return len(seen) >= DEEP


def _carries_on(code: Listing, index: int, inside: set[int]) -> bool:
    """An operand comes from the instruction itself a round before, or from one of its kind that does (unrolled)."""
    opcode, seen, work = code[index].opcode, set[int](), [index]
    while work:
        i = work.pop()
        for producers in code.defuse.sources(i).values():
            for p in producers:
                if p == index:
                    return True
                if p in inside and p not in seen and code[p].opcode == opcode:
                    seen.add(p)
                    work.append(p)
    return False


def _same_operand(code: Structure, index: int) -> bool:
    first, second = (o.vector for o in code[index].operands[1:3])
    return first == second


def _loaded_factors(code: Structure, index: int, inside: set[int]) -> list[set[int]]:
    """For each factor of a multiply-add, the loads of the region that it comes from (empty: not loaded there)."""
    registers = [operand.vector for operand in code[index].operands[1:3]]
    return [_loads_behind(code, index, r, inside, DEPTH) if r is not None else set() for r in registers]


def _loads_behind(code: Structure, index: int, register: int, inside: set[int], depth: int) -> set[int]:
    out: set[int] = set()
    for p in code.defuse.producers(index, register):
        if p not in inside:
            continue
        op = code.classes[p]
        if op.access in ("load", "matrix_load") and op.space in ("global", "shared", "generic"):
            out.add(p)
        elif depth and ("move" in op.kind or "conversion" in op.kind or _unpacks(code, p)):
            for r in code[p].uses:
                out |= _loads_behind(code, p, r, inside, depth - 1)
    return out


def _unpacks(code: Listing | Structure, index: int) -> bool:
    """Takes one packed element out of a register: a shift by a constant, a byte permute, a mask (bf16 to float is
    `x << 16` and `x & 0xffff0000`)."""
    ins = code[index]
    if ins.opcode not in _UNPACKING:
        return False
    return ins.opcode == "HADD2" or any(o.kind == "integer" for o in ins.operands[1:])
