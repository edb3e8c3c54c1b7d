"""What a loop hands from one round to the next, and whether its rounds can be dealt out to several threads.

Sums, choices (minimum, maximum, the better of two) and linear recurrences h = a h + b can be joined from pieces
(Blelloch, "Prefix Sums and Their Applications", 1990). A floating-point recurrence that each round needs, in a loop
that brings no new data, is not taken for that: it is one thread's state on its way through time (m = b m + g of an
optimiser). What a round stores at a place that the next one loads is carried as if it stayed in a register.

A loop that ends where its data say is one chain. A search is none: it carries nothing but an index, and where counting
ends it more often than a find does, its rounds are dealt out, and what lies behind a find is done in vain.
"""

from __future__ import annotations

from msgspec import Struct

from kscope.features.patterns import carried_rings
from kscope.features.patterns.dependency_chains import rings
from kscope.features.patterns.exchanges import made_of, met_in_shared
from kscope.features.patterns.kept_in_memory import SPACES, place, steady
from kscope.features.sass import slices
from kscope.features.sass.listing import Listing, once_per_code
from kscope.features.sass.slices import stored
from kscope.isa.families import family
from kscope.model.operand import memory_operand

LIMIT = 400  # instructions behind a test, from which what it depends on is called unknown
FINDS = 0.5  # judged: of the rounds, up to which what counts is what is found there, and no counter of the rounds
SELDOM = 0.5  # judged: of the times that a loop is left, by its data: more, and most of what is dealt out is in vain
_OWN = frozenset({"x", "y", "z", "tid", "load"})  # what the address of a counter that all share does not depend on
_QUEUE = family("global_count")


class Carried(Struct, frozen=True):
    """What a loop carries. `serial`: the largest ring that nobody can divide, or the branch that its data decide; none
    where rounds can be divided. `stored`: a value that is carried and can be divided is stored in each round. `joined`:
    what has to be joined from pieces ("sum", "choice", "count", "recurrence"). `searches`: data may end the loop, and
    hardly ever do."""

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
        if _renewed(code, number, members, inside):
            continue
        if carried_rings.index(code, members, inside):
            if _finds(code, number, members, inside):
                joined.add("count")
            continue
        able = [i for i in ring if i not in passed_on]
        if not able:
            continue
        if not carried_rings.divisible(code, able, members) or carried_rings.state(code, members, inside - passed_on):
            bad = max(bad, tuple(able), key=len)
            continue
        if any(carried_rings.numeric(code, i) for i in able):
            sums.update(able)
        joined.add(carried_rings.joint(code, able, members))
        if members & written:
            stores = True
    if bad:
        return Carried(bad, stores, frozenset(), searches=False)
    if met := met_in_shared(code, inside):
        return Carried(met, stores, frozenset(), searches=False)
    test, searches = _ends_by_data(code, number, inside, sums)
    return Carried(test, stores, frozenset(joined), searches)


def _finds(code: Listing, number: int, ring: set[int], inside: set[int]) -> bool:
    """A count of what few rounds find, by executions, that says where the next find is stored."""
    rounds = code.executed[code.cfg.blocks[code.cfg.loops[number].header].start]
    if not code.counted or max(code.executed[i] for i in ring) > FINDS * rounds:
        return False
    places = ((i, memory_operand(code[i].operands)) for i in inside if code.classes[i].access == "store")
    made = {p for i, at in places if at is not None for b in at.bases for p in code.defuse.producers(i, b.register)}
    return not ring.isdisjoint(made_of(code, made, inside))


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




