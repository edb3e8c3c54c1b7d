"""Block-wide barriers that order nothing: between one and the next no memory is touched on any path."""

from __future__ import annotations

from kscope.features.sass.listing import Listing
from kscope.isa.families import family
from kscope.isa.opcodes import OpClass
from kscope.model.operand import Operand
from kscope.model.program import Instruction

_CLEAN_ACCESSES = family("own_memory")  # constants, and memory of the thread alone


def redundant_barriers(code: Listing) -> list[int]:
    """`BAR.SYNC` (all threads, a constant barrier number) which every path reaches from another one of the same
    number without a memory access, fence or asynchronous operation in between."""
    barriers = {i: number for i in code.where(_whole) if (number := _number(code[i])) is not None}
    if len(barriers) < 2:
        return []
    cfg = code.cfg
    # Forward, over all paths: the barrier number behind which memory is untouched, None once it is touched.
    unknown = -1
    entering: dict[int, int | None] = {}
    found: dict[int, bool] = {}
    changed = True
    while changed:
        changed = False
        for place in cfg.order:
            if place not in code.reached:
                continue
            block = cfg.blocks[place]
            state = None if place == 0 or not block.predecessors else entering.get(place, unknown)
            for i in range(block.start, block.end):
                if i in barriers:
                    found[i] = state == barriers[i]
                    state = barriers[i]
                elif _touches(code[i], code.classes[i]):
                    state = None
            for s in block.successors:
                before = entering.get(s, unknown)
                after = state if before == unknown else before if before == state or state == unknown else None
                if after != before:
                    entering[s], changed = after, True
    return [i for i, redundant in sorted(found.items()) if redundant and code.executed[i] > 0]


def _whole(ins: Instruction, op: OpClass) -> bool:
    return ins.opcode == "BAR" and "SYNC" in ins.mods and ins.guard is None


def _number(ins: Instruction) -> int | None:
    """The barrier's number where it is constant and no thread count restricts who takes part."""
    return ins.operands[0].value if len(ins.operands) == 1 and ins.operands[0].kind == "integer" else None


def _touches(ins: Instruction, op: OpClass) -> bool:
    """Whether other threads could notice on which side of a barrier this instruction runs."""
    if ins.guard is None and ins.guard_negated:
        return False
    if op.access is not None:
        return ins.opcode not in _CLEAN_ACCESSES and not (op.access == "load" and "CONSTANT" in ins.mods)
    ordering = op.kind & {"fence", "mbarrier", "async_wait", "tma", "wgmma", "wgmma_wait", "tcgen05", "call", "barrier"}
    return bool(ordering) or not op.known or ins.opcode == "NANOSLEEP" or any(_clock(o) for o in ins.operands)


def _clock(operand: Operand) -> bool:
    return operand.kind == "special" and "SR_CLOCK" in operand.text
