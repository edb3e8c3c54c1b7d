"""L2 is as full as its fullest slice where a few addresses keep that one busy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.counters.hot_slice import beyond_mean
from kscope.features.counters.units import ONE_SLICE, SLICE, SLICES, units
from kscope.features.facts import Facts
from kscope.model.kernel import Kernel
from tests.support.edit import with_metrics
from tests.support.said import found

Known = Callable[[str], Kernel]
CASE = "embed_grad.scatter"  # reductions of floats, nobody waits for one


def asked(kernel: Kernel, mean: float, most: float) -> Kernel:
    return with_metrics(kernel, {SLICES: mean, SLICE: most})


@pytest.mark.parametrize(
    ("mean", "most", "full"),
    [(44.0, 110.0, True), (54.0, 98.0, True), (80.0, 96.0, False), (38.0, 73.0, False), (54.0, 60.0, False)],
)
def test_the_fullest_slice_counts_where_it_is_full(mean: float, most: float, full: bool, kernel: Known) -> None:
    l2 = units(asked(kernel("levels.eight"), mean, most).metrics)["l2"]
    assert (l2.title == ONE_SLICE) == full
    assert any(p.metric == SLICE and p.busy == min(1.0, most / 100) for p in l2.parts) == full
    if full:
        assert l2.load_after({"l2_requests": 0.5}) < l2.load == pytest.approx(min(1.0, l2.load_after({})))
        assert l2.load_after({"l2_slice": 1.0, "l2_requests": 0.5}) == l2.load_after({})  # who says that it stays


def test_what_is_beyond_the_mean_is_the_atomics(kernel: Known) -> None:
    metrics = asked(kernel(CASE), 25.0, 100.0).metrics
    assert beyond_mean(metrics) == pytest.approx(0.75)
    assert SLICE not in kernel(CASE).metrics and beyond_mean(kernel(CASE).metrics) == 0.0


def test_nothing_beside_the_atomics_is_promised_past_a_full_slice(kernel: Known) -> None:
    before, after = Facts(kernel(CASE)), Facts(asked(kernel(CASE), 45.0, 100.0))
    assert after.counters.hot_slice == pytest.approx(100 / 45)
    finding = found("MEM109", after)
    assert finding.estimate is not None and finding.estimate.speedup > 1.1
    assert after.estimate.overlap(4.0).speedup <= before.estimate.overlap(4.0).speedup
    assert after.estimate.overlap(4.0).speedup == pytest.approx(1.0, abs=0.05)
