"""Steps of a program: repeated ranges of the user, else the period of its launches; and which call launched what."""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct

from kscope.features.timeline.intervals import places
from kscope.model.columns import Column, blocks, column, distinct, is_constant
from kscope.model.timeline import Timeline

_LEAST = 2  # ranges that make steps
_PERIODS = 3  # repetitions that make a period
_SAME = 0.95
_NAMES_TRIED = 24
NUMBER = re.compile(r"\d+")


class Steps(Struct, frozen=True):
    """Disjoint intervals, in order, ns. periodic: found from the launches, times are those of the GPU operations."""

    name: str
    start: Column
    end: Column
    periodic: bool = False


def join(timeline: Timeline) -> Column:
    """For each operation the index of the call of the same process and correlation, -1 where there is none."""
    ops, calls = timeline.ops, timeline.calls
    if not len(ops) or not len(calls):
        return np.full(len(ops), -1, dtype=np.int64)
    width = int(max(ops.correlation.max(), calls.correlation.max())) + 1
    one = is_constant(ops.process) and is_constant(calls.process) and ops.process[0] == calls.process[0]
    if one and int(calls.correlation[0]) > 0 and bool((calls.correlation[1:] > calls.correlation[:-1]).all()):
        out = np.empty(len(ops), dtype=np.int32)
        for rows in blocks(len(ops)):
            at = np.minimum(places(calls.correlation, ops.correlation[rows]), len(calls) - 1)
            out[rows] = np.where(calls.correlation[at] == ops.correlation[rows], at, -1)
        return out
    processes, index = distinct(np.concatenate([ops.process, calls.process]))
    known = np.flatnonzero(calls.correlation > 0)
    key = index[len(ops) :][known] * width + calls.correlation[known]
    wanted = index[: len(ops)] * width + ops.correlation
    if len(processes) * width < 8 * (len(key) + len(wanted)) + (1 << 16):
        table = np.full(len(processes) * width, -1, dtype=np.int64)
        table[key[::-1]] = known[::-1]  # the first call wins
        return np.where(ops.correlation > 0, table[wanted], -1)
    order = np.argsort(key, kind="stable")
    key, known = key[order], known[order]
    at = np.minimum(np.searchsorted(key, wanted), len(key) - 1) if len(key) else np.zeros(len(ops), dtype=np.int64)
    hit = (key[at] == wanted) & (ops.correlation > 0) if len(key) else np.zeros(len(ops), dtype=bool)
    return np.where(hit, known[at] if len(known) else -1, -1)


def find_steps(timeline: Timeline, call_of: Column) -> Steps | None:
    """Ranges of one thread whose names differ in their numbers only and that cover most; else a period; else None."""
    return _from_ranges(timeline) or _from_period(timeline, call_of)


def _from_ranges(timeline: Timeline) -> Steps | None:
    ranges = timeline.ranges
    groups: dict[tuple[str, int], list[int]] = {}
    stems = [NUMBER.sub("#", n) for n in timeline.names]
    for i, (name, thread) in enumerate(zip(ranges.name.tolist(), ranges.thread.tolist(), strict=True)):
        groups.setdefault((stems[name], thread), []).append(i)
    best: tuple[bool, int, Steps] | None = None
    for (stem, _), rows in groups.items():
        at = column(rows)
        start, end = ranges.start[at], ranges.end[at]
        if len(rows) < _LEAST or (start[1:] < end[:-1]).any():
            continue
        counted = "#" in stem or "step" in stem.lower() or "iter" in stem.lower()
        rank = (counted, int((end - start).sum()))
        if best is None or rank > best[:2]:
            best = (*rank, Steps(stem, start, end))
    if best is None or not len(timeline.ops):
        return None
    steps = best[2]
    whole = int(steps.end[-1] - steps.start[0])
    return steps if best[0] and best[1] * 2 >= whole else None


def _from_period(timeline: Timeline, call_of: Column) -> Steps | None:
    """The shortest distance at which the sequence of operations of the busiest device repeats."""
    ops = timeline.ops
    if len(ops) < 2 * _PERIODS:
        return None
    index = distinct(ops.device)[1]
    mine = np.flatnonzero(index == np.argmax(np.bincount(index)))
    calls = timeline.calls.start[call_of[mine]] if len(timeline.calls) else ops.start[mine]
    order = np.lexsort((ops.start[mine], np.where(call_of[mine] >= 0, calls, ops.start[mine])))
    mine = mine[order]
    names = ops.name[mine]
    period = _period(names)
    if period is None:
        return None
    length, first = period
    count = (len(names) - first) // length
    begins = mine[first + length * np.arange(count)]
    start = ops.start[begins]
    if (np.diff(start) <= 0).any():
        return None
    last = int(ops.end[mine[first + length * (count - 1) : first + length * count]].max())
    return Steps(f"period of {length} operations", start, np.append(start[1:], max(last, int(start[-1]))), True)


def _period(names: Column) -> tuple[int, int] | None:
    """(length, offset of the first repetition) of a sequence that is periodic over most of itself."""
    unique, index = distinct(names)
    counts = np.bincount(index)
    order = np.argsort(counts, kind="stable")
    tried: set[int] = set()
    found: list[int] = []
    for name in unique[order][:_NAMES_TRIED]:
        places = np.flatnonzero(names == name)
        if len(places) < _PERIODS:
            continue
        length = int(np.median(np.diff(places)))
        if length < 2 or length in tried or length * _PERIODS > len(names):
            continue
        tried.add(length)
        if float((names[length:] == names[:-length]).mean()) >= _SAME:
            found.append(length)
    if not found:
        return None
    length = min(found)
    same = names[length:] == names[:-length]
    return length, int(np.argmax(same))
