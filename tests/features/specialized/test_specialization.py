"""Shares of the roles' time and what the unit loses, on captures of our own GEMM at its dial settings."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.features.specialized.specialization import Specialization
from kscope.model.contract.analysis import KernelAnalysis
from kscope.model.kernel import Kernel

CASES = ("ws_gemm.best", "ws_gemm.stages2", "ws_gemm.produce_exposed", "ws_gemm.epilogue_exposed", "ws_gemm.k256",
         "ws_gemm.block_a_tile", "tma_scale.stages2")  # fmt: skip


@pytest.fixture(scope="module")
def pipeline(kernel: Callable[[str], Kernel]) -> Callable[[str], Specialization]:
    def found(case: str) -> Specialization:
        sp = Facts(kernel(case)).specialized.pipeline
        assert sp is not None
        return sp

    return found


@pytest.mark.parametrize("case", CASES)
def test_shares_add_up_inside_their_bounds(case: str, pipeline: Callable[[str], Specialization]) -> None:
    for time in pipeline(case).times:
        parts = (time.priming, time.issued, time.covered, time.exposed, time.drain)
        assert sum(p.point for p in parts) == pytest.approx(1, abs=0.02)
        assert all(0 <= p.low <= p.point + 1e-9 and p.point <= p.high + 1e-9 for p in parts)


@pytest.mark.parametrize(
    ("case", "cause"),
    [
        ("ws_gemm.stages2", "data"),
        ("ws_gemm.produce_exposed", "data"),
        ("tma_scale.stages2", "data"),
        ("ws_gemm.epilogue_exposed", "epilogue"),
        ("ws_gemm.block_a_tile", "turnover"),
        ("ws_gemm.k256", "fill"),
    ],
)
def test_the_planted_loss_is_the_largest(
    case: str, cause: str, pipeline: Callable[[str], Specialization]
) -> None:
    loss = pipeline(case).loss
    assert loss is not None
    parts = {n: getattr(loss, n) for n in ("fill", "drain", "turnover", "data", "epilogue", "loop", "pipe")}
    assert max(parts, key=lambda n: parts[n]) == cause


def test_the_producer_is_late_or_waits(pipeline: Callable[[str], Specialization]) -> None:
    late, shallow = pipeline("ws_gemm.produce_exposed").slot_waits, pipeline("ws_gemm.stages2").slot_waits
    assert late is not None and shallow is not None
    assert late < 0.1 and shallow > 0.8


def test_covered_waits_leave_the_adjusted_stalls(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    """Half of all samples are barrier: idle warps at the cluster barrier, and waits for products in flight."""
    stalls = {s.reason: s for s in diagnosis("ws_gemm.best").stalls}
    assert stalls["barrier"].share_raw > 0.4 and stalls["barrier"].share_adjusted < 0.02
    assert all(s.low <= s.share_adjusted <= s.high for s in stalls.values())
    exposed = {s.reason: s for s in diagnosis("ws_gemm.stages2").stalls}["long_scoreboard"]
    assert exposed.share_adjusted > 0.2


@pytest.mark.parametrize("case", CASES)
def test_the_first_suggestion_is_the_planted_cause(
    case: str, diagnosis: Callable[[str], KernelAnalysis]
) -> None:
    wanted = {
        "ws_gemm.best": "CMP208", "ws_gemm.stages2": "ASY504", "ws_gemm.produce_exposed": "ASY502",
        "ws_gemm.epilogue_exposed": "ASY503", "ws_gemm.k256": "ASY501", "ws_gemm.block_a_tile": "ASY501",
        "tma_scale.stages2": "ASY504",
    }  # fmt: skip
    assert diagnosis(case).findings[0].code == wanted[case]


def test_without_timelines_only_bounds(kernel: Callable[[str], Kernel]) -> None:
    k = msgspec.structs.replace(kernel("ws_gemm.best"), timelines=None)
    sp = Facts(k).specialized.pipeline
    assert sp is not None and sp.tier == "C" and sp.loss is None
    main = sp.time_of(sp.main)
    assert main is not None and main.priming.high > main.priming.point
