"""Values that a loop keeps in memory although nobody but the thread needs them before it ends: a store to the same
place in every round, or behind each term of a sum that is written out. What may alias it must wait for it: no load of
the loop can be issued before."""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from kscope.features.sass.listing import Listing
from kscope.features.sass.slices import stored
from kscope.model.operand import Operand, memory_operand

SPACES = ("shared", "global", "generic")
TERMS = 3  # stores to one place, from which they are those of a sum: two may be a value and its correction (judged)


class Kept(Struct, frozen=True):
    """`loop`: number in the flow graph; `stores` to a place that stays the same, `loads` of such a place; `others`:
    loads of the same space in that loop, which must keep their order with the stores; `rounds`: of the source's loop in
    one pass of this one, as often as it stores to one place. `written_out`: the terms of one sum, of which the store of
    the last one stays and is not listed; `loop` is -1 where these are in none."""

    loop: int
    space: str
    stores: tuple[int, ...]
    loads: tuple[int, ...]
    others: tuple[int, ...]
    rounds: int
    written_out: bool = False


def kept_in_memory(code: Listing) -> list[Kept]:
    """The innermost loops that store to a steady place in each round, those that execute most stores first. Loops with
    a barrier or a strong access hand values to other threads and are left aside."""
    out = []
    for number, loop in enumerate(code.cfg.loops):
        if not loop.innermost or not code.executed[loop.instructions[0]]:
            continue
        body = set(loop.instructions)
        if any(_hands_over(code, i) for i in body):
            continue
        out += [kept for space in SPACES if (kept := _in_loop(code, number, space, body)) is not None]
    out += _written_out(code, {i for k in out for i in k.stores})
    return sorted(out, key=lambda k: -sum(code.executed[i] for i in k.stores))


def _written_out(code: Listing, known: set[int]) -> list[Kept]:
    """Sums that are stored behind each of their terms: stores to one place, each of a value that the one before is part
    of, with loads between them."""
    found: dict[tuple[object, ...], list[int]] = {}
    for i in code.ran(code.where(lambda ins, op: op.access == "store" and op.space in ("global", "generic"))):
        if i not in known and memory_operand(code[i].operands) is not None:
            found.setdefault((code.cfg.loop_of[i], place(code, i)), []).append(i)
    out = []
    for stores in found.values():
        terms = [b for a, b in pairwise(stores) if _goes_on(code, a, b)]
        between = range(stores[0], stores[-1])
        if len(terms) + 1 < max(TERMS, len(stores)) or any(_hands_over(code, i) for i in between):
            continue
        space, loop = code.classes[stores[0]].space or "", code.cfg.loop_of[stores[0]]
        loads = [i for i in between if code.classes[i].access == "load" and code.classes[i].space == space]
        if loads:
            number = -1 if loop is None else loop
            out.append(Kept(number, space, tuple(stores[:-1]), (), tuple(code.ran(loads)), len(stores), True))
    return out


def _goes_on(code: Listing, before: int, after: int) -> bool:
    """What the second store writes is made of what the first one wrote."""
    first = {p for r in stored(code, before) for p in code.defuse.producers(before, r)}
    made = {p for r in stored(code, after) for p in code.defuse.producers(after, r)}
    parts = {q for p in made for qs in code.defuse.sources(p).values() for q in qs}
    return not stored(code, before) or not first.isdisjoint(made | parts)


def _in_loop(code: Listing, number: int, space: str, body: set[int]) -> Kept | None:
    mine = [i for i in code.cfg.loops[number].instructions if code.classes[i].space == space]
    stores = [i for i in mine if code.classes[i].access == "store" and code.cfg.every_round(number, i)]
    kept = [i for i in code.ran(stores) if steady(code, i, body) and code[i].guard is None]
    if not any(_carried(code, i, body) for i in kept):
        return None
    places = {place(code, i) for i in kept}
    read = [i for i in mine if code.classes[i].access == "load"]
    same = [i for i in read if place(code, i) in places]
    others = tuple(code.ran(i for i in read if i not in same))
    return Kept(number, space, tuple(kept), tuple(same), others, len(kept) // len(places))


def _hands_over(code: Listing, index: int) -> bool:
    ins, op = code[index], code.classes[index]
    if "barrier" in op.kind or ins.opcode in ("MEMBAR", "SYNCS", "WARPSYNC") or op.access in ("atomic", "reduction"):
        return True
    return op.access is not None and "STRONG" in ins.mods


def steady(code: Listing, index: int, body: set[int]) -> bool:
    """The address is made outside the loop, from the thread's index."""
    operand = memory_operand(code[index].operands)
    if operand is None or not operand.bases:
        return False
    made = {p for r in _address(code, index, operand) for p in code.defuse.producers(index, r)}
    names = code.slices.names(made)
    return bool(made) and made.isdisjoint(body) and names is not None and "tid" in names


def _address(code: Listing, index: int, operand: Operand) -> list[int]:
    """Registers of an address, the second half of a pair with the first."""
    first = [b.register for b in operand.bases]
    return [r for r in code[index].uses if any(r in (b, b + 1) for b in first)]


def place(code: Listing, index: int) -> tuple[object, ...]:
    """Where an access goes that has an address: equal for two of them that go to the same place."""
    operand = memory_operand(code[index].operands)
    assert operand is not None
    made = tuple(sorted(p for r in _address(code, index, operand) for p in code.defuse.producers(index, r)))
    return operand.bases, operand.value, made


def _carried(code: Listing, store: int, body: set[int]) -> bool:
    """What is stored was made in the loop: a sum, a minimum, the last of something."""
    return any(p in body for r in stored(code, store) for p in code.defuse.producers(store, r))
