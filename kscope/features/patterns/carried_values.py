"""What a loop hands from one round to the next, and whether its rounds can be dealt out to several threads.

Sums, choices (minimum, maximum, the better of two) and linear recurrences h = a h + b can be joined from pieces
(Blelloch, "Prefix Sums and Their Applications", 1990). A floating-point recurrence that each round needs, in a loop
that brings no new data, is not taken for that: it is one thread's state on its way through time (m = b m + g of an
optimiser). What a round stores at a place that the next one loads is carried as if it stayed in a register.

A loop that ends where its data say is one chain. A search is none: it carries nothing but an index, and where counting
ends it more often than a find does, its rounds are dealt out, and what lies behind a find is done in vain.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from kscope.features.patterns.dependency_chains import rings
from kscope.features.patterns.kept_in_memory import SPACES, place, steady
from kscope.features.sass import slices
from kscope.features.sass.listing import Listing, once_per_code
from kscope.features.sass.slices import stored
from kscope.isa.families import family
from kscope.model.operand import UNIFORM_BASE, memory_operand

LIMIT = 400  # instructions behind a test, from which what it depends on is called unknown
INDEX = 8  # integer instructions up to which a ring without loaded data is a counter, a pointer or a stage's phase
SELDOM = 0.5  # judged: of the times that a loop is left, by its data: more, and most of what is dealt out is in vain
_SUMS = family("sum")
_PRODUCTS = family("product")
_CHOICES = family("choice")
_MOVES = family("passes_on")
_OWN = frozenset({"x", "y", "z", "tid", "load"})  # what the address of a counter that all share does not depend on
_QUEUE = family("global_count")
_INTEGER = frozenset({"int", "int_mul", "move", "predicate", "vote"})


class Carried(Struct, frozen=True):
    """What a loop carries. `serial`: the largest ring that nobody can divide, or the branch that its data decide; none
    where rounds can be divided. `stored`: a value that is carried and can be divided is stored in each round. `joined`:
    what has to be joined from pieces ("sum", "choice", "recurrence"). `searches`: data may end the loop, and hardly
    ever do."""

    serial: tuple[int, ...]
    stored: bool
    joined: frozenset[str]
    searches: bool


@once_per_code  # of a loop for itself, and for the loops around it
def carried(code: Listing, number: int) -> Carried:
    """What a loop carries, and whether its rounds can be divided."""
    loop = code.cfg.loops[number]
    inside = {i for i in loop.instructions if code.executed[i] > 0}
    bad: tuple[int, ...] = ()
    sums = set[int]()
    joined = set[str]()
    kept = _kept(code, inside)
    passed_on = {i for store, loads in kept.items() for i in (store, *loads)}
    stores = False
    written = _written(code, inside - kept.keys())
    for ring in rings(code, inside, lambda p, c: _stale(code, p, c), kept):
        members = set(ring)
        if _renewed(code, number, members, inside) or _index(code, members, inside):
            continue
        able = [i for i in ring if i not in passed_on]
        if not able:
            continue
        if not _divisible(code, able, members) or _state(code, members, inside - passed_on):
            bad = max(bad, tuple(able), key=len)
            continue
        if any(_number(code, i) for i in able):
            sums.update(able)
        joined.add(_joint(code, able, members))
        if members & written:
            stores = True
    if bad:
        return Carried(bad, stores, frozenset(), searches=False)
    test, searches = _ends_by_data(code, number, inside, sums)
    return Carried(test, stores, frozenset(joined), searches)


def _written(code: Listing, inside: set[int]) -> set[int]:
    """What computes the values that a loop stores to global memory."""
    return {
        p for i in inside if code.classes[i].access == "store" and code.classes[i].space in ("global", "generic")
        for r in stored(code, i) for p in code.defuse.producers(i, r)
    }  # fmt: skip


def _kept(code: Listing, inside: set[int]) -> dict[int, tuple[int, ...]]:
    """Loads that take from memory what a store of the round before put there: both at the same place of the thread's
    own, which no store of the round has written anew before the load."""
    cfg = code.cfg
    out: dict[int, tuple[int, ...]] = {}
    for space in SPACES:
        mine = [i for i in sorted(inside) if code.classes[i].space == space and steady(code, i, inside)]
        by_place: dict[tuple[object, ...], list[int]] = {}
        for i in mine:
            by_place.setdefault(place(code, i), []).append(i)
        for there in by_place.values():
            stores = [i for i in there if code.classes[i].access == "store"]
            loads = tuple(
                i for i in there if code.classes[i].access == "load"
                and not any(s < i and cfg.dominates(cfg.block_of[s], cfg.block_of[i]) for s in stores)
            )  # fmt: skip
            if loads:
                out.update(dict.fromkeys(stores, loads))
    return out


def _state(code: Listing, ring: set[int], inside: set[int]) -> bool:
    """A floating-point recurrence that each round needs, in a loop that brings nothing new to it: a state in time."""
    if not any(_number(code, i) and _factors(code, i, ring) for i in ring):
        return False
    if not any(j in inside and j not in ring for i in ring for j in code.defuse.consumers(i)):
        return False
    return not any(_new_data(code, i, inside) for i in inside)


def _number(code: Listing, i: int) -> bool:
    return "fp32" in code.classes[i].kind or code.classes[i].pipe in ("fp64", "fp16")


def _joint(code: Listing, able: list[int], ring: set[int]) -> str:
    """How pieces of a value that can be divided are joined."""
    able = [i for i in able if not _moves(code, i)]
    if any(code[i].opcode in _CHOICES for i in able):
        return "choice"
    return "recurrence" if any(_factors(code, i, ring) for i in able) else "sum"


def _new_data(code: Listing, i: int, inside: set[int]) -> bool:
    """A load at an address that changes with the rounds."""
    if code.classes[i].access not in ("load", "async_copy"):
        return False
    address = memory_operand(code[i].operands)
    if address is None:
        return True  # a texture, a tensor: what it brings is not told by registers of an address
    return any(p in inside for b in address.bases for p in code.defuse.producers(i, b.register))


def _ends_by_data(code: Listing, number: int, inside: set[int], sums: set[int]) -> tuple[tuple[int, ...], bool]:
    """The branch out of a loop that its data decide: what it loads, or rounds of an inner loop that are one chain.
    None where rounds are counted, or a sum of numbers decides (`sums`), which a scan finds, or the data hardly ever end
    it: then the second value is true."""
    cfg = code.cfg
    blocks = cfg.loops[number].blocks
    found: list[int] = []
    for b in sorted(blocks):
        last = cfg.blocks[b].end - 1
        leaves = any(s not in blocks for s in cfg.blocks[b].successors)
        if leaves and last in inside and code[last].guard is not None and _by_data(code, number, last, inside, sums):
            found.append(last)
    if found and _seldom(code, number, found) and not _writes(code, inside):
        return (), True
    return tuple(found[:1]), False


def _by_data(code: Listing, number: int, last: int, inside: set[int], sums: set[int]) -> bool:
    """Whether what the round loads decides a branch."""
    seen = {last}
    work = [last]
    while work and len(seen) < LIMIT:
        i = work.pop()
        before = {p for ps in code.defuse.sources(i).values() for p in ps if p in inside}
        if code.classes[i].access in ("load", "atomic") and before:
            if _drawn(code, i, inside):
                continue
            return True
        inner = code.cfg.loop_of[i]
        if inner is not None and inner != number and carried(code, inner).serial:
            return True
        work += before - seen - sums
        seen |= before
    return False


def _seldom(code: Listing, number: int, tests: list[int]) -> bool:
    """Whether these branches end the loop in few of the times that it is entered, by executions."""
    if not code.counted:
        return False
    blocks = code.cfg.loops[number].blocks
    left = 0.0
    for i in tests:
        block = code.cfg.blocks[code.cfg.block_of[i]]
        stay = [code.cfg.blocks[s] for s in block.successors if s in blocks]
        go = [code.cfg.blocks[s] for s in block.successors if s not in blocks]
        ways = [code.executed[i] - code.executed[s.start] for s in stay if len(s.predecessors) == 1]
        ways += [sum(code.executed[g.start] for g in go)]
        left += max(0.0, min(ways))
    return left < SELDOM * entries(code, number)


def _writes(code: Listing, inside: set[int]) -> bool:
    """The loop hands something on in memory, which a later round may test: it is no search."""
    return any(code.classes[i].access in ("store", "atomic", "reduction") for i in inside)


def entries(code: Listing, number: int) -> float:
    """How often a loop is entered, in warp executions."""
    loop = code.cfg.loops[number]
    header = code.cfg.blocks[loop.header]
    times = code.executed[header.start]
    entered = sum(code.executed[code.cfg.blocks[p].start] for p in header.predecessors if p not in loop.blocks)
    return min(entered, times) or times


def _drawn(code: Listing, i: int, inside: set[int]) -> bool:
    """The number of the next piece of work, which blocks or threads draw from one counter that all share: whoever is
    there takes it, so the rounds are as good as dealt. One thread may draw for its block and hand the number on
    through shared memory."""
    op = code.classes[i]
    if op.access == "atomic":
        at = slices.address_origins(code, i)
        return code[i].opcode in _QUEUE and "ADD" in code[i].mods and at is not None and at.isdisjoint(_OWN)
    if op.access != "load" or op.space != "shared":
        return False
    place = memory_operand(code[i].operands)
    handed = [
        p for s in inside if code.classes[s].access == "store" and code.classes[s].space == "shared"
        and place is not None and (to := memory_operand(code[s].operands)) is not None and to.value == place.value
        for r in stored(code, s) for p in code.defuse.producers(s, r) if p in inside
    ]  # fmt: skip
    return bool(handed) and all(code.classes[p].access == "atomic" and _drawn(code, p, inside) for p in handed)


def _stale(code: Listing, producer: int, consumer: int) -> bool:
    """A value of the round before that an instruction cannot read, for under the same guard it was written anew, or
    only seems to: PRMT names its own result where no byte of it is wanted."""
    if code[consumer].opcode == "PRMT" and not set(code[producer].defs).isdisjoint(code[consumer].defs):
        return True
    guard = (code[consumer].guard, code[consumer].guard_negated)
    if producer < consumer or guard[0] is None:
        return False
    for producers in code.defuse.sources(consumer).values():
        fresh = any(p < consumer and (code[p].guard, code[p].guard_negated) == guard for p in producers)
        if producer in producers and not fresh:
            return False
    return True


def _renewed(code: Listing, number: int, ring: set[int], inside: set[int]) -> bool:
    """The ring belongs to an inner loop and starts anew in each round of this one."""
    loops = code.cfg.loop_of
    if any(loops[i] == number for i in ring):
        return False
    for i in ring:
        for producers in code.defuse.sources(i).values():
            if ring.intersection(producers) and any(p in inside and p not in ring for p in producers):
                return True
    return False


def _index(code: Listing, ring: set[int], inside: set[int]) -> bool:
    """A counter, a pointer, the phase of a stage: few integer instructions that no loaded data enter."""
    if len(ring) > INDEX or any(_quotient(code, i) for i in ring):
        return False
    for i in ring:
        op = code.classes[i]
        if op.access is not None or not (op.kind & _INTEGER or op.pipe == "uniform" or code[i].opcode == "ELECT"):
            return False
        fed = (p for producers in code.defuse.sources(i).values() for p in producers)
        if any(p in inside and code.classes[p].space not in (None, "constant") for p in fed):
            return False
    return True


def _divisible(code: Listing, able: list[int], ring: set[int]) -> bool:
    """Sums alone, choices (minimum, maximum, the better of two) alone, or a linear recurrence."""
    able = [i for i in able if not _moves(code, i)]
    if all("tensor" in code.classes[i].kind or code.classes[i].pipe == "tensor" for i in able):
        return True
    if any(code.classes[i].access is not None for i in able):
        return False
    if all(code[i].opcode in _CHOICES for i in able):
        return True
    if any(_quotient(code, i) for i in able):
        return False
    return all(code[i].opcode in _SUMS | _PRODUCTS and _factors(code, i, ring) < 2 for i in able)


def _quotient(code: Listing, i: int) -> bool:
    """The upper half of a product: a quotient, which is neither a counter nor the sum of its parts' quotients."""
    return "HI" in code[i].mods and code[i].opcode in _PRODUCTS


def _moves(code: Listing, i: int) -> bool:
    ins = code[i]
    return ins.opcode in _MOVES or (ins.opcode == "IMAD" and "MOV" in ins.mods)


def _factors(code: Listing, i: int, ring: Collection[int]) -> int:
    """Carried values among the factors of a product: with none it adds, with one it is linear."""
    ins = code[i]
    if ins.opcode not in _PRODUCTS:
        return 0
    mine = {r for r, producers in code.defuse.sources(i).items() if any(p in ring for p in producers)}
    factors = ins.operands[1:3]
    return sum(any(r in mine for r in o.mentioned if r < UNIFORM_BASE) for o in factors)
