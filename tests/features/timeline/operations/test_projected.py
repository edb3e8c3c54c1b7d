"""Streams and ranges on the GPU: counted anew one by one, on recordings and on a made one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kscope.engine.run import analyze_paths
from kscope.features.timeline.facts import TimelineView
from kscope.model.timeline import Timeline
from kscope.parsers.timeline import kineto, nsys
from tests.support import traces
from tests.support.traces import event, launch


def read(name: str) -> Timeline:
    path = traces.path(name)
    return (nsys if ".sqlite" in path.name else kineto).read(path)


@pytest.mark.parametrize("name", ["app", "md", "launch", "train_step", "item_loop"])
def test_queues_are_what_was_issued_and_had_not_begun(name: str) -> None:
    view = TimelineView(read(name))
    ops, (low, high, _) = view.timeline.ops, view.facts.window
    rows = zip(view.facts.issued.tolist(), ops.start.tolist(), ops.end.tolist(), ops.stream.tolist(), strict=True)
    inside = [(issued, start, end, stream) for issued, start, end, stream in rows if end > low and start < high]
    assert {found.stream for found in view.streams} == {row[3] for row in inside}
    for found in view.streams:
        mine = [row for row in inside if row[3] == found.stream]
        assert found.operations == len(mine)
        assert found.busy == sum(min(end, high) - max(start, low) for _, start, end, _ in mine), "one after the other"
        waited = sum(start - min(issued, start) for issued, start, _, _ in mine)
        assert found.queue == pytest.approx(waited / (high - low), rel=1e-6)
        at = [sum(1 for i, s, _, _ in mine if i <= issued < s) for issued, *_ in mine[:: max(len(mine) // 300, 1)]]
        assert found.queue_most is not None and found.queue_most >= max(at)
        assert found.queue_most <= len(mine)


@pytest.mark.parametrize("name", ["app", "launch", "train_step"])
def test_ranges_hold_what_was_issued_in_them(name: str) -> None:
    view = TimelineView(read(name))
    timeline, (low, high, _) = view.timeline, view.facts.window
    ops, ranges, call = timeline.ops, timeline.ranges, view.facts.call_of
    expected: dict[str, list[int]] = {}
    for start, end, number, thread in zip(ranges.start, ranges.end, ranges.name, ranges.thread, strict=True):
        mine = [
            i for i in range(len(ops)) if call[i] >= 0 and ops.end[i] > low and ops.start[i] < high
            and timeline.calls.thread[call[i]] == thread and start <= view.facts.issued[i] <= end
        ]  # fmt: skip
        if mine:
            one = expected.setdefault(re.sub(r"\d+", "#", timeline.names[number]), [0, 0, 0, 0, 0])
            parts = (1, int(end - start), len(mine), sum(int(ops.end[i] - ops.start[i]) for i in mine),
                     max(int(ops.end[i]) for i in mine) - min(int(ops.start[i]) for i in mine))  # fmt: skip
            one[:] = [a + b for a, b in zip(one, parts, strict=True)]
    assert expected
    assert {p.name: [p.count, p.host, p.operations, p.gpu, p.projected] for p in view.projected} == expected


def test_two_streams_and_nested_ranges(tmp_path: Path) -> None:
    """Two operations are queued on one stream while the other idles; the inner range counts in the outer one too."""
    events = [event("user_annotation", "step 1", 0, 100), event("user_annotation", "inner", 0, 12)]
    for i in range(40):
        stream = 7 if i % 4 < 3 else 9
        events += launch(i + 1, 2.5 * i, 20 + 30 * i, 10 if stream == 7 else 20, name=f"k{stream}", stream=stream)
    one = analyze_paths([traces.trace(tmp_path, events)]).timelines[0]
    busy = {s.stream: s for s in one.streams}
    assert busy[7].operations == 30 and busy[7].busy_us == 300 and busy[9].busy_us == 200
    assert busy[7].queued_max is not None and 20 < busy[7].queued_max <= 30 and busy[9].queued_max == 10
    found = {r.name: r for r in one.ranges}
    assert found["step #"].operations == 40 and found["inner"].operations == 5
    assert found["inner"].projected_us == 130 and found["inner"].gpu_us == 60


def test_nothing_is_guessed_without_calls(tmp_path: Path) -> None:
    events = [event("user_annotation", "step 1", 0, 100)]
    events += [launch(i + 1, 2 * i, 20 + 30 * i, 10)[1] for i in range(20)]
    one = analyze_paths([traces.trace(tmp_path, events)]).timelines[0]
    assert one.ranges == [] and [s.queued_mean for s in one.streams] == [None]
