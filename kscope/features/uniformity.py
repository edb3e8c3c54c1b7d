"""Integer work of the vector pipes whose result is the same in all lanes of every warp."""

from __future__ import annotations

from kscope.features.lanes import Assumption, Lanes, block_shapes
from kscope.features.listing import Listing
from kscope.model.program import PREDICATE_BASE, UNIFORM_BASE

SEEDS = (1, 2)
_TID = frozenset({"SR_TID.X", "SR_TID.Y", "SR_TID.Z", "SR_TID"})


def warp_uniform(code: Listing) -> tuple[list[int], list[int]]:
    """(vector integer instructions inside loops that depend on the thread index and yet give all lanes of a warp the
    same number, the instructions where such values are made from the thread index).

    The typical one is the warp number, threadIdx.x / 32: the compiler cannot know that it is uniform, so that all
    addresses made of it stay in vector registers.
    """
    shapes = block_shapes(code, None)
    if len(shapes) > 1:
        return [], []  # with rows of unknown length nothing is certain
    worlds = [Lanes(code, Assumption(seed, shapes[0], strict=True)) for seed in SEEDS]
    tainted = _from_thread_index(code)
    found: list[int] = []
    roots: list[int] = []
    for i in sorted(tainted):
        ins, op = code[i], code.classes[i]
        vector = ins.guard is None and ins.defs and ins.defs[0] < UNIFORM_BASE
        if not vector or not op.kind & {"int", "int_mul"} or code.executed[i] <= 0:
            continue
        if not all(isinstance(w.made(i, ins.defs[0]), int) for w in worlds):
            continue
        sources = {r: code.defuse.producers(i, r) for r in ins.uses if r < PREDICATE_BASE}
        varying = any(not isinstance(w.read(i, r), int) for w in worlds for r in sources if r < UNIFORM_BASE)
        (roots if varying else found).append(i)
    inside = [i for i in found if code.cfg.depth[i] > 0]
    return inside, roots if inside else []


def _from_thread_index(code: Listing) -> set[int]:
    """Instructions that a value of the thread index reaches over def-use, loads left aside."""
    work = [i for i, ins in enumerate(code.program.instructions) if ins.operands and ins.operands[-1] in _TID]
    seen: set[int] = set()
    while work:
        i = work.pop()
        if i not in seen and code.classes[i].access is None:
            seen.add(i)
            work += code.defuse.consumers(i)
    return seen
