"""Local memory: which accesses are spills and which belong to an array."""

from __future__ import annotations

from collections.abc import Iterable

from kscope.features.patterns.slicing import purpose
from kscope.features.sass import accesses
from kscope.features.sass.listing import Listing
from kscope.features.sass.slices import address_origins, origins, stored
from kscope.isa.abi import abi
from kscope.isa.families import family
from kscope.model.operand import Operand, memory_operand

_CALLS = family("function_call")
LIBRARY = 4  # bank of constants with addresses of what is linked in: vprintf, malloc, __assertfail (SASS of sm_90)
STACK, MASK = 1, 0xFFFFFFFF
SINCE = 70  # compute capability from which parameters can be read where they lie (CUDA C++ Programming Guide)
MOVES = 3  # instructions between a parameter and the store of it at most: two were seen (judged)
COUNTS = frozenset({"int", "int_mul", "move", "predicate", "branch"})


def local_accesses(code: Listing) -> list[int]:
    """Loads and stores of local memory that are executed at all."""
    return code.ran(code.where(lambda ins, op: op.space == "local" and op.access in ("load", "store")))


def fixed_slot(code: Listing, index: int) -> bool:
    """Whether the address is the stack pointer (R1 by the ABI) and a constant: where the compiler puts spills, and
    arrays whose indices it knows."""
    return accesses.fixed_slot(code[index])


def slot_offset(code: Listing, index: int) -> int | None:
    """Bytes from the stack pointer of an access at a fixed place; None for a computed address."""
    address = _slot(code, index)
    return address.value if address is not None and fixed_slot(code, index) else None


def frame(code: Listing) -> int:
    """Bytes by which the kernel moves the stack pointer (R1 by the ABI) where it begins; 0 where it does not. What
    functions that it calls take beside that is left out."""
    for ins in code.program.instructions:
        if ins.defs == (STACK,) and STACK in ins.uses:
            moved = [-o.value & MASK for o in ins.operands if o.kind == "integer"]
            return max((by for by in moved if by >> 31 == 0), default=0)
    return 0


def spills_and_arrays(code: Listing) -> tuple[list[int], list[int], bool]:
    """(spills, array accesses, whether that is certain) of a binary.

    ptxas marks spills from 12.8 on: what such a compiler leaves unmarked is an array, or a register of the caller that
    a function keeps (in neither list). Where nobody marks, an access at a computed address shows an array, to which
    the fixed slots may belong too (it is filled by constants); fixed slots alone look like spills.
    """
    saved = accesses.saves(code.program)
    local = [i for i in local_accesses(code) if i not in saved]
    marked = code.program.spills
    if marked or code.program.marks_spills:
        spills = [i for i in local if code[i].pc in marked]
        return spills, [i for i in local if code[i].pc not in marked], True
    if any(not fixed_slot(code, i) for i in local):
        return [], local, True
    stored, loaded = ({_slot(code, i) for i in local if code[i].opcode == name} for name in ("STL", "LDL"))
    spills = [i for i in local if _slot(code, i) in stored & loaded]  # what is only stored is handed to somebody else
    return spills, [i for i in local if i not in spills], False


def counted(code: Listing, arrays: Iterable[int]) -> list[int]:
    """What goes, beside the accesses themselves, when the loops whose counters index an array have as many rounds as
    the compiler knows: their counters, tests and branches, and the constants that the counters pick, which become
    operands. Addresses of other accesses stay. Empty where loaded data indexes the array or ends such a loop: no
    unrolling gives constant indices then."""
    members = set(arrays)
    loops: set[int] = set()
    for i in members:
        if not _uniform(address_origins(code, i)):
            return []
        loops |= _loops_behind(code, i)
    body = [i for n in loops for i in code.cfg.loop_body(n) if code.executed[i] > 0 and i not in members]
    if any("branch" in code.classes[i].kind and not _known(origins(code, i)) for i in body):
        return []
    own = purpose(code)
    gone = {i for i in body if i not in own and _counts(code, i)}
    kept = [i for i in gone if _read_outside(code, i, gone | members)]
    while kept:
        i = kept.pop()
        gone.discard(i)
        kept += [p for ps in code.defuse.sources(i).values() for p in ps if p in gone]
    return sorted(gone)


def _loops_behind(code: Listing, index: int) -> set[int]:
    """The loops in which an address is computed from values that they carry."""
    found: set[int] = set()
    seen: set[int] = set()
    work = [p for ps in code.defuse.sources(index).values() for p in ps]
    while work:
        i = work.pop()
        if i in seen or code.classes[i].access is not None:
            continue
        seen.add(i)
        loop = code.cfg.loop_of[i]
        if loop is not None:
            found.add(loop)
        work += [p for ps in code.defuse.sources(i).values() for p in ps]
    return found


def _known(names: frozenset[str] | None) -> bool:
    return names is not None and "load" not in names


def _uniform(names: frozenset[str] | None) -> bool:
    return names is not None and names.isdisjoint({"load", "tid", "x", "y", "z"})


def _counts(code: Listing, index: int) -> bool:
    op = code.classes[index]
    if op.space == "constant" and op.access == "load":
        return _uniform(origins(code, index))
    return op.access is None and bool(op.kind & COUNTS)


def _read_outside(code: Listing, index: int, gone: set[int]) -> bool:
    """Whether something reads it that stays: values that the loop hands on to the arithmetic read constants alone,
    which unrolling turns into operands."""
    if code.classes[index].space == "constant":
        return False
    return any(code.executed[j] > 0 and j not in gone for j in code.defuse.consumers(index))


def _slot(code: Listing, index: int) -> Operand | None:
    return memory_operand(code[index].operands)


def passed_on(code: Listing, arrays: Iterable[int]) -> bool:
    """Whether these accesses are no array that an index walks: each is at a place that the compiler knows, in code that
    calls a function through a pointer. It does not know what that reads, so that whatever it may be given an address of
    lies in memory, and so does what a caller keeps in registers."""
    members = list(arrays)
    calls = code.where(lambda ins, op: ins.opcode in _CALLS)
    return all(fixed_slot(code, i) for i in members) and bool(members) and any(_by_pointer(code, i) for i in calls)


def _by_pointer(code: Listing, call: int) -> bool:
    """A call of what a register holds; but for printf and the like, whose addresses the driver keeps in a bank."""
    made = (p for r in code[call].uses for p in code.defuse.producers(call, r))
    banks = {o.bank for p in made for o in code[p].operands if o.kind == "constant"}
    return bool(code[call].uses) and LIBRARY not in banks


def copied(code: Listing, arrays: Iterable[int]) -> bool:
    """Whether these accesses are of the launch's own parameters, which the compiler copies into local memory where code
    picks a member by a computed index, on chips that need not: all that is stored are words of the parameters, and
    whoever reads has an address from counters, constants and what was copied, so that the lanes of a warp read the same
    member."""
    members = list(arrays)
    stores = [i for i in members if code.classes[i].access == "store"]
    loads = [i for i in members if i not in stores]
    if code.program.sm < SINCE or not stores or not loads or any(fixed_slot(code, i) for i in loads):
        return False
    words = [_parameter(code, i, r) for i in stores for r in stored(code, i) or (-1,)]
    first = abi(code.program.sm).parameters
    return all(w is not None and w >= first for w in words) and all(_shared(code, i, set(loads)) for i in loads)


def _parameter(code: Listing, index: int, register: int) -> int | None:
    """Byte in constant bank 0 from which a register's value was moved as it is; None for what was computed."""
    for _ in range(MOVES):
        producers = code.defuse.sources(index).get(register, ())
        if len(producers) != 1:
            return None
        (index,) = producers
        ins = code[index]
        found = next((o for o in ins.operands if o.kind == "constant"), None)
        if found is not None:
            whole = not found.bank and not found.bases and not ins.uses
            return found.value + 4 * ins.defs.index(register) if whole else None
        if len(ins.uses) != 1 or "move" not in code.classes[index].kind:
            return None
        (register,) = ins.uses
    return None


def _shared(code: Listing, index: int, copies: set[int]) -> bool:
    """The address depends on no thread's number, and on no load but of the copies."""
    place = _slot(code, index)
    sources = code.defuse.sources(index)
    starts = [p for b in (place.bases if place is not None else ()) for p in sources.get(b.register, ())]
    names = code.slices.names(starts, index)
    return names is not None and "tid" not in names and copies.issuperset(code.slices.bringing(starts, "load"))
