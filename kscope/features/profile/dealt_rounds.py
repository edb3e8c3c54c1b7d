"""Loops whose rounds a block deals out to its threads: `for (i = threadIdx.x; i < n; i += blockDim.x)`. More threads a
block need fewer rounds of them, whatever surrounds them: a chain that only one block can walk included.

A loop that goes from tile to tile has the same counter, but its threads meet in each round and then walk the whole
tile: a barrier of its own tells it from the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.values import Lanes
from kscope.features.patterns.loop_parallelism import trips
from kscope.features.sass.listing import Listing, once_per_code
from kscope.features.sass.warp_simulation import Walk
from kscope.isa.families import family

UNROLLED = (1, 2, 4, 8)  # rounds that the compiler makes one
_SUMS = family("whole_number_sum")


@once_per_code
def dealt(code: Listing, block: tuple[int, ...]) -> dict[int, float]:
    """Rounds, by loop (number in the flow graph), of the loops that are dealt out; block: its shape (x, y, z)."""
    lanes = Lanes(code, Assumption(1, (block[0], block[1], block[2])))
    sizes = {n * u for n in (block[0], block[0] * block[1] * block[2]) for u in UNROLLED}
    out = {}
    for number in range(len(code.cfg.loops)):
        body = code.ran(code.cfg.loop_body(number))
        if any("barrier" in code.classes[i].kind for i in body):
            continue
        if any(_deals(code, lanes, i, r, sizes) for i, r in _counters(code, body)):
            out[number] = trips(code, number)
    return out


def _counters(code: Listing, body: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Additions of a loop to their own results, with the register of these."""
    for i in body:
        if code[i].opcode in _SUMS and code[i].guard is None:
            for register, producers in code.defuse.sources(i).items():
                if i in producers and register in code[i].defs:
                    yield i, register


def _deals(code: Listing, lanes: Lanes, index: int, register: int, sizes: set[int]) -> bool:
    """A counter or pointer that starts one step apart in neighbouring lanes and goes on by a block of steps; or one
    that is the same for all, to which each lane then adds its own number."""
    others = (lanes.anew().source(index, o) for o in code[index].operands[1:] if register not in o.mentioned)
    steps = {v for v in others if isinstance(v, int)}
    for p in code.defuse.producers(index, register):
        start = lanes.anew().made(p, register) if p != index else None
        if isinstance(start, tuple):
            return start[1] > start[0] and not steps.isdisjoint((start[1] - start[0]) * size for size in sizes)
    consumers = code.defuse.consumers(index) if not steps.isdisjoint(sizes) else ()
    return any(_adds_lane(code, lanes.anew(), c, register) for c in consumers)


def _adds_lane(code: Listing, lanes: Lanes, index: int, register: int) -> bool:
    """An addition of a counter and a value that counts the lanes."""
    ins = code[index]
    if ins.opcode not in _SUMS:
        return False
    others = (lanes.source(index, o) for o in ins.operands[1:] if register not in o.mentioned)
    return any(isinstance(v, tuple) and v[1] - v[0] == 1 for v in others)


def left_with(code: Listing, walk: Walk, rounds: dict[int, float], factor: float) -> float:
    """Share of one thread's path that is left when a block has `factor` times the threads (0..1)."""
    cfg = code.cfg
    left = every = 0.0
    for b, cycles in enumerate(walk.block_cycles):
        start = cfg.blocks[b].start
        spent = cycles * code.executed[start]
        can = 1.0
        for number in cfg.loops_around(start):
            can *= rounds.get(number, 1.0)
        every += spent
        left += spent / max(1.0, min(factor, can))
    return left / every if every else 1.0
