"""What host threads did, added up by the way of calls that led there: the tree of a flame graph, with the GPU time of
what was launched below each name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from kscope.features.timeline.facts import TimelineView
from kscope.features.timeline.operations.steps import NUMBER
from kscope.model.columns import Column
from kscope.model.contract.timeline_detail import OperatorTree
from kscope.model.timeline import Timeline

MOST = 1500
"""Nodes that are kept, the longest; a model that runs thousands of operators has some hundred ways to them."""


class _Paths(Struct):
    """Nodes by (parent, name), a parent before its children. Times in ns. own: not in a child."""

    place: dict[tuple[int, int], int]
    parent: list[int]
    name: list[int]
    count: list[int]
    ns: list[int]
    own: list[int]
    gpu: list[int]

    def of(self, parent: int, name: int) -> int:
        found = self.place.get((parent, name))
        if found is None:
            found = self.place[parent, name] = len(self.parent)
            for column, value in ((self.parent, parent), (self.name, name)):
                column.append(value)
            for column in (self.count, self.ns, self.own, self.gpu):
                column.append(0)
        return found


def threads_of(timeline: Timeline) -> list[tuple[int, str]]:
    """(thread, what it is called) of the threads that called CUDA or ran something named."""
    threads = np.unique(np.concatenate([timeline.calls.thread, timeline.ranges.thread, timeline.operators.thread]))
    alone = len(threads) == 1
    return [(int(t), "host thread" if alone else f"host thread {i}") for i, t in enumerate(threads.tolist())]


def operator_tree(view: TimelineView, named: Callable[[int], int], titled: Callable[[str], int]) -> OperatorTree | None:
    """Ranges and operators inside the window, which cuts those at its ends. named, titled: the place of a name of the
    timeline, or of a text, in the names of the page. None where the recording names nothing."""
    timeline = view.timeline
    steps, one = _numbered(view)
    paths = _Paths({}, [], [], [], [], [], [])
    roots: dict[int, str] = {}
    for thread, title in threads_of(timeline):
        start, end, name = _spans(view, thread)
        if len(start):
            root = paths.of(-1, -1 - thread)
            roots[root] = title
            times, inside = _walk(paths, root, start, end, one[name])
            _launched(view, paths, thread, times, inside)
    texts = dict(roots)
    if steps >= 0 and view.facts.steps is not None:
        texts |= {node: view.facts.steps.name for node, name in enumerate(paths.name) if name == steps}
    return _kept(paths, roots, texts, named, titled) if roots else None


def _numbered(view: TimelineView) -> tuple[int, Column]:
    """(the name that stands for all steps, for each name of the timeline what it is added up as): step0, step1 and so
    on are one. -1 where there are no steps with names."""
    names, steps = view.timeline.names, view.facts.steps
    one = np.arange(max(len(names), 1))
    if steps is None or steps.periodic:
        return -1, one
    same = [i for i, name in enumerate(names) if NUMBER.sub("#", name) == steps.name]
    if not same:
        return -1, one
    one[same] = same[0]
    return same[0], one


def _spans(view: TimelineView, thread: int) -> tuple[Column, Column, Column]:
    """What one thread ran in the window, an enclosing span before what it encloses."""
    timeline, (low, high, _) = view.timeline, view.facts.window
    columns = []
    for spans in (timeline.ranges, timeline.operators):
        mine = (spans.thread == thread) & (spans.end > low) & (spans.start < high)
        columns.append((np.maximum(spans.start[mine], low), np.minimum(spans.end[mine], high), spans.name[mine]))
    start, end, name = (np.concatenate(parts).astype(np.int64) for parts in zip(*columns, strict=True))
    order = np.lexsort((-end, start))
    return start[order], end[order], name[order]


def _walk(paths: _Paths, root: int, start: Column, end: Column, name: Column) -> tuple[Column, Column]:
    """Adds the spans of a thread; answers (times, node that is innermost from each time on)."""
    times, inside = [int(start[0])], [root]
    stack: list[tuple[int, int]] = []
    for s, e, n in zip(start.tolist(), end.tolist(), name.tolist(), strict=True):
        while stack and stack[-1][0] <= s:
            times.append(stack.pop()[0])
            inside.append(stack[-1][1] if stack else root)
        above = stack[-1][1] if stack else root
        node = paths.of(above, n)
        paths.count[node] += 1
        paths.ns[node] += e - s
        paths.own[node] += e - s
        if stack:
            paths.own[above] -= min(e, stack[-1][0]) - s
        else:
            paths.ns[root] += e - s
        stack.append((e, node))
        times.append(s)
        inside.append(node)
    while stack:
        times.append(stack.pop()[0])
        inside.append(stack[-1][1] if stack else root)
    return np.maximum.accumulate(np.array(times, dtype=np.int64)), np.array(inside, dtype=np.int64)


def _launched(view: TimelineView, paths: _Paths, thread: int, times: Column, inside: Column) -> None:
    """Adds the time of GPU operations in the window to the node whose call launched them, and to all above it."""
    timeline, facts = view.timeline, view.facts
    low, high, _ = facts.window
    ops, calls = timeline.ops, timeline.calls
    if not len(calls) or not len(ops):
        return
    call = facts.call_of
    mine = np.flatnonzero((call >= 0) & (calls.thread[call] == thread) & (ops.start < high) & (ops.end > low))
    part = np.minimum(ops.end[mine], high) - np.maximum(ops.start[mine], low)
    at = np.searchsorted(times, calls.start[call[mine]], side="right") - 1
    known = at >= 0
    gained = np.bincount(inside[at[known]], weights=part[known].astype(np.float64), minlength=len(paths.parent))
    for node in np.flatnonzero(gained).tolist():
        up = node
        while up >= 0:
            paths.gpu[up] += int(gained[node])
            up = paths.parent[up]


def _kept(
    paths: _Paths, roots: dict[int, str], texts: dict[int, str], named: Callable[[int], int],
    titled: Callable[[str], int],
) -> OperatorTree:  # fmt: skip
    """The longest nodes with all above them, in the order of their making. texts: of nodes with a name of our own."""
    longest = sorted(range(len(paths.ns)), key=lambda node: (node not in roots, -paths.ns[node], node))[:MOST]
    chosen: set[int] = set()
    for node in longest:
        while node >= 0 and node not in chosen:
            chosen.add(node)
            node = paths.parent[node]
    order = sorted(chosen)
    place = {node: i for i, node in enumerate(order)}
    return OperatorTree(
        name=[titled(texts[n]) if n in texts else named(paths.name[n]) for n in order],
        parent=[place.get(paths.parent[n], -1) for n in order], count=[paths.count[n] for n in order],
        ns=[paths.ns[n] for n in order], own=[max(paths.own[n], 0) for n in order], gpu=[paths.gpu[n] for n in order],
        left_out=len(paths.ns) - len(order),
    )  # fmt: skip
