"""Chips older than the tables, and slots that stand empty because blocks end as fast as they start."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.arch import table
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.model.kernel import Kernel, Metrics

Read = Callable[[str], Kernel]
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"


def on(kernel: Kernel, name: str, cc: tuple[int, int]) -> Kernel:
    return msgspec.structs.replace(kernel, device=msgspec.structs.replace(kernel.device, name=name, cc=cc))


def with_metric(kernel: Kernel, **values: float) -> Kernel:
    names = {"achieved": ACHIEVED}
    metrics = Metrics({**kernel.metrics, **{names[k]: v for k, v in values.items()}}, {})
    return msgspec.structs.replace(kernel, metrics=metrics)


@pytest.mark.parametrize("case", ["uncoalesced.slow", "divergence.slow", "barrier.slow"])
def test_no_advice_for_a_chip_before_the_tables(case: str, kernel: Read) -> None:
    own = kernel(case)
    assert analyze_kernel(own, "a").findings
    found = analyze_kernel(on(own, "NVIDIA GeForce GTX 1080", (6, 1)), "a")
    assert found.findings == [] and found.passed == [] and found.errors == []
    assert {"sm_61 came before" in n.why for n in found.not_applicable} >= {True}
    assert found.next_step is not None and found.next_step.do == "measure" and found.next_step.command is None


def test_the_oldest_chip_of_the_tables_gets_advice(kernel: Read) -> None:
    assert min(int(k) for k in table("sm") if k.isdigit()) == 70
    assert analyze_kernel(on(kernel("uncoalesced.slow"), "Tesla V100-SXM2-32GB", (7, 0)), "a").findings


def test_blocks_that_end_as_fast_as_they_start(kernel: Read) -> None:
    """A kernel told to wait for its own arithmetic, with most of its warps gone: that is not what it waits for."""
    own = kernel("spill.fast")
    full = analyze_kernel(own, "a").verdict
    few = analyze_kernel(with_metric(own, achieved=10.0), "a").verdict
    assert full.regime == "compute"
    assert (few.regime, few.limiter) == ("overhead", "launch") and few.confidence <= 0.5
    assert "blocks end as fast as they start" in few.sentence
