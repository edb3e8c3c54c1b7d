"""GPU time by the operator that issued it: nesting by brute force, small recordings by hand, real ones as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kscope.engine.comparing.compare import compare
from kscope.engine.run import analyze_paths
from kscope.features.timeline.operations.operators import GRAPHS, NONE, Nesting
from kscope.model.contract.analysis import Analysis
from kscope.reports import Options
from kscope.reports.markdown import diff as markdown
from kscope.reports.text import diff as text_of
from tests.support import traces
from tests.support.traces import event, launch


def test_the_innermost_interval_and_the_one_around_it_by_brute_force() -> None:
    random = np.random.default_rng(7)

    def grow(low: int, high: int, deep: int) -> list[tuple[int, int]]:
        out, t = [], low
        while t < high and deep < 5:
            start = t + int(random.integers(0, 4))
            end = start + int(random.integers(0, 12))
            if end > high:
                break
            out.append((start, end))
            if random.random() < 0.6 and end - start > 2:
                out += grow(start + 1, end - 1, deep + 1)
            t = end + 1
        return out

    for _ in range(100):
        spans = sorted(grow(0, 80, 0), key=lambda s: (s[0], -s[1]))
        if not spans:
            continue
        start, end = (np.array(c) for c in zip(*spans, strict=True))
        nested = Nesting(start, end, np.arange(len(spans)) + 100)

        def inner(at: int, among: list[tuple[int, int]]) -> int:
            return max((100 + i for i, (s, e) in enumerate(among) if s <= at <= e), default=-1)

        times = np.arange(81)
        assert nested.innermost(times).tolist() == [inner(int(t), spans) for t in times]
        around = nested.parents(np.arange(len(spans)) + 100)
        assert around.tolist() == [inner(s, spans[:i]) for i, (s, _) in enumerate(spans)]


def _trace(extra: int = 0) -> list[dict[str, Any]]:
    """30 steps: aten::linear around aten::addmm (one kernel of 40 us), aten::add on its own (10 us, or more), and a
    kernel that no operator issued (5 us)."""
    out: list[dict[str, Any]] = []
    for i in range(30):
        at = 1000.0 * i
        out.append(event("user_annotation", f"ProfilerStep#{i}", at, 900))
        out.append(event("cpu_op", "aten::linear", at + 1, 100))
        out.append(event("cpu_op", "aten::addmm", at + 5, 60))
        out += launch(3 * i + 1, at + 10, at + 20, 40, name="sgemm")
        out.append(event("cpu_op", "aten::add", at + 110, 30))
        out += launch(3 * i + 2, at + 115, at + 125, 10 + extra, name="add_kernel")
        out += launch(3 * i + 3, at + 150, at + 160, 5, name="own_kernel")
    return out


def _of(folder: Path, extra: int = 0) -> Analysis:
    folder.mkdir()
    return analyze_paths([traces.trace(folder, _trace(extra))])


def test_own_and_total_time(tmp_path: Path) -> None:
    [one] = _of(tmp_path / "a").timelines
    found = {o.name: o for o in one.operators}
    assert {n: (o.own_us, o.total_us, o.count) for n, o in found.items()} == {
        "aten::addmm": (1200, 1200, 30), "aten::linear": (0, 1200, 30), "aten::add": (300, 300, 30),
        NONE: (150, 150, 30),
    }  # fmt: skip
    assert found["aten::addmm"].callers == ["aten::linear"] and found["aten::linear"].callers == []
    assert one.operators[0].name == "aten::addmm"
    assert sum(o.share for o in one.operators) == pytest.approx(1, abs=1e-5)


def test_diff_names_the_operators_that_changed(tmp_path: Path) -> None:
    before, after = _of(tmp_path / "a"), _of(tmp_path / "b", extra=50)
    found = compare(before, after)
    [pair] = found.timelines
    assert [(c.what, c.before, c.after) for c in pair.operators] == [("aten::add", 10, 60)]
    assert [(c.what, c.before, c.after) for c in pair.kernels] == [("add_kernel", 10, 60)]
    text = text_of.render(found, Options(width=100))
    assert "GPU time a step by operator" in text and "10.0 us -> 60.0 us" in text
    assert "| operator |" in markdown.render(found, Options())


@pytest.mark.parametrize("name", ["mlp_train", "cnn_train", "stack_a", "decoder", "compiled_train", "rnn"])
def test_every_operation_belongs_to_one(name: str) -> None:
    [one] = analyze_paths([traces.path(name)]).timelines
    assert one.operators and len({o.name for o in one.operators}) == len(one.operators)
    named = [o for o in one.operators if o.name not in (GRAPHS, NONE)]
    kernels = sum(k.total_us for k in one.top_kernels)
    assert sum(o.own_us for o in one.operators) >= 0.9 * kernels
    assert all(o.total_us >= o.own_us - 0.01 for o in named)
    assert sum(o.share for o in one.operators) <= 1.0001


def test_replays_of_graphs_have_a_name_and_lone_graphs_no_table() -> None:
    eager, graph = (analyze_paths([traces.path(n)]) for n in ("stack_a", "stack_a_graph"))
    assert graph.timelines[0].operators == []
    [pair] = compare(eager, graph).timelines
    assert pair.operators == []
