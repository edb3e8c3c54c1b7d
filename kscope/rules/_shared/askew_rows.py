"""Rows that start anywhere: a block reads its row side by side, but the row's first element lies off a sector's start.

Odd lengths do it: no alignment of the base makes all rows' starts even. The lanes are side by side all the same, and
from round to round the block goes on where it stopped, so that what is off is the first element alone: the threads take
the elements up to the next multiple of 16 bytes one by one (a head), then wide ones, then what is left (a tail).
"""

from __future__ import annotations

from kscope.features.facts import IDEAL_SECTORS, SECTORS, WIDE, Code, Facts
from kscope.model.operand import memory_operand

UNROLLED = (1, 2, 4, 8)  # rounds that the compiler makes one
OFF = 1.1  # sectors touched over needed, above which a row does not start where a sector does


def askew(facts: Facts, code: Code) -> list[int]:
    """Global loads and stores under 16 bytes in loops that walk a row with the whole block, whose lanes lie side by
    side and touch a sector more than they fill. Accesses at overlapping offsets (a stencil's) are none: what one is off
    the others are not."""
    touched, ideal = code.column(SECTORS), code.column(IDEAL_SECTORS)
    if touched is None or ideal is None:
        return []
    threads = facts.kernel.launch.threads
    spaces = code.where(lambda ins, op: op.space == "global" and op.access in ("load", "store"))
    off = [
        i for i in code.ran(spaces)
        if 0 < code.classes[i].bytes < WIDE and code.cfg.loop_of[i] is not None
        and ideal[i] * OFF < touched[i] <= ideal[i] + OFF * code.executed[i]
    ]  # fmt: skip
    return [i for i in off if _side_by_side(facts, code, i, threads) and not _overlapped(code, i, threads)]


def _side_by_side(facts: Facts, code: Code, index: int, threads: int) -> bool:
    """The block's lanes one beside the other, and each round where the one before it stopped."""
    each = code.classes[index].bytes
    if facts.lanes.stride(index) != each:
        return False
    steps = facts.lanes.strides.steps(index)
    return bool(steps) and all(abs(step) in {threads * each * rounds for rounds in UNROLLED} for step in steps)


def _overlapped(code: Code, index: int, threads: int) -> bool:
    """Another access of the loop at an offset from the same base that is less than a block of elements away."""
    mine, loop = memory_operand(code[index].operands), code.cfg.loop_of[index]
    if mine is None:
        return True
    bases = [b.register for b in mine.bases]
    for i in code.cfg.loop_body(loop) if loop is not None else ():
        other = memory_operand(code[i].operands) if i != index and code.classes[i].space == "global" else None
        if other is None or [b.register for b in other.bases] != bases or other.value == mine.value:
            continue
        if abs(other.value - mine.value) < threads * code.classes[index].bytes:
            return True
    return False
