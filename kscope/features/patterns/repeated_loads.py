"""Loads that fetch in each round of a loop what they fetched in the round before: their addresses follow from nothing
that the loop changes, and nothing in it writes there.

The address is followed back over def-use. A value that enters the loop from before it and is made in it as well (its
counter, a pointer that goes on) is another one in each round; what an inner loop starts anew each time (its own counter
from zero) runs through the same values. So the loads of an inner loop can be steady in the loop around it.
"""

from __future__ import annotations

from msgspec import Struct

from kscope.features.patterns.loop_parallelism import shareable, trips
from kscope.features.sass import slices
from kscope.features.sass.backward_slices import LIMIT
from kscope.features.sass.listing import Listing
from kscope.isa.families import family

SPACES = ("global", "generic")
_WRITING = frozenset({"store", "atomic", "reduction", "async_copy"})


class Repeated(Struct, frozen=True):
    """`loop`: number of the loop that repeats the loads; `rounds`: of it each time that it is entered; `words`: 4-byte
    words that a lane loads in one of them; `uses`: instructions that each loaded word goes to; `apart`: rounds do not
    need each other, several can be done at once; `differs`: loaded values meet another thing in each round (a loop
    whose rounds are all the same only repeats itself)."""

    loop: int
    loads: tuple[int, ...]
    rounds: float
    words: float
    uses: float
    apart: bool
    differs: bool


def repeated_loads(code: Listing) -> list[Repeated]:
    """By the innermost loop that repeats them, those executed most first; executed loads of global memory alone."""
    found: dict[int, list[int]] = {}
    loads = code.where(lambda ins, op: op.space in SPACES and op.access == "load" and "STRONG" not in ins.mods)
    for i in code.ran(loads):
        for loop in code.cfg.loops_around(i):
            if _steady(code, i, loop):
                if not _written(code, i, loop):
                    found.setdefault(loop, []).append(i)
                break
    out = [_repeated(code, loop, tuple(members)) for loop, members in found.items()]
    return sorted((r for r in out if r.rounds >= 2), key=lambda r: -sum(code.executed[i] for i in r.loads))


def _repeated(code: Listing, loop: int, loads: tuple[int, ...]) -> Repeated:
    header = code.cfg.blocks[code.cfg.loops[loop].header].start
    words = sum(code.executed[i] * max(code.classes[i].bytes, 4) / 4 for i in loads) / max(1.0, code.executed[header])
    uses = sum(len(code.defuse.consumers(i)) * 4 / max(code.classes[i].bytes, 4) for i in loads) / len(loads)
    return Repeated(
        loop, loads, trips(code, loop), words, uses, shareable(code, loop), _differs(code, loop, set(loads))
    )


def _differs(code: Listing, loop: int, loads: set[int]) -> bool:
    """What loaded values meet is another thing in each round; sums that they go into, and places in memory that the
    loop adds them to, are not meant."""
    inside = set(code.cfg.loops[loop].instructions)
    users = {c for load in loads for c in code.defuse.consumers(load) if c in inside}
    met = {p for c in users for ps in code.defuse.sources(c).values() for p in ps if p in inside}
    for p in met - users - loads:
        kept = code.classes[p].access == "load" and _written(code, p, loop)
        if not kept and (not _steady(code, p, loop) or _counted(code, p)):
            return True
    return False


def _counted(code: Listing, index: int) -> bool:
    """The instruction is what carries a value from round to round itself: a counter."""
    return index in {p for ps in code.defuse.sources(index).values() for p in ps}


def _steady(code: Listing, load: int, loop: int) -> bool:
    """The load's address is the same in each round of the loop; False where its slice is too large to tell."""
    inside = set(code.cfg.loops[loop].instructions)
    seen = {load}
    work = [load]
    while work:
        i = work.pop()
        for producers in code.defuse.sources(i).values():
            within = [p for p in producers if p in inside]
            if within and len(within) < len(producers):
                return False  # made before the loop and in it: carried from round to round
            for p in within:
                op = code.classes[p]
                if code[p].opcode in family("other_value") or op.access == "atomic" or "STRONG" in code[p].mods:
                    return False
                if op.access == "load" and op.space != "constant" and op.space not in SPACES:
                    return False  # shared or local memory: refilled meanwhile
                if op.access == "load" and op.space in SPACES and _written(code, p, loop):
                    return False
                if p not in seen:
                    seen.add(p)
                    work.append(p)
        if len(seen) > LIMIT:
            return False
    return True


def _written(code: Listing, load: int, loop: int) -> bool:
    """The loop may write what is loaded: it stores through the same pointer, or one that nobody knows. What is loaded
    as constant (LDG.CONSTANT: `__restrict__ const`), nobody writes."""
    if "CONSTANT" in code[load].mods:
        return False
    mine = slices.pointer(code, load)
    for i in code.cfg.loops[loop].instructions:
        if code.classes[i].access in _WRITING and code.classes[i].space in SPACES and code.executed[i] > 0:
            other = slices.pointer(code, i)
            if mine is None or other is None or mine == other:
                return True
    return False
