"""The operators of a recording as figures: their GPU time, and who called them."""

from __future__ import annotations

import numpy as np

from kscope.engine.timelines.operator_roofline import rooflines
from kscope.features.timeline.facts import TimelineView
from kscope.features.timeline.operations.operators import Operators
from kscope.model.columns import Column, distinct
from kscope.model.contract.timeline_figures import OperatorFigures
from kscope.model.errors import one_line

MOST = 40
_LEAST = 1e-3  # of the time of all operations: below, an operator is in no table
_CALLERS = 2


def operators(view: TimelineView) -> list[OperatorFigures]:
    """Those of most GPU time of their own first. Empty where the recording has no operator that issued anything."""
    found, names = view.operators, view.timeline.names
    if not len(view.timeline.operators) or not found.own.any():
        return []
    spans, active = view.timeline.operators, found.active
    whole = int(found.own.sum()) + sum(time for _, time in found.without.values())
    numbers, index = distinct(spans.name[active])
    at_work = found.total > 0
    parts = found.own, found.total * _outermost(found, index), at_work, (spans.end - spans.start)[active] * at_work
    own, total, count, host = (np.bincount(index, weights=w, minlength=len(numbers)).tolist() for w in parts)
    roof = rooflines(view)
    out = [
        OperatorFigures(
            name=one_line(names[int(numbers[i])])[:200], count=int(count[i]), own_us=round(own[i] / 1e3, 3),
            total_us=round(total[i] / 1e3, 3), share=round(own[i] / whole, 6), host_us=round(host[i] / 1e3, 3),
            callers=_callers(view, index, i), roofline=roof.get(int(numbers[i])),
        )
        for i in range(len(numbers)) if total[i] >= _LEAST * whole
    ]  # fmt: skip
    out += [
        OperatorFigures(
            name=name, count=number, own_us=time / 1e3, total_us=time / 1e3, share=round(time / whole, 6)
        )
        for name, (number, time) in found.without.items()
    ]  # fmt: skip
    return sorted(out, key=lambda o: (-o.own_us, -o.total_us))[:MOST]


def _outermost(found: Operators, index: Column) -> Column:
    """1 for operators that no other of their name is around, else 0: recursion is counted once."""
    out = np.ones(len(index), dtype=np.int64)
    at = found.parent
    while (at >= 0).any():
        out[(at >= 0) & (index[np.maximum(at, 0)] == index)] = 0
        at = np.where(at >= 0, found.parent[at], -1)
    return out


def _callers(view: TimelineView, index: Column, which: int) -> list[str]:
    found, spans = view.operators, view.timeline.operators
    rows = np.flatnonzero((index == which) & (found.parent >= 0) & (found.total > 0))
    around, of = distinct(spans.name[found.active[found.parent[rows]]])
    time = np.bincount(of, weights=found.total[rows], minlength=len(around))
    best = np.argsort(-time, kind="stable")[:_CALLERS]
    return [one_line(view.timeline.names[int(around[i])])[:200] for i in best]
