"""What a set of instructions asks of each unit, as shares of the whole: how a fix that removes them relieves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kscope.features.code import Code
from kscope.features.columns import total
from kscope.features.opcodes import OpClass

PIPES: dict[str, tuple[str, ...]] = {
    "fma": ("fma", "fmaheavy", "fp16"), "fmaheavy": ("fmaheavy", "fp16"), "alu": ("alu",), "xu": ("xu",),
    "fp64": ("fp64",),
    "tensor": ("tensor",), "branches": ("cbu",), "constants": ("adu",), "lsu_instructions": ("lsu",),
    "mio_instructions": ("lsu", "xu", "adu"),
}  # fmt: skip


def left(code: Code, members: Iterable[int], remaining: float) -> dict[str, float]:
    """Factor on each demand inside the SM when only `remaining` (0..1) of these instructions is left. Demands on L2
    and device memory are not among them: they depend on what the caches catch."""
    chosen = list(members)

    def share(column: list[float], among: Callable[[OpClass], bool]) -> float:
        every = sum(x for x, op in zip(column, code.classes, strict=True) if x and among(op))
        mine = sum(column[i] for i in chosen if among(code.classes[i]))
        return mine / every if every else 0.0

    def memory(op: OpClass) -> bool:
        return op.access is not None and op.pipe == "lsu"

    shares = {d: share(code.executed, lambda op, pipes=pipes: op.pipe in pipes) for d, pipes in PIPES.items()}  # type: ignore[misc]
    shares["instructions"] = code.issue_share(chosen)
    shares["l1_wavefronts"] = shares["l1_banks"] = share(code.costs, memory)
    shares["l1_writeback"] = share(code.executed, lambda op: op.access in ("load", "atomic", "matrix_load"))
    return {d: 1 - s * (1 - remaining) for d, s in shares.items() if s > 0}


def sectors_share(code: Code, members: Iterable[int]) -> float:
    """Share of the sectors that global accesses touch, 0..1; by executions where sectors were not counted."""
    sectors = code.column("memory_l2_theoretical_sectors_global")
    column = sectors if sectors is not None else code.executed
    spaces = code.where(lambda ins, op: op.space in ("global", "generic") and op.access is not None)
    every = total(column, spaces)
    inside = set(spaces)
    return total(column, [i for i in members if i in inside]) / every if every else 0.0
