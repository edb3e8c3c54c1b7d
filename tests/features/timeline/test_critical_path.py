"""The critical path: pieces without gaps, each of them where the recording says that something was waited for."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kscope.engine.run import analyze_paths
from kscope.features.timeline.facts import TimelineView
from kscope.features.timeline.gaps.critical_path import KINDS, CriticalPath, critical_path, kernels, on_host
from kscope.parsers.timeline import kineto, nsys
from tests.support import traces

CASES = ("item_loop.json", "launch_bound.json", "gpu_bound.json", "sync_bound.json", "memcpy_bound.json", "rnn.json",
         "train_step.json", "launch.sqlite", "busy.sqlite")  # fmt: skip
HOST, GPU, BETWEEN = (KINDS.index(kind) for kind in ("host", "gpu", "between"))


@cache
def walked(case: str) -> tuple[TimelineView, CriticalPath]:
    path = traces.path(case.partition(".")[0])
    view = TimelineView((nsys if ".sqlite" in case else kineto).read(path))
    assert view.critical is not None
    return view, view.critical


@pytest.mark.parametrize("case", CASES)
def test_pieces_follow_one_another_and_add_up(case: str) -> None:
    view, path = walked(case)
    assert (path.end > path.start).all() and (path.start[1:] == path.end[:-1]).all()
    last = max(int(view.timeline.ops.end.max()), int(view.timeline.calls.end.max()))
    assert path.end[-1] == last and path.start[0] >= view.facts.window[0]
    whole = int(path.end[-1] - path.start[0])
    assert sum(path.time(kind) for kind in KINDS) == whole
    assert sum(ns for _, ns in on_host(view.facts, path)) == path.time("host")
    assert sum(ns for _, ns in kernels(view.facts, path)) == pytest.approx(path.time("gpu"), abs=1)


@pytest.mark.parametrize("case", CASES)
def test_before_each_piece_of_the_host_something_was_over(case: str) -> None:
    """An operation that a wait was for, or nothing before it; and before each operation its launch, on that thread."""
    view, path = walked(case)
    calls, ends = view.timeline.calls, set(view.timeline.ops.end.tolist())
    pieces = np.flatnonzero(path.kind == HOST).tolist()
    assert pieces
    for i in pieces:
        assert int(path.start[i]) in ends or i == 0
        issued = calls.start[calls.thread == path.thread[i]]
        assert int(path.end[i]) in set(issued.tolist()) | {int(path.end[-1])}


def test_what_a_full_queue_hides_is_not_on_the_path() -> None:
    path = walked("gpu_bound.json")[1]
    assert path.time("gpu") / int(path.end[-1] - path.start[0]) > 0.95
    path = walked("launch_bound.json")[1]
    assert path.time("host") / int(path.end[-1] - path.start[0]) > 0.95


def test_synchronisations_alternate_with_the_host() -> None:
    """`.item()` in a loop: operations are on the path where the program waited for them."""
    view, path = walked("item_loop.json")
    calls, ops = view.timeline.calls, view.timeline.ops
    blocking = view.causes.calls["sync"] | view.causes.calls["copy"]
    awaited = {int(ops.end.max())}
    for start, end in zip(calls.start[blocking].tolist(), calls.end[blocking].tolist(), strict=True):
        over = ops.end[ops.end <= end]
        awaited |= {int(over.max())} if len(over) and int(over.max()) > start else set()
    ends = [
        int(path.end[i + 1] if i + 1 < len(path.kind) and path.kind[i + 1] == BETWEEN else path.end[i])
        for i in np.flatnonzero(path.kind == GPU).tolist()
    ]
    assert len(ends) > 100 and set(ends) <= awaited
    assert critical_path(view.facts, np.zeros(len(calls), dtype=bool)) is not None


def test_figures_and_words(tmp_path: Path) -> None:
    (one,) = analyze_paths([traces.path("item_loop")]).timelines
    path = one.critical
    assert path is not None
    assert path.gpu_pct + path.between_pct + path.launch_pct + path.host_pct == pytest.approx(100, abs=0.01)
    assert path.parts == sorted(path.parts, key=lambda part: -part.us) and len(path.pieces) <= 300
    assert all(begin < end for begin, end, _ in path.pieces)
    text = traces.plain("item_loop").decode()
    bare = tmp_path / "host.json"
    kept = [line for line in text.splitlines() if '"cat":"kernel"' not in line and "gpu_mem" not in line]
    bare.write_text("\n".join(kept))
    (host,) = analyze_paths([bare]).timelines
    assert host.critical is None
