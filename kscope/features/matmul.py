"""Loops that look like a matrix product: multiply-adds whose factors are both loaded in the loop and whose sum is
carried around it."""

from __future__ import annotations

from msgspec import Struct

from kscope.features.code import Code

FMA_OPCODES = ("FFMA", "HFMA2", "DFMA", "FFMA2")
DEPTH = 3  # moves and conversions allowed between a load and the multiply-add


class FmaLoop(Struct, frozen=True):
    """One innermost loop. loads: indices of loads that feed both factors; fmas: executed warp multiply-adds;
    words_per_fma: 4-byte words loaded a lane over multiply-adds; issue: FMA share of the loop's instructions."""

    loads: tuple[int, ...]
    fma_indices: tuple[int, ...]
    opcode: str
    fmas: float
    words_per_fma: float
    issue: float


def fma_loops(code: Code) -> list[FmaLoop]:
    """Innermost loops with carried multiply-adds on two loaded factors, most executed first."""
    out = []
    for loop in code.cfg.loops:
        if not loop.innermost:
            continue
        inside = set(loop.instructions)
        fmas = [i for i in inside if code[i].opcode in FMA_OPCODES and code.executed[i] > 0]
        fed: dict[int, set[int]] = {}
        for i in fmas:
            factors = _loaded_factors(code, i, inside)
            if factors is not None:
                fed[i] = factors
        if not fed:
            continue
        loads = tuple(sorted(set().union(*fed.values())))
        executed = sum(float(code.executed[i]) for i in fed)
        words = sum(float(code.executed[i]) * max(code.classes[i].bytes, 4) / 4 for i in loads)
        total = sum(float(code.executed[i]) for i in inside)
        out.append(
            FmaLoop(
                loads=loads,
                fma_indices=tuple(sorted(fed)),
                opcode=code[min(fed)].opcode,
                fmas=executed,
                words_per_fma=words / executed,
                issue=executed / total if total else 0.0,
            )
        )
    return sorted(out, key=lambda lp: -lp.fmas)


def _loaded_factors(code: Code, index: int, inside: set[int]) -> set[int] | None:
    """Loads of the loop that both factors of a multiply-add come from; None if a factor is not loaded there."""
    ins = code[index]
    loads: set[int] = set()
    for operand in ins.operands[1:3]:
        register = _register(operand)
        if register is None:
            return None
        found = _loads_behind(code, index, register, inside, DEPTH)
        if not found:
            return None
        loads |= found
    return loads


def _loads_behind(code: Code, index: int, register: int, inside: set[int], depth: int) -> set[int]:
    out: set[int] = set()
    for p in code.defuse.producers(index, register):
        if p not in inside:
            continue
        op = code.classes[p]
        if op.access in ("load", "matrix_load") and op.space in ("global", "shared", "generic"):
            out.add(p)
        elif depth and ("move" in op.kind or "conversion" in op.kind):
            for r in code[p].uses:
                out |= _loads_behind(code, p, r, inside, depth - 1)
    return out


def _register(operand: str) -> int | None:
    """Number of a plain vector register operand (R12, -R12, |R12|, R12.reuse), None for anything else."""
    text = operand.lstrip("-|~+").rstrip("|").split(".")[0]
    return int(text[1:]) if text.startswith("R") and text[1:].isdigit() else None
