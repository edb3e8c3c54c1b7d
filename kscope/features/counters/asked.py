"""What memory instructions asked of L1, instruction by instruction: for reports that hold source counters and not the
memory tables (`--set detailed`).

NVIDIA counts at every instruction how often a warp executed it and how many sectors its addresses touch in theory.
Added up by what the instruction does, the sums stand in for the tables' counters, which count the same at L1.
"""

from __future__ import annotations

from kscope.isa.families import by_opcode
from kscope.model.kernel import Kernel

GLOBAL = "memory_l2_theoretical_sectors_global"
LOCAL = "memory_l2_theoretical_sectors_local"
KINDS = by_opcode("l1_counter")
"""Opcode without its modifiers -> space and operation, as l1tex's counters spell them. Their sums equal those counters
within 2 % on 80 of 84 captures of fixtures/h200."""


def asked(kernel: Kernel) -> dict[str, tuple[float, float]]:
    """`global_ld` -> (requests, sectors) and so on; {} where the report has no code or no counters of its
    instructions."""
    if kernel.counters is None or kernel.program is None:
        return {}
    columns, out = kernel.counters.by_name, dict[str, tuple[float, float]]()
    executed = columns.get("inst_executed")
    if executed is None:
        return {}
    kinds = {ins.pc: kind for ins in kernel.program.instructions if (kind := KINDS.get(ins.opcode)) is not None}
    sectors = {"global": columns.get(GLOBAL), "local": columns.get(LOCAL)}
    for i, pc in enumerate(kernel.counters.offsets):
        if (kind := kinds.get(pc)) is not None:
            column = sectors[kind.partition("_")[0]]
            requests, touched = out.get(kind, (0.0, 0.0))
            out[kind] = (requests + executed[i], touched + (column[i] if column is not None else 0.0))
    return out
