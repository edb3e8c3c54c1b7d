"""Threads that store an element of under 16 bytes and end: what 16 bytes of elements a thread would save (MEM102)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from kscope.features.facts import SECTORS, WIDE, Code, Facts, total
from kscope.rules._shared.paid_once import of_a_warp
from kscope.rules._shared.windows import blocking

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Estimate

WORD = 4  # bytes: lanes side by side fill their sectors with it, so that only what a thread does once is saved
ONCE = 1.1  # rounds, below which a loop is one over a grid that is as large as its work
FEW = 0.1  # of the threads, up to which it is what a block does once (judged)
PICKED = 0.75  # of the threads, below which a test of data says whose element is moved: what it moves lies apart then
PICKS = ("PRMT", "HADD2")  # read the byte or half of a register that they name, as conversions do


def coarsened(facts: Facts, code: Code, members: list[int], ratio: float) -> Estimate | None:
    """Where a thread stores one element and ends: with 16 bytes of elements a thread, only the arithmetic behind the
    stored values stays; what a thread does once, and waits for, shrinks with the threads. None for other kernels."""
    stores = [i for i in members if code.classes[i].access == "store" and straight(facts, code, i)]
    times = _elements(facts, code, stores)
    if times < 2:
        return None
    element = {*facts.patterns.values_of(stores), *_by_data(code), *_fetched_at(code)}
    values = _values_behind(code, [*stores, *element])
    loads = _narrow_loads(code) & values  # each leaves an instruction that takes its element out of a register
    moved = {*members, *loads}
    once = [i for i in range(len(code)) if code.executed[i] > 0 and i not in moved and i not in element]
    kept, wide = facts.profile.demands_after(once, 1 / times), facts.profile.demands_after(sorted(moved), ratio)
    scale = {d: max(0.0, kept.get(d, 1.0) + wide.get(d, 1.0) - 1) for d in kept.keys() | wide.keys()}
    scale["blocks"] = 1 / times
    scale["instructions"] = 1 - code.issue_share([*once, *stores]) * (1 - 1 / times)
    scale["alu"] = scale.get("alu", 1.0) + _taken_out(code, loads)
    scale |= {"l2_requests": min(1.0, max(1 / times, max(code.classes[i].bytes for i in stores) / WORD))}
    working = total(code.samples, sorted(element)) / max(1.0, total(code.samples))
    waited = code.blamed_share(code.where(lambda ins, op: op.access is not None))
    return facts.estimate.relieve(min(1.0, max(waited, 1 - working)), 1 / times, scale, latency=1 / times)


def _by_data(code: Code) -> set[int]:
    """What loaded data reach, though the stored value may not follow from it but by a branch: an element's own work."""
    return {
        i for i in code.ran(code.where(lambda ins, op: bool(ins.defs) and op.access is None))
        if (names := code.slices.names([i])) is None or "load" in names
    }  # fmt: skip


def _fetched_at(code: Code) -> set[int]:
    """What computes where a texture is read: neighbouring elements do not share that as they do an index."""
    work = code.ran(code.where(lambda ins, op: op.pipe == "tex"))
    found = set[int]()
    while work:
        new = {p for p in _values_behind(code, [work.pop()]) if code.classes[p].access is None} - found
        found |= new
        work += sorted(new)
    return found


def makes_one(facts: Facts, code: Code, members: Collection[int]) -> bool:
    """Whether a thread stores one element, with one of these, and ends."""
    stores = [i for i in members if code.classes[i].access == "store" and straight(facts, code, i)]
    return bool(stores) and _elements(facts, code, stores) >= 2


def _elements(facts: Facts, code: Code, stores: Sequence[int]) -> float:
    """How many a thread can make that makes one now: as many as 16 bytes hold, or as the launch has waves; 0 where a
    thread does more."""
    if strays(facts, code, _own(facts, code)):
        return 0.0
    launch, widest = facts.counters.launch, max((code.classes[i].bytes for i in stores), default=WIDE)
    if widest >= WIDE or not launch.warps or (widest >= WORD and not _alone(facts, code)):
        return 0.0
    if masked(code, stores):
        return 0.0
    if stored_by_each(facts, code, stores) >= WIDE:  # a column of eight voxels, four beside each other a thread: 0.82x
        return 0.0
    row = of_a_warp(facts)
    if row is not None and row.joins:  # what joins a row across its block goes with it (GRD405)
        return 0.0
    runs = all(straight(facts, code, i) for i in range(len(code)) if code.executed[i] > 0)
    return min(WIDE / widest, launch.waves) if runs else 0.0


def masked(code: Code, accesses: Collection[int]) -> bool:
    """Whether a test of data says whose elements these move: with neighbouring elements a thread they lie apart, and
    cannot be moved at once (16 bytes of a mask a thread, and what it picks: 0.89x)."""
    every = max(code.threads, default=0.0)
    some = any(FEW * every < code.threads[i] < PICKED * every for i in accesses)
    return some and any("load" in names for names in _tests(code))


def _tests(code: Code) -> list[Collection[str]]:
    """What branches, and accesses that not all lanes make, are decided by."""
    decided = [(i, g) for i in code.ran(range(len(code))) if (g := code[i].guard) is not None]
    decided = [(i, g) for i, g in decided if code[i].opcode in ("BRA", "EXIT") or code.classes[i].space == "global"]
    return [code.slices.names(code.defuse.producers(i, g)) or () for i, g in decided]


def masked_beside(code: Code, members: Collection[int]) -> bool:
    """The same of what else the kernel moves."""
    moves = code.where(lambda ins, op: op.space == "global" and op.access is not None)
    return masked(code, set(moves).difference(members))


def stored_by_each(facts: Facts, code: Code, stores: Sequence[int]) -> int:
    """The most bytes that a thread stores to one array: elements that lie apart share what it pays once already."""
    of: dict[str | None, int] = {}
    for i in stores:
        array = facts.addresses.pointer(i)
        of[array] = of.get(array, 0) + code.classes[i].bytes
    return max((size for array, size in of.items() if array is not None), default=0)


def _own(facts: Facts, code: Code) -> list[int]:
    """Loads of the thread's own elements: what differs between lanes. How texture fetches lie is not counted."""
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load" and op.pipe != "tex"))
    return [i for i in loads if "tid" in (facts.addresses.origins(i) or ())]


def strays(facts: Facts, code: Code, loads: Sequence[int]) -> bool:
    """Whether lanes stand apart already, and would stand further apart where each takes neighbouring elements (MEM101
    comes first), or will, since their loads are as wide as can be. Two public kernels with 16 bytes a thread: columns
    36 bytes apart packed into halves 0.70x, four doubles read for each word stored 0.55x."""
    touched = code.column(SECTORS)
    walked = [i for i in loads if not facts.addresses.gathers(i)]
    apart = touched is not None and bool(facts.profile.scattered(walked, touched))
    return apart or any(code.classes[i].bytes >= WIDE for i in loads)


def _alone(facts: Facts, code: Code) -> bool:
    """Whether nothing but global memory, at its own places, keeps a thread waiting: what it does with its block, with
    atomics or with an array of its own has causes and remedies of its own, and so have outputs whose windows overlap
    (MEM112)."""
    apart = code.where(
        lambda ins, op: op.space in ("shared", "local") or op.access in ("atomic", "reduction") or "barrier" in op.kind
    )  # fmt: skip
    return not code.ran(apart) and blocking(facts, code) is None


def _values_behind(code: Code, members: Sequence[int]) -> set[int]:
    return {p for i in members for ps in code.defuse.sources(i).values() for p in ps}


def _narrow_loads(code: Code) -> set[int]:
    return set(code.where(lambda ins, op: op.space == "global" and op.access == "load" and 0 < op.bytes < 4))


def _taken_out(code: Code, loads: Collection[int]) -> float:
    """Taking an element out of a wide register is an instruction of the integer pipe, unless a conversion, which
    picks its byte or half itself (I2F.U8.B1, PRMT), is the first to read it. As a share of that pipe's now."""
    taken = total(code.executed, [i for i in sorted(loads) if not _converted(code, i)])
    every = code.issued_by_pipe.get("alu", 0.0)
    return taken / every if every else 0.0


def _converted(code: Code, load: int) -> bool:
    """Whether all readers take their element out of a wide register themselves; a shift makes a BF16 a float."""
    readers = [i for i in code.defuse.consumers(load) if code.executed[i] > 0]
    return all(
        "conversion" in code.classes[i].kind or code[i].opcode in PICKS
        or any(o.equals(0x10000) for o in code[i].operands)
        for i in readers
    )  # fmt: skip


def straight(facts: Facts, code: Code, index: int) -> bool:
    """Whether a thread runs it once: outside loops, or in loops over a grid that is as large as its work."""
    return all(facts.patterns.trips(loop) < ONCE for loop in code.cfg.loops_around(index))


def alike_once(facts: Facts, code: Code) -> list[int]:
    """Arithmetic that a thread runs once and that neither the thread's index nor loaded data reach: all threads of a
    block compute the same."""
    return [
        i
        for i in code.ran(code.where(lambda ins, op: bool(ins.defs)))
        if straight(facts, code, i)
        and (names := code.slices.names([i])) is not None
        and names.isdisjoint({"tid", "load"})
    ]
