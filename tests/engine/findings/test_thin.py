"""What few samples say is worth as much as their count."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.engine.findings.thin import FEW, FIRM, HANDFUL
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding
from kscope.model.kernel import Counters, Kernel


def thinned(kernel: Kernel, keep: float) -> Kernel:
    """The same profile with a part of its samples, as a coarser sampling interval would give it."""
    assert kernel.counters is not None
    columns = {
        name: [round(v * keep) for v in column] if "pcsamp" in name else column
        for name, column in kernel.counters.by_name.items()
    }
    return msgspec.structs.replace(kernel, counters=Counters(kernel.counters.offsets, columns))


def of(kernel: Kernel, code: str) -> Finding:
    return next(f for f in analyze_kernel(kernel, "k").findings if f.code == code)


@pytest.mark.parametrize(("case", "code"), [("bank_conflict.slow", "MEM103"), ("bags.sentinel", "LAT302")])
def test_a_range_widens_as_samples_thin_out(case: str, code: str, facts: Callable[[str], Facts]) -> None:
    """Its upper end stays where a roof holds it."""
    kernel = facts(case).kernel
    many = of(kernel, code)
    total = Facts(kernel).counters.stalls.samples
    assert total > FEW and "samples in all" not in many.why
    few = of(thinned(kernel, 150 / total), code)
    assert many.estimate is not None and few.estimate is not None
    below = [one.estimate.low / one.estimate.speedup for one in (few, many)]  # the point moves with what was sampled
    assert below[0] < below[1] and few.estimate.high >= 0.95 * many.estimate.high
    assert few.confidence < many.confidence
    assert "samples in all: shares are no surer than that." in few.why


def test_counters_are_not_samples(facts: Callable[[str], Facts]) -> None:
    kernel = facts("small_grid.slow").kernel
    total = Facts(kernel).counters.stalls.samples
    thin = of(thinned(kernel, 200 / total), "GRD401")
    assert thin.confidence == of(kernel, "GRD401").confidence and "in all" not in thin.why


def test_a_handful_is_set_aside(facts: Callable[[str], Facts]) -> None:
    kernel = facts("bank_conflict.slow").kernel
    total = Facts(kernel).counters.stalls.samples
    found = [f for f in analyze_kernel(thinned(kernel, 5 / total), "k").findings if f.code == "MEM103"]
    assert HANDFUL > 1 and FIRM < 1
    assert all(f.severity == "info" and f.order.startswith("set aside") for f in found)


def test_what_warps_in_a_queue_wait_for_elsewhere_comes_after_the_queue(facts: Callable[[str], Facts]) -> None:
    """All but one slice of L2 idle: shares of other instructions are of warps that stand in line for it."""
    analysis = analyze_kernel(facts("atomics.slow").kernel, "k")
    first, *others = [f for f in analysis.findings if f.severity != "info"]
    assert first.code == "MEM109" and first.order.startswith("first: ") and others
    assert all(f.first == ["MEM109"] and f.order == "first MEM109, then this" for f in others)
    beside = analyze_kernel(facts("bank_conflict.slow").kernel, "k")
    assert not any("MEM109" in f.first for f in beside.findings)
