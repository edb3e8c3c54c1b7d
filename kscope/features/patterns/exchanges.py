"""Exchanges through shared memory in which data say where each value goes: no shuffle and no fewer barriers do them.

A scan or a reduction moves values to places that are known when the code is written: within a warp shuffles do the
same. A scatter (the ranks of a sort, the slots of a partition) goes to any thread of the block: it needs a store, a
barrier, a load, and a barrier before the next one, however the ranks came about."""

from __future__ import annotations

from collections.abc import Collection

from kscope.features.sass.listing import Listing
from kscope.features.sass.slices import gathers


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
