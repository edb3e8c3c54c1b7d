"""Memory accesses as an expert names them: `LDG.E.128`, 16 bytes a lane; and what a local access is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.isa.families import family
from kscope.model.operand import Base, Operand, memory_operand

if TYPE_CHECKING:
    from kscope.isa.opcodes import OpClass
    from kscope.model.program import Instruction, Program

STACK = (Base(1),)  # R1 by the ABI
LOCAL = family("local_access")


class Access(Struct, frozen=True):
    """One access. `name`: opcode with its width in bits always said (`LDG.E.32`). `bytes`: a lane; None where a
    descriptor decides (TMA). `stack` for local memory: "spill" (marked by the compiler), "spill slot" (a spill by its
    form, where nothing is marked), "saved register" (of a function's caller), "local array"; empty elsewhere."""

    name: str
    space: str
    kind: str
    bytes: int | None
    stack: str = ""


def accesses(program: Program, classes: Sequence[OpClass], *, spilling: bool | None = None) -> list[Access | None]:
    """The access of each instruction; None for those that touch no memory.

    spilling: whether the compiler says that there are spills, where the image's own marks are not at hand (a
    profile's counter); None if nobody says.
    """
    code = program.instructions
    unmarked = not program.spills and not program.marks_spills and spilling is not False
    slots = _spill_slots(program, classes) if unmarked else frozenset()
    saved = saves(program)
    names: dict[tuple[str, tuple[str, ...]], Access] = {}
    out: list[Access | None] = []
    for ins, op in zip(code, classes, strict=True):
        if op.access is None or op.space is None or (ins.guard is None and ins.guard_negated):
            out.append(None)
            continue
        key = (ins.opcode, ins.mods)
        if key not in names:
            width = None if op.pipe == "tma" else op.bytes
            names[key] = Access(width_name(ins, op), op.space, op.access, width)
        access = names[key]
        if op.space == "local":
            access = Access(access.name, access.space, access.kind, access.bytes, _stack(program, ins, slots, saved))
        out.append(access)
    return out


def width_name(ins: Instruction, op: OpClass) -> str:
    """The opcode and its width, without cache hints and scopes: `LDG.E.32`, `LDG.E.ENL2.256`, `LDS.64`, `LDSM.x4`."""
    if op.pipe == "tma":
        rank = [m for m in ins.mods if m[:1].isdigit() and m.endswith("D")]
        return ".".join([ins.opcode, *rank])
    if ins.opcode in family("matrix_move"):
        return f"{ins.opcode}.x{op.bytes // 4}"
    if ins.opcode in ("LDTM", "STTM"):
        return f"{ins.opcode}.x{op.bytes // 4}"
    kept = [m for m in ins.mods if m in ("E", "ENL2")]
    if op.access in ("atomic", "reduction"):
        kept += [m for m in ins.mods if m in ("ADD", "MIN", "MAX", "AND", "OR", "XOR", "EXCH", "CAS", "INC", "DEC")]
    width = next((m for m in ins.mods if m in ("U8", "S8", "U16", "S16")), str(8 * op.bytes))
    return ".".join([ins.opcode, *kept, width])


def _stack(program: Program, ins: Instruction, slots: frozenset[Operand | None], saved: frozenset[int]) -> str:
    if ins.index in saved:
        return "saved register"
    if program.spills:
        return "spill" if ins.pc in program.spills else "local array"
    return "spill slot" if memory_operand(ins.operands) in slots else "local array"


def _spill_slots(program: Program, classes: Sequence[OpClass]) -> frozenset[Operand | None]:
    """Addresses that look like spill slots where nothing is marked: fixed, stored to and loaded from. An access at a
    computed address shows an array, to which the fixed slots may belong too."""
    local = [i for i, op in zip(program.instructions, classes, strict=True) if op.space == "local" and op.access]
    if not all(fixed_slot(ins) for ins in local):
        return frozenset()
    stored, loaded = ({memory_operand(ins.operands) for ins in local if ins.opcode == name} for name in ("STL", "LDL"))
    return frozenset(stored & loaded)


def saves(program: Program) -> frozenset[int]:
    """Indices of the stores and loads by which a called function keeps its caller's registers, as the ABI asks: each to
    a slot of its own and back to the same register. Only where the compiler marks spills: they could look like that."""
    if not program.marks_spills or (program.entry and not program.symbols):
        return frozenset()
    slots: dict[Operand | None, list[Instruction]] = {}
    for ins in program.instructions:
        if ins.opcode in LOCAL and ins.operands:
            slots.setdefault(memory_operand(ins.operands), []).append(ins)
    out: set[int] = set()
    for group in slots.values():
        registers = {(o.kind, o.register) for ins in group for o in ins.operands if o.kind != "memory"}
        kept = len(registers) == 1 and {ins.opcode for ins in group} == LOCAL
        if kept and fixed_slot(group[0]) and not any(ins.pc in program.spills for ins in group):
            out.update(ins.index for ins in group)
    return frozenset(out)


def fixed_slot(ins: Instruction) -> bool:
    """Whether a local access addresses the stack pointer plus a constant, as spills do (R1 by the ABI)."""
    address = memory_operand(ins.operands)
    return address is not None and address.bases == STACK and address.value >= 0
