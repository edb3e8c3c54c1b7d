"""Steps of a program: repeated ranges of the user, else the period of its launches; and which call launched what.

A host that does not wait issues a step faster than the GPU works it off: what a step takes is its period on the device
(`begin`, `until`), never the length of the host's range.
"""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.features.timeline.operations.intervals import places
from kscope.features.timeline.operations.medians import median
from kscope.model.columns import Column, blocks, column, combinations, different, distinct, is_constant
from kscope.model.timeline import Timeline

_LEAST = 2  # ranges that make steps
_PERIODS = 3  # repetitions that make a period
_SAME = 0.95
_NAMES_TRIED = 24
NUMBER = re.compile(r"\d+")


# What no step is called, however often it is numbered: parts of one, and what a loader or the optimizer does.
_PART = re.compile(
    r"(?i)data_?loader|optimizer|fsdp::|nccl:|c10d|layer|module|expert|zero_grad|all_?gather|all_?reduce|warm.?up"
)
_MAYBE_PART = re.compile(r"(?i)forward|backward|block|head|stage|chunk|micro.?batch|bucket|compile|load|fetch|save")
_STEP = re.compile(r"(?i)(^|[^a-z])(train\w*[ _.-]?)?(step|iter(ation)?|batch|epoch)s?([^a-z]|$)|Step#")
WARM_UP = re.compile(r"(?i)warm.?up")
MEASURED = re.compile(r"(?i)^(profile[dr]?|measure[d]?|measurement|timed|benchmark|steady([ _-]state)?)\b")


class Steps(Struct, frozen=True):
    """Disjoint intervals, in order, ns. start, end: of the host's ranges. begin, until: on the device; a step begins
    when the host has begun it and all that was issued before is done, at the latest with its first operation, and the
    last one lasts until the host and its operations are through. periodic: found from the launches, all times are those
    of the operations."""

    name: str
    start: Column
    end: Column
    begin: Column
    until: int
    periodic: bool = False

    @property
    def length(self) -> Column:
        """What each step takes, ns."""
        return np.diff(self.begin, append=self.until)


def projected(steps: Steps, timeline: Timeline, issued: Column, tied: NDArray[np.bool_]) -> Steps:
    """The steps with `begin` and `until` on the device. issued: when each operation was; tied: whether a call tells."""
    ops = timeline.ops
    if steps.periodic or not len(ops):
        return steps
    count = len(steps.start)
    of = np.searchsorted(steps.start, issued, side="right") - 1
    of = np.where(issued > steps.end[-1], count, of)
    if not tied.all() and 2 * int(tied.sum()) >= len(tied):
        of = _as_before(of, tied, ops.device, ops.stream)
    first = np.full(count, np.iinfo(np.int64).max)
    reach = np.full(count + 1, np.iinfo(np.int64).min)  # of what was issued before each step, and of all of them
    inside = (of >= 0) & (of < count)
    np.minimum.at(first, of[inside], ops.start[inside])
    np.maximum.at(reach, of[of < count] + 1, ops.end[of < count])
    reach = np.maximum.accumulate(reach)
    begin = np.minimum(first, np.maximum(steps.start, reach[:-1]))
    until = max(int(steps.end[-1]), int(reach[-1]))
    return Steps(steps.name, steps.start, steps.end, np.maximum.accumulate(begin), until)


def _as_before(of: Column, tied: NDArray[np.bool_], device: Column, stream: Column) -> Column:
    """The steps of operations; of those whose launch was not recorded that of the one before on the stream, -1 for the
    first: they were issued before the recording."""
    out = of.copy()
    for key in combinations(device, stream):
        rows = np.flatnonzero((device == key[0]) & (stream == key[1]))
        last = np.maximum.accumulate(np.where(tied[rows], np.arange(len(rows)), -1))
        out[rows] = np.where(last >= 0, of[rows[np.maximum(last, 0)]], -1)
    return out


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


def find_steps(timeline: Timeline, call_of: Column, issued: Column) -> Steps | None:
    """Ranges of one thread whose names differ in their numbers only and that cover most; else a period; else None.
    issued: when each operation was."""
    found = _from_ranges(timeline)
    return (found and _with_work(found, issued)) or _from_period(timeline, call_of)


def _with_work(steps: Steps, issued: Column) -> Steps | None:
    """Without steps at either end in which nothing was issued: a profiler that stops behind its last step leaves an
    empty one. None where too few are left."""
    of = np.searchsorted(steps.start, issued, side="right") - 1
    of = of[(of >= 0) & (issued <= steps.end[of])]
    if not len(of):
        return steps
    some = slice(int(of.min()), int(of.max()) + 1)
    start, end = steps.start[some], steps.end[some]
    return Steps(steps.name, start, end, start, int(end[-1])) if len(start) >= _LEAST else None


def _from_ranges(timeline: Timeline) -> Steps | None:
    ranges = timeline.ranges
    groups: dict[tuple[str, int], list[int]] = {}
    stems = [NUMBER.sub("#", n) for n in timeline.names]
    warm = _warm_up_ends(timeline)
    for i, (name, thread) in enumerate(zip(ranges.name.tolist(), ranges.thread.tolist(), strict=True)):
        if int(ranges.start[i]) >= warm:
            groups.setdefault((stems[name], thread), []).append(i)
    best: tuple[int, int, Steps] | None = None
    for (stem, _), rows in groups.items():
        at = column(rows)
        start, end = ranges.start[at], ranges.end[at]
        if len(rows) < _LEAST or (start[1:] < end[:-1]).any():
            continue
        numbered = len(different(ranges.name[at]))
        rank = (_likely(stem, numbered == len(rows)), int((end - start).sum()))
        if rank[0] and (best is None or rank > best[:2]):
            best = (*rank, Steps(stem, start, end, start, int(end[-1])))
    if best is None or not len(timeline.ops):
        return None
    steps = best[2]
    whole = int(steps.end[-1] - steps.start[0])
    return steps if best[1] * 2 >= whole else None


def _warm_up_ends(timeline: Timeline) -> int:
    """When the last range called warm-up is over; before all times where there is none."""
    named = np.array([WARM_UP.search(n) is not None for n in timeline.names] or [False])
    mine = timeline.ranges.end[named[timeline.ranges.name]] if len(timeline.ranges) else timeline.ranges.end
    return int(mine.max(initial=np.iinfo(np.int64).min))


def _likely(stem: str, counted: bool) -> int:
    """How sure a range is a step: 3 the profiler's own, 2 called one, 1 numbered, each number once, 0 it is none."""
    if stem.startswith("ProfilerStep"):
        return 3
    if _PART.search(stem):
        return 0
    if _STEP.search(stem):
        return 2
    return int("#" in stem and counted and not _MAYBE_PART.search(stem))


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
    last = max(last, int(start[-1]))
    return Steps(f"period of {length} operations", start, np.append(start[1:], last), start, last, True)


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
        length = int(median(np.diff(places)))
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
