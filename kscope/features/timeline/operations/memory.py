"""What the framework's allocator held on each device over time: the peak and who holds it, what is reserved beyond, and
what a step leaves behind. Of recordings with `profile_memory`. Bytes; times in ns.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from kscope.features.timeline.operations.launches import TimelineFacts
from kscope.features.timeline.operations.medians import median
from kscope.features.timeline.operations.operators import NONE, Nesting, holding
from kscope.model.columns import Column, different, distinct
from kscope.model.timeline import Allocations

BEFORE = "(before the recording)"
POINTS = 200  # of a curve: a page is about so many pixels wide
LEAST_STEPS = 3
"""Steps from which on what one leaves behind is told: the first ones make optimizers' states and workspaces."""


class Memory(Struct, frozen=True):
    """One device. peak, at: bytes allocated at most, and when. reserved: at most. holes: reserved and not allocated at
    the peak. holders: (operator, bytes) of what is there then, most first. levels: bytes at the end of each step.
    growth: by which every step ends above the one before, median; 0 where one does not. curve: (time, most allocated,
    most reserved) of equal parts of the recording."""

    device: int
    peak: int
    at: int
    reserved: int
    holes: int
    holders: list[tuple[str, int]]
    levels: list[int]
    growth: int
    curve: list[tuple[int, int, int]]


def memory(facts: TimelineFacts) -> list[Memory]:
    """Of each device; none where allocations were not recorded."""
    found = facts.timeline.allocations
    if found is None or not len(found):
        return []
    return [_device(facts, found, int(device)) for device in distinct(found.device)[0]]


def courses(facts: TimelineFacts, points: int) -> list[tuple[int, list[tuple[int, int, int]]]]:
    """(device, (time, most allocated, most reserved) of that many equal parts of the recording) of each device."""
    found = facts.timeline.allocations
    if found is None or not len(found):
        return []
    out = []
    for device in distinct(found.device)[0].tolist():
        mine = found.device == device
        out.append((device, _curve(found.at[mine], found.allocated[mine], found.reserved[mine], points)))
    return out


def _device(facts: TimelineFacts, found: Allocations, device: int) -> Memory:
    rows = np.flatnonzero(found.device == device)
    at, allocated, reserved = found.at[rows], found.allocated[rows], found.reserved[rows]
    top = int(allocated.argmax())
    levels = _levels(facts, at, allocated)
    rises = np.diff(levels[1:])  # the first step may still make what the others find there
    grows = len(levels) > LEAST_STEPS and bool((rises > 0).all())
    return Memory(
        device=device, peak=int(allocated[top]), at=int(at[top]), reserved=int(reserved.max()),
        holes=max(int(reserved[top] - allocated[top]), 0), holders=_holders(facts, found, rows, top),
        levels=levels.tolist(), growth=int(median(rises)) if grows else 0, curve=_curve(at, allocated, reserved),
    )  # fmt: skip


def _levels(facts: TimelineFacts, at: Column, allocated: Column) -> Column:
    steps = facts.steps
    if steps is None:
        return np.zeros(0, dtype=np.int64)
    last = np.searchsorted(at, steps.end, side="right") - 1
    return allocated[last[last >= 0]]


def _holders(facts: TimelineFacts, found: Allocations, rows: Column, top: int) -> list[tuple[str, int]]:
    """What is there at the peak by the operator that asked for it. An allocation is there until something else happens
    at its address."""
    address, size = found.address[rows], found.bytes[rows]
    order = np.lexsort((np.arange(len(rows)), address))
    same = address[order][1:] == address[order][:-1]
    until = np.full(len(rows), len(rows))
    until[order[:-1][same]] = order[1:][same]
    alive = np.flatnonzero((size > 0) & (np.arange(len(rows)) <= top) & (until > top))
    names = facts.timeline.names
    sums: dict[str, int] = {}
    operator = _operators(facts, found.at[rows[alive]], found.thread[rows[alive]])
    for row, one in zip(operator.tolist(), size[alive].tolist(), strict=True):
        name = names[int(facts.timeline.operators.name[row])] if row >= 0 else NONE
        sums[name] = sums.get(name, 0) + one
    rest = int(found.allocated[rows[top]]) - sum(sums.values())
    if rest > 0:
        sums[BEFORE] = rest
    return sorted(sums.items(), key=lambda kv: -kv[1])


def _operators(facts: TimelineFacts, at: Column, thread: Column) -> Column:
    """Row of the outermost operator that was open at each time on its thread, -1 where none was: `aten::linear` says
    more than the `aten::empty` in it."""
    spans = facts.timeline.operators
    out = np.full(len(at), -1, dtype=np.int64)
    for one in different(thread).tolist() if len(spans) else []:
        mine = np.flatnonzero(thread == one)
        rows = holding(spans, one, np.sort(at[mine]))
        if not len(rows):
            continue
        nesting = Nesting(spans.start[rows], spans.end[rows], rows)
        row = nesting.innermost(at[mine])
        while (inner := np.flatnonzero(row >= 0)).size:  # outwards, as often as the stack is deep
            out[mine[inner]] = row[inner]
            known, back = np.unique(row[inner], return_inverse=True)
            row[inner] = nesting.parents(known)[back]
    return out


def _curve(at: Column, allocated: Column, reserved: Column, points: int = POINTS) -> list[tuple[int, int, int]]:
    edges = np.linspace(int(at[0]), int(at[-1]) + 1, min(points, len(at)) + 1).astype(np.int64)
    first = different(np.searchsorted(at, edges[:-1]))
    first = first[first < len(at)]
    most = (np.maximum.reduceat(column, first).tolist() for column in (allocated, reserved))
    return list(zip(at[first].tolist(), *most, strict=True))
