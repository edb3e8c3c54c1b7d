"""One slice of L2 that atomics keep busy while the others idle."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.counters.hot_slice import hot_slice
from kscope.features.counters.units import units
from kscope.features.facts import Facts
from kscope.model.kernel import Metrics

IDLE = {"sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_elapsed": 1.0}
BUSY = {"dram__throughput.avg.pct_of_peak_sustained_elapsed": 80.0}


def of(most: float, mean: float, reductions: float, extra: dict[str, float]) -> float | None:
    values = {
        "lts__t_sectors.max": most, "lts__t_sectors.avg": mean, "lts__t_sectors.sum": mean * 96,
        "lts__cycles_elapsed.max": 1e6, "lts__t_sectors_srcunit_tex_op_red.sum": reductions, **extra,
    }  # fmt: skip
    metrics = Metrics(values, {})
    return hot_slice(metrics, units(metrics))


@pytest.mark.parametrize(
    ("most", "mean", "reductions", "extra", "hot"),
    [
        (0.8e6, 0.1e6, 5e6, BUSY, 8.0),  # full by what it serves
        (0.46e6, 0.02e6, 1.5e6, IDLE, 23.0),  # all but alone in an idle device: floats to a few addresses
        (0.46e6, 0.02e6, 1.5e6, BUSY, None),  # the same beside a busy memory: that may be what is waited for
        (0.46e6, 0.1e6, 1.5e6, IDLE, None),  # not alone
        (0.2e6, 0.01e6, 1.5e6, IDLE, None),  # too little even for floats
        (0.8e6, 0.7e6, 5e7, BUSY, None),  # all slices work
        (0.8e6, 0.1e6, 1e3, BUSY, None),  # hot, but not by atomics
    ],
)
def test_hot(most: float, mean: float, reductions: float, extra: dict[str, float], hot: float | None) -> None:
    found = of(most, mean, reductions, extra)
    assert found == (pytest.approx(hot) if hot is not None else None)


def test_on_captures(facts: Callable[[str], Facts]) -> None:
    assert (facts("atomics.slow").counters.hot_slice or 0) > 10
    assert facts("atomics.fast").counters.hot_slice is None
    assert facts("dram_bound.triad").counters.hot_slice is None
