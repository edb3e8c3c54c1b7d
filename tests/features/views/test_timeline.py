"""What the timeline's view is made of: launches tied to what is drawn of them, host operators added up."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import pytest

from kscope.engine.run import analyze_paths
from kscope.features.views import timeline as view
from kscope.model.contract.detail import Detail, TimelineDetail
from tests.support import traces
from tests.support.traces import event, launch, trace


def detail_of(path: Path) -> TimelineDetail:
    detail = Detail()
    analyze_paths([path], detail=detail)
    return detail.timelines[0]


def drawn(detail: TimelineDetail, kind: str) -> list[tuple[int, int, str]]:
    """(start, end, name) of all rows of a kind, in their order."""
    out = []
    for row in detail.rows:
        if row.kind == kind:
            for start, length, name in zip(accumulate(row.start), row.length, row.name, strict=True):
                out.append((start, start + length, detail.names[name]))
    return out


def test_each_operation_names_its_call() -> None:
    detail = detail_of(traces.path("train_step"))
    calls = drawn(detail, "calls")
    (ops,) = (row for row in detail.rows if row.kind == "ops")
    tied = list(accumulate(ops.call))
    assert len(tied) == len(ops.start) and min(tied) > 0
    for start, number in zip(accumulate(ops.start), tied, strict=True):
        begin, _, name = calls[number - 1]
        assert begin <= start and name.startswith(("cudaLaunch", "cuLaunch", "cudaMem"))


def test_merged_operations_have_no_call_and_merged_calls_are_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "MOST", 2000)
    detail = detail_of(traces.path("train_step"))
    assert detail.merged_ns
    calls = drawn(detail, "calls")
    for row in detail.rows:
        for start, count, number in zip(accumulate(row.start), row.count, accumulate(row.call), strict=False):
            assert number <= len(calls)
            assert not number or (count == 1 and calls[number - 1][0] <= start)


def test_operators_are_added_up_by_the_way_to_them(tmp_path: Path) -> None:
    events = []
    for step in range(3):
        at = 1000.0 * step
        events += [
            event("user_annotation", f"step{step}", at, 900), event("cpu_op", "aten::linear", at + 100, 400),
            event("cpu_op", "aten::addmm", at + 200, 100), event("cpu_op", "aten::addmm", at + 600, 50),
            *launch(2 * step + 1, at + 210, at + 300, 80), *launch(2 * step + 2, at + 610, at + 640, 30),
        ]  # fmt: skip
    tree = (detail := detail_of(trace(tmp_path, events))).operators
    assert tree is not None
    path: list[str] = []
    rows = {}
    for i, name in enumerate(tree.name):
        above = path[tree.parent[i]] + "/" if tree.parent[i] >= 0 else ""
        path.append(above + detail.names[name])
        rows[path[-1]] = (tree.count[i], tree.ns[i] // 1000, tree.own[i] // 1000, tree.gpu[i] // 1000)
    top = "host thread/step#"
    assert rows[top] == (3, 3 * 900, 3 * 450, 3 * 110)
    assert rows[f"{top}/aten::linear"] == (3, 3 * 400, 3 * 300, 3 * 80)
    assert rows[f"{top}/aten::linear/aten::addmm"] == (3, 3 * 100, 3 * 100, 3 * 80)
    assert rows[f"{top}/aten::addmm"] == (3, 3 * 50, 3 * 50, 3 * 30), "another way to the same name is a row of its own"
    assert len(rows) == 5


@pytest.mark.parametrize("name", ["train_step", "launch_bound", "decoder"])
def test_own_times_make_the_whole(name: str) -> None:
    tree = detail_of(traces.path(name)).operators
    assert tree is not None and not tree.left_out
    assert all(parent < i for i, parent in enumerate(tree.parent))
    roots = [i for i, parent in enumerate(tree.parent) if parent < 0]
    assert sum(tree.own) == pytest.approx(sum(tree.ns[i] for i in roots), rel=1e-3)
    for i, parent in enumerate(tree.parent):
        assert parent < 0 or (tree.gpu[i] <= tree.gpu[parent] and tree.own[i] <= tree.ns[i])


def test_a_recording_without_names_has_no_tree(tmp_path: Path) -> None:
    assert detail_of(trace(tmp_path, launch(1, 10, 20, 5) + launch(2, 30, 40, 5))).operators is None
