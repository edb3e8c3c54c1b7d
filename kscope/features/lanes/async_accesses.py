"""What an instruction of the asynchronous proxy does with shared memory, from its opcode and operands."""

from __future__ import annotations

from kscope.isa.families import family
from kscope.model.operand import uniform_base
from kscope.model.program import Instruction

_ASYNCHRONOUS, _SENDS = family("async_proxy"), family("sends_shared")


def asynchronous(ins: Instruction, op: object) -> bool:
    """Whether an instruction reads or writes shared memory through the asynchronous proxy."""
    return ins.opcode in _ASYNCHRONOUS


def sends(ins: Instruction) -> bool:
    """Whether an asynchronous access carries shared memory out: a TMA or bulk store or reduction."""
    if ins.opcode == "UBLKCP":
        return ins.mods[:1] != ("S",)
    return ins.opcode in _SENDS


def multiplies(ins: Instruction) -> bool:
    """Whether an asynchronous access is a product: wgmma or tcgen05."""
    return ins.opcode.endswith("MMA")


def overwrites(ins: Instruction) -> bool:
    """Whether an asynchronous access writes shared memory."""
    return ins.opcode == "UTMALDG" or (ins.opcode == "UBLKCP" and ins.mods[:1] == ("S",))


def shared_operands(ins: Instruction) -> list[tuple[int, bool]]:
    """(uniform register with a shared-memory address, whether it is a matrix descriptor) of an asynchronous access."""
    described = [o.bases[0].register for o in ins.operands if o.prefix == "gdesc" and o.bases]
    if ins.opcode.endswith("GMMA"):  # one operand names the descriptors of A and B, or of B alone
        pairs = [described[0], described[0] + 2] if described and ins.operands[1].prefix == "gdesc" else described
        return [(n, True) for n in pairs]
    if described:
        return [(n, True) for n in described]
    place = 1 if ins.opcode in ("UBLKCP", "UBLKRED") and ins.mods[:1] != ("S",) else 0
    found = [r for o in ins.operands if (r := uniform_base(o)) is not None]
    return [(found[place], False)] if len(found) > place else []
