"""Local memory: which accesses are spills and which belong to an array."""

from __future__ import annotations

from kscope.features.accesses import saves
from kscope.features.listing import Listing


def local_accesses(code: Listing) -> list[int]:
    """Loads and stores of local memory that are executed at all."""
    return code.ran(code.where(lambda ins, op: op.space == "local" and op.access in ("load", "store")))


def fixed_slot(code: Listing, index: int) -> bool:
    """Whether the address is the stack pointer (R1 by the ABI) and a constant: where the compiler puts spills, and
    arrays whose indices it knows."""
    address = next((o for o in code[index].operands if "[" in o), "")
    inner = address[address.find("[") + 1 : address.rfind("]")]
    return inner == "R1" or inner.startswith("R1+0x")


def spills_and_arrays(code: Listing) -> tuple[list[int], list[int], bool]:
    """(spills, array accesses, whether that is certain) of a binary.

    ptxas marks spills from 12.8 on: what such a compiler leaves unmarked is an array, or a register of the caller that
    a function keeps (in neither list). Where nobody marks, an access at a computed address shows an array, to which
    the fixed slots may belong too (it is filled by constants); fixed slots alone look like spills.
    """
    saved = saves(code.program)
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


def _slot(code: Listing, index: int) -> str:
    return next((o for o in code[index].operands if "[" in o), "")
