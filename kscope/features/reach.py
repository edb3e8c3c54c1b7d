"""Where values come from: which special registers reach an address, followed backwards over def-use."""

from __future__ import annotations

from kscope.features.code import Code

SPECIAL = {
    "SR_CTAID.X": "x", "SR_CTAID.Y": "y", "SR_CTAID.Z": "z",
    "SR_TID.X": "tid", "SR_TID.Y": "tid", "SR_TID.Z": "tid", "SR_LANEID": "tid", "SR_TID": "tid",
}  # fmt: skip
LIMIT = 400  # instructions of one slice: beyond it the origin is called unknown


def origins(code: Code, index: int, registers: tuple[int, ...] | None = None) -> frozenset[str] | None:
    """Names of what the given source registers (all of the instruction's if None) depend on: `x`, `y`, `z` for the
    block index, `tid` for the thread or lane, `load` for loaded data. None where the slice is too large to tell."""
    found: set[str] = set()
    seen: set[int] = set()
    sources = code.defuse.sources(index)
    work = [p for r, producers in sources.items() if registers is None or r in registers for p in producers]
    while work:
        i = work.pop()
        if i in seen:
            continue
        seen.add(i)
        if len(seen) > LIMIT:
            return None
        ins, op = code[i], code.classes[i]
        for operand in ins.operands:
            name = SPECIAL.get(operand)
            if name:
                found.add(name)
            elif operand.startswith("c[0x0][0x") and _wide(ins.opcode, ins.mods):
                found.add(operand)  # a 64-bit kernel parameter: the pointer
        if op.access in ("load", "atomic") and op.space in ("global", "shared", "local", "generic"):
            found.add("load")
            continue  # an address that was itself loaded: its index says nothing about the data
        work += [p for producers in code.defuse.sources(i).values() for p in producers]
    return frozenset(found)


def _wide(opcode: str, mods: tuple[str, ...]) -> bool:
    """Whether an instruction that reads a constant takes 64 bits of it, or half of an address."""
    return "64" in mods or "WIDE" in mods or opcode in ("LEA", "IADD3", "ULEA", "UIADD3") or "X" in mods


def address_origins(code: Code, index: int) -> frozenset[str] | None:
    """What the address of a memory instruction depends on (see `origins`), its stored data left aside."""
    op = code.classes[index]
    data = set(code[index].uses[-max(1, op.bytes // 4) :]) if op.access == "store" else set()
    return origins(code, index, tuple(r for r in code[index].uses if r not in data))


def gathers(code: Code, index: int) -> bool:
    """The address was itself computed from loaded data: an indirect access."""
    found = address_origins(code, index)
    return found is not None and "load" in found


def pointer(code: Code, index: int) -> str | None:
    """The kernel parameter that an address is based on (`c[0x0][0x210]`); None when there is no one such."""
    found = address_origins(code, index)
    parameters = [o for o in found or () if o.startswith("c[")]
    return min(parameters) if parameters else None


def grid_dimensions(code: Code, index: int) -> frozenset[str] | None:
    """Grid dimensions that the address of a memory instruction depends on; None when it cannot be told (a gather,
    or a slice that is too large)."""
    found = address_origins(code, index)
    if found is None or "load" in found:
        return None
    return found & {"x", "y", "z"}
