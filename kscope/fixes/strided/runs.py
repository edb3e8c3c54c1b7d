"""Accesses at places of one base that follow each other."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.features.sass.listing import Listing
from kscope.model.operand import memory_operand


def side_by_side(code: Listing, accesses: Sequence[int]) -> list[list[int]]:
    """Accesses by their base, where each base's follow each other without a gap; none where one does not."""
    bases: dict[object, list[tuple[int, int]]] = {}
    for i in accesses:
        address = memory_operand(code[i].operands)
        if address is None:
            return []
        bases.setdefault((address.bases, code[i].guard, code[i].guard_negated), []).append((address.value, i))
    out = []
    for run in bases.values():
        run.sort()
        ends = [at + code.classes[i].bytes for at, i in run]
        if len(run) < 2 or [at for at, _ in run[1:]] != ends[:-1]:
            return []
        out.append([i for _, i in run])
    return out
