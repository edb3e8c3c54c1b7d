"""Scans and trees of a whole block in shared memory: a round for each halving of the block, barriers between rounds.

Each round loads from a place twice or half as far away as the round before, so there are as many as it takes to halve
the block down to one thread, or to one warp. Shuffles do within a warp what five of the rounds do, and the same once
more over the warps' results does the rest: all instructions of the rounds go, not their trips and barriers alone.

Where each warp of a block has such a tree of shuffles, and shared memory holds nothing but its result, the warps only
meet to put their results together: one warp that takes all values of the block needs one tree, and no barrier."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kscope.features.patterns.dependency_chains import rings
from kscope.features.patterns.exchanges import until
from kscope.features.sass.graph import reached
from kscope.features.sass.listing import Listing
from kscope.isa.families import family
from kscope.model.operand import memory_operand

_SHUFFLES, _BARRIERS = family("lane_shuffle"), family("block_barrier")
_SHIFTS, _PRODUCTS = family("funnel_shift"), family("whole_number_sum")
LANES = 5  # halvings of a warp
SPARED = 1  # halvings that a thread does by itself, on two values, before the first round


def block_trees(code: Listing, threads: int, space: str = "shared") -> frozenset[int]:
    """Executed instructions of the rounds of scans and trees over a block of so many threads, in the memory `space`:
    "shared" or "global"."""
    halvings = math.log2(max(threads, 1))
    loops = code.cfg.loops
    found = {i for n in range(len(loops)) if _looped(code, n, halvings, space) for i in loops[n].instructions}
    found |= _unrolled(code, halvings, space)
    return frozenset(i for i in found if code.executed[i] > 0)


def warp_trees(code: Listing) -> frozenset[int]:
    """Executed shuffles and arithmetic of trees over the lanes of each warp, where all that the code stores to shared
    memory comes from them, by some lanes, and a barrier follows; none where it keeps anything else there, a tile that
    the block needs together."""
    shuffles = _ran(code, code.where(lambda ins, op: ins.opcode in _SHUFFLES))
    far = {o.value for i in shuffles for o in code[i].operands if o.kind == "integer"}
    if not far.issuperset(1 << step for step in range(LANES)):
        return frozenset()
    stores = _ran(code, code.where(lambda ins, op: op.space == "shared" and op.access not in (None, "load")))
    tree = reached(shuffles, lambda i: (j for j in code.defuse.consumers(i) if code.classes[j].access is None))
    if not stores or not _of_the_tree(code, tree, stores):
        return frozenset()
    # The way from the first shuffle to the store: what uses the result behind the barrier is no part of the tree.
    first = shuffles[0]
    return frozenset(i for i in _ran(code, tree) if any(first <= i < s and _beside(code, i, s) for s in stores))


def _of_the_tree(code: Listing, tree: Iterable[int], stores: list[int]) -> bool:
    """Whether all stores are of the tree's results, by some lanes, and a barrier follows."""
    barriers = set(_ran(code, code.where(lambda ins, op: ins.opcode in _BARRIERS)))
    alone = all(code[i].guard is not None and until(code, i, barriers)[1] for i in stores)
    return alone and {j for i in tree for j in code.defuse.consumers(i)}.issuperset(stores)


def _ran(code: Listing, members: Iterable[int]) -> list[int]:
    return [i for i in members if code.executed[i] > 0]


def _beside(code: Listing, index: int, other: int) -> bool:
    return code.cfg.loop_of[index] == code.cfg.loop_of[other]


def _looped(code: Listing, number: int, halvings: float, space: str) -> bool:
    """Whether a loop's rounds exchange values through that memory alone, at a distance that is shifted by one bit
    each round, as often an entry as the block can be halved: a sorting network, which starts over with ever longer
    ways, makes fewer on average, and most of its rounds are not within a warp."""
    cfg, loop = code.cfg, code.cfg.loops[number]
    inside = loop.instructions
    ran = [i for i in inside if code[i].opcode in _BARRIERS and code.executed[i] > 0]
    if not loop.innermost or not ran or not _exchange(code, inside, space):
        return False
    outside = [p for p in cfg.blocks[loop.header].predecessors if p not in loop.blocks]
    entered = sum(code.executed[cfg.blocks[p].end - 1] for p in outside)
    if not entered or code.executed[ran[0]] < (halvings - SPARED) * entered:
        return False
    shifts = [i for i in inside if _by_one(code, i)]
    return any(i in ring for i in shifts for ring in rings(code, inside))


def _unrolled(code: Listing, halvings: float, space: str) -> set[int]:
    """Rounds of straight code: from each barrier to the next one value is kept and one loaded from a fixed distance,
    and the distances are each twice the one before, from the block's down to the warp's at least."""
    barriers = {i for i in range(len(code)) if code[i].opcode in _BARRIERS and code.executed[i] > 0}
    rounds: dict[int, set[int]] = {}
    for b in barriers:
        passed = until(code, b, barriers)[0]
        if _exchange(code, passed, space) and (far := _distance(code, passed, space)):
            rounds.setdefault(far, set()).update({b, *passed})
    chain: set[int] = set()
    for start in rounds:
        steps = [start]
        while 2 * steps[-1] in rounds:
            steps.append(2 * steps[-1])
        if len(steps) >= max(2.0, halvings - LANES):
            chain.update(*(rounds[far] for far in steps))
    return chain


def _exchange(code: Listing, members: tuple[int, ...] | set[int], space: str) -> bool:
    """Whether these instructions load from and store to that memory, and nowhere else."""
    kinds = {(code.classes[i].space, code.classes[i].access) for i in members if code.classes[i].access is not None}
    kinds = {kind for kind in kinds if kind[0] != "constant"}
    return kinds == {(space, "load"), (space, "store")}


def _distance(code: Listing, members: set[int], space: str) -> int:
    """Bytes between where these instructions store and the other place that they load from; 0 unless it is fixed. Of
    several arrays (a value and where it stood) that with the smallest elements."""
    places: dict[str, set[tuple[tuple[int, ...], int]]] = {"load": set(), "store": set()}
    for i in members:
        where = memory_operand(code[i].operands) if code.classes[i].space == space else None
        if where is not None:
            places[str(code.classes[i].access)].add((tuple(b.register for b in where.bases), where.value))
    apart = {
        abs(value - kept) for base, value in places["load"] for same, kept in places["store"]
        if base == same and value != kept
    }  # fmt: skip
    return min(apart, default=0) if all(far % min(apart) == 0 for far in apart) else 0


def _by_one(code: Listing, index: int) -> bool:
    """A value doubled or halved."""
    ins = code[index]
    by = 1 if ins.opcode in _SHIFTS else 2 if ins.opcode in _PRODUCTS and "SHL" in ins.mods else None
    return by is not None and any(o.equals(by) for o in ins.operands)
