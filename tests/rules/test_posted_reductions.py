"""Reductions that nobody waits for: the last warp ends long before L2 has added up, and that time is theirs, not the
launch's (a public kernel whose atomics were added up in each block first took 2.6 times less)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.counters.launch import drained
from kscope.features.facts import Facts
from kscope.model.kernel import Kernel
from kscope.parsers.ncu.kernels import read_kernels
from tests.support.edit import with_metrics

LOSS = "loss_sum"  # 8,192 rows, each adds its loss to one float: 16.6 us, in 9 % of which an SM has work


@pytest.fixture
def loss(report: Callable[[str], Path]) -> Kernel:
    return next(k for k in read_kernels(report("multi_kernels")) if k.name == LOSS)


def test_the_time_behind_the_last_warp_is_the_atomics(loss: Kernel) -> None:
    launch = Facts(loss).counters.launch
    assert launch.outside > 0.9 and launch.own == pytest.approx(1.4 / 16.576, abs=0.01)
    found = analyze_kernel(loss, "x")
    assert (found.verdict.regime, found.verdict.limiter) == ("memory", "atomics")
    first = found.findings[0]
    assert first.code == "MEM109" and "after the last warp" in first.why
    assert first.estimate is not None and first.estimate.speedup > 5
    assert "OVH606" in found.passed, "fusing brings nothing of that"


def test_without_a_busy_slice_it_is_the_launch(loss: Kernel) -> None:
    """The same times, the sectors spread over all slices: nothing says that L2 is at work."""
    metrics = loss.metrics
    spread = with_metrics(loss, {"lts__t_sectors.max": metrics["lts__t_sectors.avg"]})
    assert Facts(spread).counters.launch.behind == 0.0
    found = analyze_kernel(spread, "x")
    assert found.verdict.limiter == "launch" and found.findings[0].code == "OVH606"


def test_a_launch_is_never_more_than_what_is_outside(loss: Kernel) -> None:
    launch = structs.replace(Facts(loss).counters.launch, behind=0.0)
    assert drained(launch, 1e6).behind == 0.0
    assert drained(structs.replace(launch, timed=False), 1.4).behind == 0.0
