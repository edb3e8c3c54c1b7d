"""Blocks that work on an item each of which every thread has one element, in no loop: a row of as many elements as the
block has threads, joined across the block (a sum, a maximum) and handed back to all of them. What block_items finds of
items that a loop deals out, found here of these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from kscope.features.profile.code import Code
from kscope.features.sass.slices import stored
from kscope.isa.families import family

_LANES = 32
_STEPS = family("tree_step")
_SHUFFLES = _STEPS - family("block_barrier")


def joined(code: Code) -> bool:
    """Whether threads of a block join what they have: lanes by shuffles, warps behind a barrier through shared memory.
    Neighbours that hand values on (a scan: SHFL.UP) or share a tile are another matter."""
    ran = code.ran(range(len(code)))
    shuffled = [i for i in ran if code[i].opcode in _SHUFFLES]
    up = any("UP" in code[i].mods for i in shuffled)
    return bool(shuffled) and not up and any("barrier" in code.classes[i].kind for i in ran)


def dealt(code: Code, own: Iterable[int]) -> set[int]:
    """What runs once an element: its accesses, and what is computed of them up to where threads join; what a joined
    value is used for beside the element's own counts as the element's."""
    steps = {i for i in code.ran(range(len(code))) if code[i].opcode in _STEPS or code.classes[i].space == "shared"}
    steps |= {c for i in steps if code[i].opcode in _SHUFFLES for c in code.defuse.consumers(i)}
    found, work = set(own), [i for i in own if code.classes[i].access == "load"]
    while work:
        new = {c for c in code.defuse.consumers(work.pop()) if c not in found and c not in steps}
        found |= new
        work += new
    return {i for i in found if code.executed[i] > 0}


def handed_back(code: Code, own: Iterable[int], dealt: Collection[int]) -> bool:
    """Whether each thread stores something of its element: what it stores is computed of what it loaded, not handed on
    by other lanes (a sort, a scan). Blocks that store one sum have no row: their piece of the data is any."""
    stores = [i for i in own if code.classes[i].access == "store"]
    values = ({p for r in stored(code, i) for p in code.defuse.sources(i).get(r, ())} for i in stores)
    return bool(stores) and all(not made.isdisjoint(dealt) for made in values)


def elements(code: Code, own: Iterable[int], threads: int, warps: int, straight: Callable[[int], bool]) -> float:
    """Elements of an item: lanes that load one, a block; 0 where a thread loads one in a loop."""
    loads = [i for i in own if code.classes[i].access == "load"]
    if not loads or not all(straight(i) for i in own):
        return 0.0
    return max(float(code.threads[i]) for i in loads) * threads / (warps * _LANES)
