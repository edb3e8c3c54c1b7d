"""What a set of instructions asks of each unit, as shares of the whole: how a fix that removes them relieves it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kscope.features.counters.units import Demand
from kscope.features.profile.code import Code
from kscope.features.sass.columns import Column, total

PIPES: dict[Demand, tuple[str, ...]] = {
    "fma": ("fma", "fmaheavy", "fp16"), "alu": ("alu",), "xu": ("xu",),
    "fp64": ("fp64",),
    "tensor": ("tensor",), "branches": ("cbu",), "constants": ("adu",), "lsu_instructions": ("lsu",),
    "mio_instructions": ("lsu", "xu", "adu"),
}  # fmt: skip
HEAVY = {"fmaheavy": 1.0, "fp16": 1.0, "fma": 0.5}
"""Weights on the heavy half of the FMA pipe: integer multiplies run there alone, FFMA on either half."""


def left(code: Code, members: Iterable[int], remaining: float) -> dict[Demand, float]:
    """Factor on each demand inside the SM when only `remaining` (0..1) of these instructions is left. Demands on L2
    and device memory are not among them: they depend on what the caches catch."""
    chosen = list(members)
    mine: dict[str, float] = {}
    for i in chosen:
        pipe = code.classes[i].pipe
        mine[pipe] = mine.get(pipe, 0.0) + code.executed[i]
    issued = code.issued_by_pipe

    def of_pipes(weights: Mapping[str, float]) -> float:
        every = sum(w * issued.get(p, 0.0) for p, w in weights.items())
        return sum(w * mine.get(p, 0.0) for p, w in weights.items()) / every if every else 0.0

    def of(column: Column, group: list[int]) -> float:
        every, inside = total(column, group), set(group)
        return total(column, [i for i in chosen if i in inside]) / every if every else 0.0

    memory = code.where(lambda ins, op: op.access is not None and op.pipe == "lsu")
    shares: dict[Demand, float] = {demand: of_pipes(dict.fromkeys(pipes, 1.0)) for demand, pipes in PIPES.items()}
    shares["fmaheavy"] = of_pipes(HEAVY)
    if not issued.get("tensor"):  # halves, and constants moved as such (HFMA2.MMA): all that its counter then has
        shares["tensor"] = of_pipes({"fp16": 1.0})
    shares["instructions"] = code.issue_share(chosen)
    shares["l1_wavefronts"] = shares["l1_banks"] = of(code.costs, memory)
    written = [i for i in memory if code.classes[i].access in ("load", "atomic", "matrix_load")]
    shares["l1_writeback"] = of(code.executed, written)
    return {d: 1 - s * (1 - remaining) for d, s in shares.items() if s > 0}


def sectors_share(code: Code, members: Iterable[int]) -> float:
    """Share of the sectors that global accesses touch, 0..1; by executions where sectors were not counted."""
    sectors = code.column("memory_l2_theoretical_sectors_global")
    column = sectors if sectors is not None else code.executed
    spaces = code.where(lambda ins, op: op.space in ("global", "generic") and op.access is not None)
    every = total(column, spaces)
    inside = set(spaces)
    return total(column, [i for i in members if i in inside]) / every if every else 0.0


def written_to_l2(code: Code, members: Iterable[int], served: float) -> float:
    """Share of the sectors that L2 serves (`served`) which are global stores of `members`, 0..1: L1 is written through,
    so each of them is L2's work, however often it is the same address. 0 where sectors were not counted."""
    sectors = code.column("memory_l2_theoretical_sectors_global")
    if sectors is None or not served:
        return 0.0
    spaces = ("global", "generic")
    stores = [i for i in members if code.classes[i].access == "store" and code.classes[i].space in spaces]
    return min(1.0, total(sectors, stores) / served)
