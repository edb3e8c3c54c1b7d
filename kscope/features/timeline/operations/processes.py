"""A recording of several processes taken apart: each with its operations, its calls and the ranges of its threads."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscope.features.timeline.operations.kernel_kinds import COMMUNICATION, kind_of
from kscope.model.columns import distinct, taken
from kscope.model.timeline import Calls, GpuOps, Place, Spans, Timeline

_LEAST = 0.05  # share of the busiest process's operations, below which a process is no rank of a job
T = TypeVar("T", GpuOps, Calls, Spans)


def ranks_of(timeline: Timeline) -> list[Timeline]:
    """The processes of a recording that are ranks of one job: two or more that communicate, in the order of their
    devices. Empty where there are none."""
    ops = timeline.ops
    if not timeline.thread_process or not len(ops):
        return []
    found, index = distinct(ops.process)
    if len(found) < 2:
        return []
    sends = np.array([kind_of(name).kind == COMMUNICATION for name in timeline.names] or [False])[ops.name]
    count, sending = np.bincount(index), np.bincount(index, weights=sends)
    first = [int(ops.device[np.argmax(index == i)]) for i in range(len(found))]
    chosen = [i for i in range(len(found)) if sending[i] and count[i] >= _LEAST * count.max()]
    if len(chosen) < 2:
        return []
    chosen.sort(key=lambda i: (first[i], int(found[i])))
    return [_part(timeline, int(found[i]), rank, len(chosen)) for rank, i in enumerate(chosen)]


def _part(timeline: Timeline, process: int, rank: int, world: int) -> Timeline:
    mine = np.array([p == process for p in timeline.thread_process] or [False])

    def spans(table: Spans) -> Spans:
        return _rows(table, (table.thread < 0) | mine[table.thread])

    return msgspec.structs.replace(
        timeline, ops=_rows(timeline.ops, timeline.ops.process == process),
        calls=_rows(timeline.calls, timeline.calls.process == process), syncs=spans(timeline.syncs),
        ranges=spans(timeline.ranges), operators=spans(timeline.operators), overhead=spans(timeline.overhead),
        full=spans(timeline.full), place=Place(rank=rank, world=world, origin=1),
    )  # fmt: skip


def _rows(table: T, mask: NDArray[np.bool_]) -> T:
    """Some rows of a table; the clock of all is the same, so their origin is 1: known, whatever it is."""
    parts: dict[str, Any] = {}
    for name in table.__struct_fields__:
        value = getattr(table, name)
        parts[name] = tuple(taken(v, mask) for v in value) if isinstance(value, tuple) else taken(value, mask)
    return type(table)(**parts)
