"""What the charts of the HTML report draw, against the figures that stand beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kscope.engine.kernels.specialized import warp_specialization
from kscope.features.facts import Facts
from kscope.features.views.charts import pm, roofs
from kscope.parsers.files.inputs import open_input
from kscope.parsers.ncu import worker
from kscope.parsers.ncu.kernels import to_kernel
from tests.support.dials import DIALS
from tests.support.reports import fixture

BUBBLY = ("ws_gemm.tiles2", "ws_gemm.epilogue_slow", "ws_gemm.epilogue_exposed_k2048", "tma_scale.stages2")


def drawn(path: object) -> Facts:
    with open_input(str(path)) as plain:
        raw = next(iter(worker.extract_all(str(plain), worker.Want(charts=True))))
    return Facts(to_kernel(raw, str(path)))


@pytest.mark.parametrize("case", BUBBLY)
def test_as_many_bubbles_are_shaded_as_counted(case: str) -> None:
    facts = drawn(fixture(case, DIALS))
    chart, found = pm(facts), warp_specialization(facts)
    assert chart is not None and found is not None and found.timeline is not None
    assert len(chart.bubbles) == found.timeline.bubbles > 0
    edges = [edge for bubble in chart.bubbles for edge in bubble]
    assert edges == sorted(edges), "one after the other, none inside another"
    end = len(chart.series[0].values) * chart.bin_ns
    assert chart.fill_ns * 0.5 <= edges[0] and edges[-1] <= end - chart.drain_ns * 0.5


@pytest.mark.parametrize("path", [fixture("ws_gemm.epilogue_exposed"), fixture("ws_gemm.tiles2", DIALS)])
def test_bubbles_are_where_the_unit_idles(path: Path) -> None:
    """Inside them the tensor pipe is lower than outside, between fill and drain, and no drop is outside."""
    facts = drawn(path)
    chart = pm(facts)
    assert chart is not None
    values = next(s.values for s in chart.series if s.title == "tensor pipe")
    inside = {i for a, b in chart.bubbles for i in range(round(a / chart.bin_ns), round(b / chart.bin_ns))}
    steady = range(int(chart.fill_ns / chart.bin_ns) + 2, len(values) - int(chart.drain_ns / chart.bin_ns) - 2)
    low = [values[i] for i in steady if i in inside]
    high = [values[i] for i in steady if i not in inside]
    assert sum(low) / len(low) < 0.75 * sum(high) / len(high)
    until = round(chart.bubbles[-1][1] / chart.bin_ns)  # behind, SMs have less and less to do
    assert all(values[i] > 70 for i in steady if i not in inside and i < until)
    assert facts.specialized.pipeline is not None and facts.specialized.pipeline.activity is not None
    sampled = [round(100 * v, 1) for v in facts.specialized.pipeline.activity.lines["tensor"].values]
    assert values[: len(sampled)] == sampled, "each sample in a bin of its own"


@pytest.mark.parametrize("case", ["tma_scale.stages2", "ws_gemm.best", "bank_conflict.fast"])
def test_the_l1_level_has_stores_and_bulk_copies(case: str, facts: Callable[[str], Facts]) -> None:
    """A level nearer to the SM moves at least what the one behind it gives and takes."""
    one = facts(case)
    found = roofs(one)
    assert found is not None
    moved = {level.name: level.bytes_per_s for level in found.levels}
    t, seconds = one.counters.traffic, (one.kernel.duration_ns or 0) / 1e9
    least = t.tma_bytes + 32 * t.global_store_sectors
    assert moved["L1"] * seconds >= least > 0
    assert all(level.peak is None or level.bytes_per_s <= 1.02 * level.peak for level in found.levels)
