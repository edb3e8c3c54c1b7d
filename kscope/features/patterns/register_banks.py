"""Register reads that cost an issue cycle: three operands from one bank of the register file.

The file of a sub-partition has two banks, register number modulo 2, each delivering two 32-bit registers of a warp a
cycle; the operand reuse cache saves a read where the same warp reads the same register in the same slot again (Jia et
al., arXiv 1804.06826, section 3.1.2). Two reads of one bank are free: on an H200 a loop of FFMA R6, R4, R6, 0.5 issues
in 99.6 % of the cycles (capture fma_peak.base). Only instructions that could issue every cycle lose anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kscope.features.sass.listing import Listing
from kscope.model.program import UNIFORM_BASE, Instruction

BANKS = 2
PORTS = 2  # registers of one bank a cycle


class BankCost(Struct, frozen=True):
    """One instruction that waits for the register file: cycles beyond its pipe's own, the registers of the full bank,
    and whether a reuse flag on the instruction before would have saved a read."""

    index: int
    cycles: float
    registers: tuple[int, ...]
    reusable: bool


def bank_costs(code: Listing) -> list[BankCost]:
    """Every instruction whose operand reads take longer than its pipe."""
    out = []
    for block in code.cfg.blocks:
        if not any(_crowded(code[i].uses) for i in range(block.start, block.end)):
            continue
        kept: dict[tuple[int, int], int] = {}  # (slot, bank) -> register in the reuse cache
        last: dict[int, int] = {}  # slot -> register that the instruction before read there
        for i in range(block.start, block.end):
            slots = operand_slots(code[i])
            reads: dict[int, set[int]] = {}
            for slot, register, _ in slots:
                if kept.get((slot, register % BANKS)) != register:
                    reads.setdefault(register % BANKS, set()).add(register)
            for slot, register, reuse in slots:
                if reuse:
                    kept[slot, register % BANKS] = register
                else:
                    kept.pop((slot, register % BANKS), None)
            full = max(reads.values(), key=len, default=set())
            cycles = -(-len(full) // PORTS) - max(1.0, code.classes[i].issue)
            if cycles > 0 and code.executed[i] > 0:
                could = any(last.get(slot) == register and register in full for slot, register, _ in slots)
                out.append(BankCost(i, cycles, tuple(sorted(full)), could))
            last = {slot: register for slot, register, _ in slots}
    return out


def _crowded(uses: Sequence[int]) -> bool:
    """Whether an instruction reads more registers of one bank than it delivers a cycle, whatever the reuse cache has:
    few do, and a block without one needs no closer look."""
    odd = sum(r % BANKS for r in uses if r < UNIFORM_BASE) if len(uses) > PORTS else 0
    return odd > PORTS or (len(uses) > PORTS and sum(r < UNIFORM_BASE for r in uses) - odd > PORTS)


def operand_slots(ins: Instruction) -> Sequence[tuple[int, int, bool]]:
    """(slot, register, reuse flag) of the plain 32-bit register sources, counted from the first source operand."""
    out = []
    slot = 0
    for operand in ins.operands[1:]:
        if operand.kind in ("predicate", "predicates"):
            continue
        register = operand.vector
        if register is not None:
            out.append((slot, register, operand.reuse))
        slot += 1
    return out
