"""Where values come from: which special registers reach an address, followed backwards over def-use."""

from __future__ import annotations

from collections.abc import Iterable

from kscope.features.sass.backward_slices import LIMIT
from kscope.features.sass.listing import Listing
from kscope.features.sass.pointers import pointers
from kscope.isa.abi import abi
from kscope.model.operand import memory_operand


def origins(code: Listing, index: int, registers: tuple[int, ...] | None = None) -> frozenset[str] | None:
    """Names of what the given source registers (all of the instruction's if None) depend on: `x`, `y`, `z` for the
    block index, `tid` for the thread or lane, `load` for loaded data, `table` for constants that an index picks. None
    where the slice is too large to tell."""
    sources = code.defuse.sources(index)
    starts = [p for r, producers in sources.items() if registers is None or r in registers for p in producers]
    return code.slices.names(starts, index)


def stored(code: Listing, index: int) -> list[int]:
    """Registers that a store or atomic writes to memory: those that stand behind its address. None for a zero (RZ);
    one that holds the address too (`STS [R5], R5`) counts as that."""
    ins = code[index]
    place = memory_operand(ins.operands)
    if place is None or place not in ins.operands:
        return []
    behind = ins.operands[ins.operands.index(place) + 1 :]
    width, own = max(1, code.classes[index].bytes // 4), {b.register for b in place.bases}
    data = {
        o.register + n for o in behind if o.kind == "register" and o.register >= 0 for n in range(width)
    }  # fmt: skip
    return [r for r in ins.uses if r in data and r not in own]


def _address(code: Listing, index: int) -> tuple[int, ...]:
    """Registers from which a memory instruction's address comes: neither what it stores nor its guard, which says
    whether it runs and not where."""
    ins = code[index]
    writes = code.classes[index].access in ("store", "atomic", "reduction")
    data = set(stored(code, index)) if writes else set[int]()
    return tuple(r for r in ins.uses if r not in data and r != ins.guard)


def address_origins(code: Listing, index: int) -> frozenset[str] | None:
    """What the address of a memory instruction depends on (see `origins`)."""
    return origins(code, index, _address(code, index))


def gathers(code: Listing, index: int) -> bool:
    """The address was itself computed from loaded data: an indirect access."""
    found = address_origins(code, index)
    return found is not None and "load" in found


def steps_from_loaded(code: Listing, index: int) -> bool:
    """In a loop, with an address that starts from loaded data (a row's first element) and then goes on by itself: no
    load of the loop reaches it. Such an access walks; it does not gather."""
    loop = code.cfg.loop_of[index]
    if loop is None:
        return False
    sources = code.defuse.sources(index)
    starts = [p for r in _address(code, index) for p in sources.get(r, ())]
    loads = code.slices.bringing(starts, "load")
    return bool(loads) and all(code.cfg.loop_of[i] != loop for i in loads)


def chases(code: Listing, load: int) -> bool:
    """The load's address comes from the load itself, one iteration ago: nothing can be loaded ahead."""
    return feeds(code, load, [p for ps in code.defuse.sources(load).values() for p in ps])


def feeds(code: Listing, index: int, work: list[int]) -> bool:
    """Whether what these compute comes from what an instruction brought a round before."""
    seen: set[int] = set()
    while work:
        i = work.pop()
        if i == index:
            return True
        if i not in seen and len(seen) < 64:
            seen.add(i)
            work += [p for ps in code.defuse.sources(i).values() for p in ps]
    return False


def continues(code: Listing, index: int, loop: int) -> bool:
    """The address goes on where a loop left off: it is computed from a value that the loop carries. The remainder of
    an unrolled loop does; a second pass over the data starts from the beginning."""
    starts = [p for ps in code.defuse.sources(index).values() for p in ps]
    seen = set(starts)
    while starts:
        i = starts.pop()
        if code.cfg.loop_of[i] == loop:
            return True
        if code.classes[i].access is None and len(seen) < LIMIT:
            new = {p for ps in code.defuse.sources(i).values() for p in ps} - seen
            seen |= new
            starts += new
    return False


def pointer(code: Listing, index: int) -> str | None:
    """The kernel parameter that an address is based on (`c[0x0][0x210]`); None when there is no one such. Sizes and
    strides that an index is made of are none, where the code tells them from pointers."""
    found = address_origins(code, index)
    first = abi(code.program.sm).parameters
    known = code.slices.constants
    parameters = [name for name in found or () if known.get(name, -1) >= first]
    bases = [name for name in parameters if known[name] in pointers(code)]
    return min(bases or parameters, default=None)


def place(code: Listing, index: int) -> object:
    """What tells one address of a memory instruction from another: where its base registers were written, and the
    offset. Equal for two instructions that go to one place."""
    operand = memory_operand(code[index].operands)
    if operand is None:
        return index
    sources = code.defuse.sources(index)
    return frozenset(p for b in operand.bases for p in sources.get(b.register, ())), operand.value


def grid_dimensions(code: Listing, index: int) -> frozenset[str] | None:
    """Grid dimensions that the address of a memory instruction depends on; None when it cannot be told (a gather,
    a row that the block looks up in constant memory, or a slice that is too large)."""
    found = address_origins(code, index)
    if found is None or not found.isdisjoint({"load", "table"}):
        return None
    return found & {"x", "y", "z"}


def alike(code: Listing, members: Iterable[int]) -> bool:
    """Whether all threads of a block compute these instructions alike: neither a thread's number nor what it loads at a
    place of its own reaches them. False where a slice is too large to tell."""
    members = list(members)
    names = code.slices.names(members)
    if names is None or "tid" in names:
        return False
    loads = code.slices.bringing(members, "load")
    if any(code.classes[i].space == "local" for i in loads):  # a place of the thread's own, whatever its address
        return False
    places = (address_origins(code, i) for i in loads)
    return all(found is not None and "tid" not in found for found in places)
