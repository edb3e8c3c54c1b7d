"""Into how many pieces the work of one thread can fall: what more blocks can share out, and what stays one chain.

A loop without a carried value gives a piece a round. One that carries a sum, a minimum or a linear recurrence
(h = a h + b, whatever a and b) too: pieces are joined behind (Blelloch, "Prefix Sums and Their Applications", 1990),
but where each round stores what is carried so far, the pieces must know what went before, and the loads run twice. A
loop that carries anything else (a pointer that is loaded, z = z^2 + c, max(a + x, b), a shuffle) runs its rounds one
after the other, however many threads there are; so does one that ends where the data of a round says (a walk over a
tree, an iteration until it converges), for nobody knows of a round before the one before it has run.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from msgspec import Struct

from kscope.features.patterns.dependency_chains import rings
from kscope.features.sass import slices
from kscope.features.sass.listing import Listing, once_per_code
from kscope.features.sass.slices import stored
from kscope.features.sass.warp_simulation import Walk
from kscope.isa.families import family
from kscope.model.operand import UNIFORM_BASE, memory_operand

LIMIT = 400  # instructions behind a test, from which what it depends on is called unknown
INDEX = 8  # integer instructions up to which a ring without loaded data is a counter, a pointer or a stage's phase
_SUMS = family("sum")
_PRODUCTS = family("product")
_CHOICES = family("choice")
_MOVES = family("passes_on")
_OWN = frozenset({"x", "y", "z", "tid", "load"})  # what the address of a counter that all share does not depend on
_QUEUE = family("global_count")
_INTEGER = frozenset({"int", "int_mul", "move", "predicate", "vote"})


class Pieces(Struct, frozen=True):
    """Shares of the thread's unloaded path by the pieces that it can fall into: `parts` holds (share, pieces), the
    shares sum up to 1. `serial`: instructions of the heaviest ring that cannot be divided, none if there is none.
    `twice`: the loads must run a second time, for what is carried is stored on the way."""

    parts: tuple[tuple[float, float], ...]
    serial: tuple[int, ...]
    twice: bool

    @property
    def most(self) -> float:
        """Threads that can share the work of one, until what cannot be divided is all that is left."""
        return 1 / max(self.left(math.inf), 1e-9)

    def left(self, factor: float) -> float:
        """Share of the path that is left when `factor` times the threads share the work."""
        return sum(share / max(1.0, min(factor, pieces)) for share, pieces in self.parts)


def pieces(code: Listing, walk: Walk) -> Pieces:
    """Pieces of the work of one thread, from its loops (outermost first), what they carry, and how often they ran."""
    cfg = code.cfg
    carried = [_carried(code, number) for number in range(len(cfg.loops))]
    serial = {n: bad for n, (bad, _) in enumerate(carried) if bad}
    parts: dict[float, float] = {}
    in_loop: dict[int, float] = {}
    rounds: dict[int, float] = {}
    for b, cycles in enumerate(walk.block_cycles):
        block = cfg.blocks[b]
        spent = cycles * code.executed[block.start]
        can = 1.0
        for number in reversed(cfg.loops_around(block.start)):
            if number in serial:
                in_loop[number] = in_loop.get(number, 0.0) + spent
                break
            if number not in rounds:
                rounds[number] = _rounds(code, number)
            can *= rounds[number]
        parts[can] = parts.get(can, 0.0) + spent
    every = sum(parts.values())
    worst = max(in_loop, key=lambda n: in_loop[n], default=None)
    return Pieces(
        tuple((spent / every, can) for can, spent in sorted(parts.items())) if every else ((1.0, 1.0),),
        serial[worst] if worst is not None else (),
        any(stores for n, (bad, stores) in enumerate(carried) if not bad and n not in serial),
    )


def shareable(code: Listing, number: int) -> bool:
    """Whether the rounds of a loop can be divided among threads."""
    return not chained(code, number)


def chained(code: Listing, number: int) -> tuple[int, ...]:
    """The instructions of a loop that make its rounds one chain; empty where rounds can be divided."""
    return _carried(code, number)[0]


def _rounds(code: Listing, number: int) -> float:
    """Independent items of a loop each time it is entered: rounds, times the loads of one from one array, for it may
    be unrolled."""
    loads: dict[str | None, int] = {}
    for i in code.cfg.loop_body(number):
        if code.classes[i].access in ("load", "async_copy"):
            array = slices.pointer(code, i)
            loads[array] = loads.get(array, 0) + 1 if array is not None else 1
    return trips(code, number) * max(loads.values(), default=1)


def trips(code: Listing, number: int) -> float:
    """Rounds of a loop each time that it is entered, by executions; 1 where it never ran."""
    cfg = code.cfg
    loop = cfg.loops[number]
    header = cfg.blocks[loop.header]
    times = code.executed[header.start]
    entered = sum(code.executed[cfg.blocks[p].start] for p in header.predecessors if p not in loop.blocks)
    entered = min(entered, times) or times
    return max(1.0, times / entered) if times else 1.0


@once_per_code  # of a loop for itself, and for the loops around it
def _carried(code: Listing, number: int) -> tuple[tuple[int, ...], bool]:
    """The largest ring that a loop carries and nobody can divide, and whether a value that is carried and can be
    divided is stored in each round."""
    loop = code.cfg.loops[number]
    inside = {i for i in loop.instructions if code.executed[i] > 0}
    bad: tuple[int, ...] = ()
    sums = set[int]()
    stores = False
    written = {
        p for i in inside if code.classes[i].access == "store" and code.classes[i].space in ("global", "generic")
        for r in stored(code, i) for p in code.defuse.producers(i, r)
    }  # fmt: skip
    for ring in rings(code, inside, lambda p, c: _stale(code, p, c)):
        members = set(ring)
        if _renewed(code, number, members, inside) or _index(code, members, inside):
            continue
        if not _divisible(code, members):
            bad = max(bad, ring, key=len)
            continue
        if any("fp32" in code.classes[i].kind or code.classes[i].pipe in ("fp64", "fp16") for i in members):
            sums |= members
        if members & written:
            stores = True
    return bad or _ends_by_data(code, number, inside, sums), stores


def _ends_by_data(code: Listing, number: int, inside: set[int], sums: set[int]) -> tuple[int, ...]:
    """The branch out of a loop that its data decide: what it loads, or rounds of an inner loop that are one chain.
    Empty where rounds are counted, or a sum of numbers decides (`sums`), which a scan finds."""
    cfg = code.cfg
    blocks = cfg.loops[number].blocks
    for b in blocks:
        last = cfg.blocks[b].end - 1
        leaves = any(s not in blocks for s in cfg.blocks[b].successors)
        if not leaves or last not in inside or code[last].guard is None:
            continue
        seen = {last}
        work = [last]
        while work and len(seen) < LIMIT:
            i = work.pop()
            before = {p for ps in code.defuse.sources(i).values() for p in ps if p in inside}
            if code.classes[i].access in ("load", "atomic") and before:
                if _drawn(code, i, inside):
                    continue
                return (last,)
            inner = cfg.loop_of[i]
            if inner is not None and inner != number and _carried(code, inner)[0]:
                return (last,)
            work += before - seen - sums
            seen |= before
    return ()


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


def _divisible(code: Listing, ring: set[int]) -> bool:
    """Sums alone, choices (minimum, maximum, the better of two) alone, or a linear recurrence."""
    able = [i for i in ring if not _moves(code, i)]
    if all("tensor" in code.classes[i].kind or code.classes[i].pipe == "tensor" for i in able):
        return True
    if any(code.classes[i].access is not None for i in able):
        return False
    if all(code[i].opcode in _CHOICES for i in able):
        return True
    if any(_quotient(code, i) for i in able):
        return False
    return all(code[i].opcode in _SUMS | _PRODUCTS and _linear(code, i, ring) for i in able)


def _quotient(code: Listing, i: int) -> bool:
    """The upper half of a product: a quotient, which is neither a counter nor the sum of its parts' quotients."""
    return "HI" in code[i].mods and code[i].opcode in _PRODUCTS


def _moves(code: Listing, i: int) -> bool:
    ins = code[i]
    return ins.opcode in _MOVES or (ins.opcode == "IMAD" and "MOV" in ins.mods)


def _linear(code: Listing, i: int, ring: Collection[int]) -> bool:
    """No product of two carried values."""
    ins = code[i]
    if ins.opcode not in _PRODUCTS:
        return True
    mine = {r for r, producers in code.defuse.sources(i).items() if any(p in ring for p in producers)}
    factors = ins.operands[1:3]
    return sum(any(r in mine for r in o.mentioned if r < UNIFORM_BASE) for o in factors) < 2
