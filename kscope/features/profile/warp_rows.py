"""Rows that a warp walks together: its lanes side by side, a warp's width on from round to round, and joined by
shuffles over all of them. How many elements a row has shows in the lanes that load one; a row of fewer than half a
warp leaves most lanes idle, and all of them pay what is paid once a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from kscope.features.profile.code import Code
from kscope.features.sass.graph import reached
from kscope.features.sass.slices import pointer
from kscope.isa.families import family

LANES = 32
UNROLLED = (1, 2, 4, 8)  # rounds that the compiler makes one
FULL = 24  # lanes on average, from which the whole warp joins
_SHUFFLES = family("lane_shuffle")
_JOINS = frozenset({"BFLY", "DOWN"})


class WarpRows(Struct, frozen=True):
    """`elements` of a row on average, `rows` that warps join, `loads` of the rows' elements."""

    elements: float
    rows: float
    loads: tuple[int, ...]


def warp_rows(
    code: Code, stride: Callable[[int], int | None], steps: Callable[[int], Sequence[int]]
) -> WarpRows | None:
    """stride: bytes between the lanes of an access; steps: those from round to round. None where warps walk no rows."""
    joins = _joins(code)
    if not joins:
        return None
    arrays = dict[str | None, list[int]]()
    for i in code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load")):
        if code.cfg.loop_of[i] is None or stride(i) != (each := code.classes[i].bytes):
            continue
        found = steps(i)
        if found and all(step in [LANES * each * u for u in UNROLLED] for step in found):
            arrays.setdefault(pointer(code, i), []).append(i)
    if not arrays:
        return None
    loads = max(arrays.values(), key=lambda way: sum(code.threads[i] for i in way))
    joins = [i for i in joins if i in reached(loads, code.defuse.consumers)]  # of what these loads bring
    if not joins:
        return None
    rows = float(max(code.executed[i] for i in joins))
    return WarpRows(sum(float(code.threads[i]) for i in loads) / rows, rows, tuple(loads))


def _joins(code: Code) -> list[int]:
    """Shuffles between lanes half a warp apart, of trees over whole warps; none where a tree spans fewer lanes."""
    shuffles = [i for i in code.ran(code.where(lambda ins, op: ins.opcode in _SHUFFLES)) if _JOINS & set(code[i].mods)]
    far = {i: {o.value for o in code[i].operands if o.kind == "integer"} for i in shuffles}
    if not {d for values in far.values() for d in values} >= {1 << step for step in range(5)}:
        return []
    return [i for i in shuffles if LANES // 2 in far[i] and code.threads[i] >= FULL * code.executed[i]]
