"""Whether a kernel's threads are numbered along an axis in one way alone: block times size plus thread. Blocks of
another size then leave each number to one thread, and nobody sees a difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from kscope.isa.abi import abi

if TYPE_CHECKING:
    from kscope.features.sass.listing import Listing
    from kscope.model.operand import Operand
    from kscope.model.program import Instruction

Place = Literal["thread", "block", "size", "blocks"]
_COPIES = ("MOV", "UMOV", "R2UR", "S2R", "S2UR", "LDC", "LDCU", "ULDC", "CS2R")
_SPECIAL: dict[str, Place] = {"TID": "thread", "CTAID": "block", "NCTAID": "blocks"}
_DEEP = 4  # copies of a copy that are looked through


def numbered(code: Listing, axis: int) -> bool:
    """Whether each value that is made of a thread's or a block's number, of the size or the number of blocks is block x
    size + thread, or the number of all threads (size x blocks)."""
    found = False
    for index, ins in enumerate(code.program.instructions):
        read = set(_read(code, index, axis)) - {None}
        if not read or _copies(ins):
            continue
        factors, summand = _product(code, index, axis)
        if factors == {"block", "size"} and summand == "thread" and len(read) == 3:
            found = True
        elif factors != {"size", "blocks"} or summand is not None or len(read) != 2:
            return False
    return found


def _copies(ins: Instruction) -> bool:
    if ins.opcode in ("IMAD", "UIMAD") and len(ins.operands) == 4:  # 0 x 0 + what is copied
        return all(o.kind == "register" and o.register < 0 for o in ins.operands[1:3])
    return ins.opcode in _COPIES


def _read(code: Listing, index: int, axis: int) -> Iterator[Place | None]:
    ins = code.program.instructions[index]
    upper = ins.operands[-1].register + 1 if ins.opcode == "STL" and "64" in ins.mods else -1
    for register in ins.uses:
        if register != upper or len(code.defuse.producers(index, register)) == 1:  # a pair's rest is put away with it
            yield _made(code, index, register, axis, _DEEP)
    for operand in ins.operands:
        yield _constant(code, operand, axis)


def _product(code: Listing, index: int, axis: int) -> tuple[set[Place | None], Place | None]:
    """What a multiplication multiplies, and what it adds; nothing of any other instruction."""
    ins = code.program.instructions[index]
    if ins.opcode not in ("IMAD", "UIMAD") or set(ins.mods) - {"U32", "MOV", "WIDE"} or len(ins.operands) != 4:
        return set(), None
    if "WIDE" in ins.mods and not _zero(code, index, ins.operands[3].register + 1):
        return set(), None  # a pair of registers is added, of which the upper one is not known
    first, second, third = (_operand(code, index, o, axis, _DEEP) for o in ins.operands[1:])
    return {first, second}, third


def _zero(code: Listing, index: int, register: int) -> bool:
    """Whether a register holds 0: what a thread's number of 32 bits has above it."""
    made = [code.program.instructions[i] for i in code.defuse.producers(index, register)]
    return bool(made) and all(
        (_copies(ins) or ins.opcode == "HFMA2") and all(o.text.strip("-") in ("RZ", "URZ", "0", "0x0")
                                                        for o in ins.operands[1:]) for ins in made
    )  # fmt: skip


def _operand(code: Listing, index: int, operand: Operand, axis: int, deep: int) -> Place | None:
    if operand.kind == "register" and operand.register >= 0 and not operand.negated:
        return _made(code, index, operand.register, axis, deep)
    return _constant(code, operand, axis)


def _constant(code: Listing, operand: Operand, axis: int, further: int = 0) -> Place | None:
    """further: words behind the one that is named."""
    if operand.kind != "constant" or operand.bank != 0 or any(b.register >= 0 for b in operand.bases):
        return None
    at = operand.value + 4 * further - abi(code.program.sm).block_shape - 4 * axis
    return "size" if at == 0 else "blocks" if at == 12 else None


def _made(code: Listing, index: int, register: int, axis: int, deep: int) -> Place | None:
    """What a register is, through copies; "thread" for what may be one of them, or something else."""
    found: set[Place | None] = set()
    for producer in code.defuse.producers(index, register) if deep else ():
        ins = code.program.instructions[producer]
        last = ins.operands[-1] if ins.operands else None
        if last is not None and ins.opcode in ("S2R", "S2UR", "CS2R"):
            name = last.text if "." in last.text else f"{last.text}.X"
            found.add({f"SR_{one}.{'XYZ'[axis]}": place for one, place in _SPECIAL.items()}.get(name))
        elif last is not None and _copies(ins) and last.kind == "constant":
            found.add(_constant(code, last, axis, register - ins.defs[0]))
        elif last is not None and _copies(ins):
            found.add(_operand(code, producer, last, axis, deep - 1))
        else:
            found.add(None)
    return next(iter(found)) if len(found) == 1 else "thread" if found - {None} else None
