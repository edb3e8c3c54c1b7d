"""Exchanges through shared memory in which data say where each value goes: no shuffle and no fewer barriers do them.

A scan or a reduction moves values to places that are known when the code is written: within a warp shuffles do the
same. A scatter (the ranks of a sort, the slots of a partition) goes to any thread of the block: it needs a store, a
barrier, a load, and a barrier before the next one, however the ranks came about."""

from __future__ import annotations

from collections.abc import Collection

from kscope.features.sass.listing import Listing
from kscope.features.sass.slices import gathers, stored
from kscope.isa.families import family

_BARRIERS, _SUMS, _MOVES = family("block_barrier"), family("sum"), family("passes_on")
_COPIES = family("async_load")


def exchanges(code: Listing) -> frozenset[int]:
    """Executed stores to shared memory at addresses computed from loaded data, the barriers that all ways from them
    reach next, the loads behind those, and the barriers that come then, before which the places are not used again.
    Loads at such addresses (a table that the block looks up) are none."""
    barriers = {i for i in range(len(code)) if code[i].opcode == "BAR" and code.executed[i] > 0}
    stores = code.where(lambda ins, op: op.space == "shared" and op.access == "store")
    scatters = [i for i in stores if code.executed[i] > 0 and gathers(code, i)]
    found = set(scatters)
    behind = {b for i in scatters for b in until(code, i, barriers)[1]}
    for b in behind:
        passed, then = until(code, b, barriers)
        reads = {i for i in passed if code.classes[i].space == "shared" and code.classes[i].access == "load"}
        if reads:
            found |= {b, *reads, *then}
    return frozenset(found)


def until(code: Listing, start: int, barriers: Collection[int]) -> tuple[set[int], set[int]]:
    """What can run after an instruction before any of these barriers, and the barriers that come next."""
    cfg = code.cfg
    passed, reached, seen = set[int](), set[int](), set[int]()
    todo = [(cfg.block_of[start], start + 1)]
    while todo:
        number, first = todo.pop()
        block = cfg.blocks[number]
        end = next((i for i in range(first, block.end) if i in barriers), None)
        passed.update(range(first, block.end if end is None else end))
        if end is not None:
            reached.add(end)
            continue
        fresh = [s for s in block.successors if s not in seen]
        seen.update(fresh)
        todo += [(s, cfg.blocks[s].start) for s in fresh]
    return passed, reached


def met_in_shared(code: Listing, inside: Collection[int]) -> tuple[int, ...]:
    """Rounds that are one chain through shared memory, for the block joins what a round has found and the next begins
    with it (the farthest point so far, the pivot of an elimination): the load whose value the next round begins with,
    and what leads from there to what the loop stores to shared memory. Empty where there is none, and where only sums
    lie between: a scan's carry, which pieces can do without."""
    ran = sorted(inside)
    shared = [i for i in ran if code.classes[i].space == "shared"]
    stores = [i for i in shared if code.classes[i].access == "store"]
    loads = [i for i in shared if code.classes[i].access == "load"]
    others = [i for i in shared if code.classes[i].access in ("atomic", "reduction")]
    if not stores or not loads or not any(code[i].opcode in _BARRIERS for i in ran):
        return ()
    if any(code[i].opcode in _COPIES for i in ran):
        return _begun(code, stores, loads, inside)
    return _begun(code, stores, loads, inside) or _kept_in_shared(code, [*stores, *others], loads, inside)


def _begun(code: Listing, stores: Collection[int], loads: Collection[int], inside: Collection[int]) -> tuple[int, ...]:
    """The load whose value the next round begins with, and the way from there to a store, where it is no sum."""
    behind = made_of(code, {p for s in stores for r in stored(code, s) for p in code.defuse.producers(s, r)}, inside)
    for load in loads:
        after = _next_round(code, load, inside)
        way = sorted(_made_from(code, after & behind, inside) & behind)
        if any(not _passes(code, i) for i in way):
            return (load, *(i for i in way if i != load))
    return ()


def _kept_in_shared(
    code: Listing, stores: Collection[int], loads: Collection[int], inside: Collection[int]
) -> tuple[int, ...]:
    """A state of the block that each round makes anew from itself (the rows of an alignment, a grid's next step): the
    loads, and what leads from them to the stores. Every store of the round must store such a value, or a steady one:
    one that puts new data there could be what the round's loads find, and then rounds are many states and not one."""
    way = set[int]()
    for store in stores:
        values = {p for r in stored(code, store) for p in code.defuse.producers(store, r)}
        behind = made_of(code, values, inside)
        if not behind.isdisjoint(loads):
            way |= behind
        elif not _steady(code, behind, inside):
            return ()
    taken = _made_from(code, way.intersection(loads), inside) & way
    return tuple(sorted(taken)) if any(i not in loads and not _passes(code, i) for i in taken) else ()


def _steady(code: Listing, made: Collection[int], inside: Collection[int]) -> bool:
    """What the round makes is the same in every round: nothing of it is loaded or handed on from the round before."""
    return all(
        not code.classes[i].access and all(p < i for ps in code.defuse.sources(i).values() for p in ps if p in inside)
        for i in made
    )


def _next_round(code: Listing, load: int, inside: Collection[int]) -> set[int]:
    """What takes a loaded value, moved at most, in the round behind its own."""
    seen, work, out = {load}, [load], set[int]()
    while work:
        i = work.pop()
        for c in code.defuse.consumers(i):
            if c not in inside or c in seen:
                continue
            if c <= load:
                out.add(c)
            elif code[c].opcode in _MOVES:
                seen.add(c)
                work.append(c)
    return out


def _passes(code: Listing, i: int) -> bool:
    return code[i].opcode in _MOVES or code[i].opcode in _SUMS


def _made_from(code: Listing, seeds: set[int], inside: Collection[int]) -> set[int]:
    seen, work = set(seeds), list(seeds)
    while work:
        new = {c for c in code.defuse.consumers(work.pop()) if c in inside} - seen
        seen |= new
        work += new
    return seen


def made_of(code: Listing, seeds: set[int], inside: Collection[int]) -> set[int]:
    """What leads to these, among the instructions `inside`."""
    seen = {s for s in seeds if s in inside}
    work = list(seen)
    while work:
        sources = code.defuse.sources(work.pop()).values()
        new = {p for ps in sources for p in ps if p in inside} - seen
        seen |= new
        work += new
    return seen
