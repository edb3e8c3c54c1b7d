"""Loops of the machine code that are no loop of the source: spinning, and one lane after the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from kscope.model.operand import memory_operand

if TYPE_CHECKING:
    from kscope.features.sass.cfg import Cfg
    from kscope.isa.opcodes import OpClass
    from kscope.model.program import Instruction, Program

SPIN, SERIAL = "spin", "lane by lane"


def loop_kinds(program: Program, cfg: Cfg, classes: Sequence[OpClass]) -> Mapping[int, str]:
    """Loops that are no loop of the source, by number of the graph: "spin" (waits for an mbarrier, or for memory that
    others write, and does nothing else) and "lane by lane" (the compiler could not prove an operand uniform: ELECT,
    the instruction, BRA.U.ANY)."""
    out: dict[int, str] = {}
    code = program.instructions
    for n, loop in enumerate(cfg.loops):
        if not loop.innermost:
            continue
        opcodes = {code[i].opcode for i in loop.instructions}
        if "ELECT" in opcodes and any(_is_serial(code[i]) for i in loop.instructions):
            out[n] = SERIAL
        elif len(loop.instructions) <= 16 and _spins(code, classes, loop.instructions):
            out[n] = SPIN
    return out


def _is_serial(ins: Instruction) -> bool:
    return ins.opcode == "BRA" and ins.mods[:2] == ("U", "ANY")


def _decides(code: Sequence[Instruction], classes: Sequence[OpClass], inside: Sequence[int], load: int) -> bool:
    """What is loaded reaches the guard of a branch of the loop."""
    reached = set(code[load].defs)
    for i in sorted(inside):
        if i > load and not reached.isdisjoint(code[i].uses):
            if "branch" in classes[i].kind:
                return True
            reached.update(code[i].defs)
    return any("branch" in classes[i].kind and code[i].guard in reached for i in inside)


def _same_place(ins: Instruction, made: Collection[int]) -> bool:
    address = memory_operand(ins.operands)
    return address is not None and bool(address.bases) and not any(
        r in made for b in address.bases for r in (b.register, b.register + 1)
    )


def _spins(code: Sequence[Instruction], classes: Sequence[OpClass], inside: Sequence[int]) -> bool:
    """A load that asks for the same place in each round (a volatile one), and ends the loop, waits as well."""
    polls, made = False, {r for i in inside for r in code[i].defs}
    for i in inside:
        ins, op = code[i], classes[i]
        phase = ins.opcode == "SYNCS" and "PHASECHK" in ins.mods
        again = op.access == "load" and op.space in ("global", "shared", "generic") and _same_place(ins, made)
        again = again and _decides(code, classes, inside, i)
        if phase or op.access == "atomic" or (op.access == "load" and ("STRONG" in ins.mods or again)):
            polls = True
        elif op.access is not None or "tensor" in op.kind or "mbarrier" in op.kind or "fp32" in op.kind:
            return False
    return polls
