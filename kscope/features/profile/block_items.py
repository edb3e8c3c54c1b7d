"""Blocks that work on an item each, and deal its elements out to their threads: how many threads an item has use for.

A block walks its row with `for (i = threadIdx.x; i < n; i += blockDim.x)` and joins the results. How many elements an
item has shows in the lanes that run the loop. Threads beyond n have none, those of the last, partial round stand idle,
and all of them pay what is paid once a thread: indices, parameters, their part of the reduction. Fewer threads an item
leave the elements' own work as it is and all that is paid once a thread shrinks with them.

Threads are of no other use only where nothing else is dealt out to them: every access at an address of the thread's own
in global memory lies in such a loop or reads what such a loop reads (rounds that the compiler peeled off), shared
memory is met on the way through barriers and shuffles, and no other loop computes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from kscope.features.counters.units import Demand
from kscope.features.patterns.loop_parallelism import trips
from kscope.features.profile import demands, own_elements
from kscope.features.profile.code import Code
from kscope.features.profile.dealt_rounds import dealt
from kscope.features.sass.columns import total
from kscope.features.sass.slices import address_origins, alike, pointer
from kscope.features.sass.warp_simulation import Walk
from kscope.isa.families import family

LANES = 32
ALL = 0.99  # of the warps, from which an instruction is paid by all of them
ONCE = 1.1  # rounds, below which a loop is one over a grid that is as large as its work
NEGLIGIBLE = 0.03  # of all instructions, up to which a loop that is not dealt out is no work
_STEPS = family("tree_step")


class Items(Struct, frozen=True):
    """`elements` of an item, `threads` that it has now; `dealt`: instructions that run once an element (by warps),
    `once`: those that each thread of the block runs whatever it gets, `few`: those of one warp or thread a block;
    `joins`: of `once` and `few`, what joins the threads' results; `path`: share of a thread's way that is dealt out;
    `bytes`: of the widest element."""

    elements: float
    threads: int
    dealt: tuple[int, ...]
    once: tuple[int, ...]
    few: tuple[int, ...]
    joins: tuple[int, ...]
    path: float
    bytes: int

    def rounds(self, threads: int) -> int:
        """Rounds of the thread with most elements."""
        return max(1, math.ceil(self.elements / threads - 0.05))

    def used(self, threads: int) -> float:
        """Share of the threads' rounds that have an element, 0..1."""
        return min(1.0, self.elements / (self.rounds(threads) * threads))

    def longer(self, threads: int) -> float:
        """A thread's way with so many threads an item, over now."""
        return 1 + self.path * (self.rounds(threads) / self.rounds(self.threads) - 1)


def items(code: Code, block: tuple[int, ...], warps: int, walk: Walk | None) -> Items | None:
    """block: its shape; warps: of the launch. None where blocks deal nothing out, or not only that."""
    threads = block[0]
    if not warps or walk is None or threads <= LANES or block[1] * block[2] > 1 or not any(code.threads):
        return None
    loops = [n for n in dealt(code, block) if code.executed[_header(code, n)]]
    own = _own(code)
    if own is None:
        return None
    if not loops:
        return _one_each(code, own, threads, warps)
    inside = {i for n in loops for i in code.cfg.loops[n].instructions}
    peeled = _peeled(code, inside, own)
    if own - inside - peeled or _works_beside(code, inside):
        return None
    elements = max(_elements(code, n, threads, warps) for n in loops)
    spread = inside.union(*(_block(code, p) for p in peeled))
    once, few = _paid(code, spread, warps)
    return Items(
        elements, threads, tuple(i for i in code.ran(range(len(code))) if i in spread), once, few,
        _joins(code, inside), _share(code, walk, inside), max(code.classes[i].bytes for i in own),
    )  # fmt: skip


def _one_each(code: Code, own: set[int], threads: int, warps: int) -> Items | None:
    """Every thread has one element, in no loop, and the block joins them."""
    if not own_elements.joined(code) or _works_beside(code, set()):
        return None
    elements = own_elements.elements(
        code, own, threads, warps, lambda i: all(trips(code, n) < ONCE for n in code.cfg.loops_around(i))
    )
    spread = own_elements.dealt(code, own)
    if not elements or not own_elements.handed_back(code, own, spread):
        return None
    once, few = _paid(code, spread, warps)
    ran = code.ran(range(len(code)))
    return Items(
        elements, threads, tuple(sorted(spread)), once, few, _joins(code, spread),
        len(spread) / len(ran), max(code.classes[i].bytes for i in own),
    )  # fmt: skip


def _peeled(code: Code, inside: set[int], own: set[int]) -> set[int]:
    """Loads before the loops of what these read: rounds that the compiler peeled off."""
    read = {pointer(code, i) for i in inside & own} - {None}
    return {i for i in own - inside if pointer(code, i) in read and code.classes[i].access == "load"}


def _paid(code: Code, spread: set[int], warps: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What runs outside the loops dealt out: in all warps, in few."""
    rest = [i for i in code.ran(range(len(code))) if i not in spread]
    few = {i for i in rest if code.executed[i] < ALL * _context(code, code.cfg.loop_of[i], warps)}
    return tuple(i for i in rest if i not in few), tuple(i for i in rest if i in few)


def left(code: Code, work: Items, threads: int, *, joined: bool = True, wide: float = 1.0) -> dict[Demand, float]:
    """Factors on the demands inside the SM with so many threads an item, whose lanes fill their warps. joined: False
    where one thread has all of an item, and joins nothing; wide: share of the elements' instructions that wider loads
    leave."""
    share, part = threads / work.threads, min(1.0, threads / LANES)
    warps = math.ceil(work.elements / LANES)  # that run the loop, each round of theirs counted
    rounds = work.rounds(threads) * threads / LANES / max(1, warps)
    gone = set() if joined else set(work.joins)
    parts: tuple[tuple[Iterable[int], float], ...] = (
        (work.dealt, wide * min(1.0, max(rounds, part))),
        ([i for i in work.once if i not in gone], share),
        ([i for i in work.few if i not in gone], part),
        (gone, 0.0),
    )
    scale = dict[Demand, float]()
    for members, kept in parts:
        for demand, factor in demands.left(code, members, kept).items():
            scale[demand] = scale.get(demand, 1.0) + factor - 1
    return {demand: max(0.0, factor) for demand, factor in scale.items()}


def _own(code: Code) -> set[int] | None:
    """Accesses to global memory at an address of the thread's own; None where one cannot be told."""
    touching = code.ran(code.where(lambda ins, op: op.access is not None and op.space in ("global", "generic")))
    found = {i: address_origins(code, i) for i in touching}
    if any(origins is None for origins in found.values()):
        return None
    return {i for i, origins in found.items() if origins and "tid" in origins}


def _works_beside(code: Code, inside: set[int]) -> bool:
    """A loop that is neither dealt out, nor around one that is, nor joins results, and takes instructions. What all
    threads of the block do alike (a search for the item's row) is paid once a thread, and is none."""
    for loop in code.cfg.loops:
        body = code.ran(loop.instructions)
        if not inside.isdisjoint(body) or any(code[i].opcode in _STEPS for i in body) or alike(code, body):
            continue
        if code.issue_share(body) > NEGLIGIBLE:
            return True
    return False


def _elements(code: Code, number: int, threads: int, warps: int) -> float:
    """Elements that a loop deals out each time that the block comes to it, on average."""
    header, loop = _header(code, number), code.cfg.loops[number]
    rounds = trips(code, number)
    entered = code.executed[header] / rounds
    context = _context(code, loop.parent, warps)
    if rounds > 1.01 or _skipped_together(code, number, entered, context):
        context = entered
    times = context * LANES / threads
    loads = dict[str | None, int]()
    for i in loop.instructions:
        op, origins = code.classes[i], address_origins(code, i)
        if op.access in ("load", "async_copy") and op.space == "global" and origins and "tid" in origins:
            loads[pointer(code, i)] = loads.get(pointer(code, i), 0) + 1
    unrolled = min(loads.values(), default=1)
    return code.threads[header] * unrolled / times if times else 0.0


def _skipped_together(code: Code, number: int, entered: float, context: float) -> bool:
    """Whether the warps that do not come to a loop are turned away by what is the same for all threads: then those
    that come are whole blocks."""
    parent, header = code.cfg.loops[number].parent, _header(code, number)
    for block in code.cfg.blocks:
        last = block.end - 1
        if last >= header or code.cfg.loop_of[last] != parent or code[last].guard is None:
            continue
        onward = [code.executed[code.cfg.blocks[s].start] for s in block.successors]
        parts = len(onward) > 1 and max(onward) < ALL * code.executed[last]
        if parts and entered < ALL * code.executed[last] <= context:
            names = code.slices.names([last])
            if names is None or "tid" not in names:
                return True
    return False


def _context(code: Code, loop: int | None, warps: int) -> float:
    """How often all warps come to the inside of a loop, or to the kernel."""
    return float(warps) if loop is None else float(code.executed[_header(code, loop)])


def _header(code: Code, number: int) -> int:
    return code.cfg.blocks[code.cfg.loops[number].header].start


def _block(code: Code, index: int) -> range:
    block = code.cfg.blocks[code.cfg.block_of[index]]
    return range(block.start, block.end)


def _joins(code: Code, inside: set[int]) -> tuple[int, ...]:
    """Shuffles, barriers and shared memory outside the loops, with the values that they alone bring."""
    from kscope.features.patterns.slicing import dying

    steps = code.where(lambda ins, op: ins.opcode in _STEPS or op.space == "shared")
    return tuple(i for i in dying(code, tuple(i for i in code.ran(steps) if i not in inside)) if i not in inside)


def _share(code: Code, walk: Walk, inside: set[int]) -> float:
    """Share of one thread's path that is dealt out."""
    cycles = [c * code.executed[b.start] for b, c in zip(code.cfg.blocks, walk.block_cycles, strict=True)]
    every = sum(cycles)
    mine = total(cycles, [n for n, b in enumerate(code.cfg.blocks) if b.start in inside])
    return mine / every if every else 0.0
