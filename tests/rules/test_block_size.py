"""GRD404 asks what a larger block would make of the launch, and says so where that is nothing."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding
from kscope.model.kernel import Kernel
from kscope.rules.base import PASSED
from kscope.rules.registry import rule
from tests.support.edit import with_metrics

LANES = "smsp__thread_inst_executed_per_inst_executed.ratio"


def outcome(kernel: Kernel) -> object:
    return rule("GRD404")().run(Facts(kernel))  # type: ignore[attr-defined]


def found(kernel: Kernel) -> Finding:
    said = outcome(kernel)
    assert isinstance(said, Finding)
    return said


def blocks_of(kernel: Kernel, threads: int, shared: int = 0, lanes: float = 4.0) -> Kernel:
    launch = msgspec.structs.replace(kernel.launch, block=(threads, 1, 1), shared_static=shared)
    limits = {
        "launch__occupancy_limit_warps": 64.0, "launch__occupancy_limit_blocks": 32.0, LANES: lanes,
        "launch__occupancy_limit_shared_mem": 32.0, "launch__block_size": float(threads),
    }  # fmt: skip
    return with_metrics(msgspec.structs.replace(kernel, launch=launch), limits)


def test_a_partial_warp_and_its_repair(facts: Callable[[str], Facts]) -> None:
    """Measured: 1.75 times faster with whole warps."""
    finding = found(facts("julia.block6x6").kernel)
    assert finding.estimate is not None and finding.estimate.speedup == pytest.approx(1.75, rel=0.1)
    assert finding.remedies == []


def test_blocks_that_end_as_fast_as_they_start(facts: Callable[[str], Facts]) -> None:
    """31 waves of one-warp blocks, 9 warps an SM where 32 would fit. Measured: 2.21 times faster with 256 threads."""
    known = facts("triton_gather.block32")
    assert known.estimate.starting > 0.9
    finding = found(known.kernel)
    assert finding.estimate is not None and finding.estimate.speedup == pytest.approx(2.21, rel=0.2)
    assert "start" in finding.title


def test_threads_that_search_on_their_own_stay_in_small_blocks(facts: Callable[[str], Facts]) -> None:
    """Four threads a block, 1.4 KiB of shared memory each, 1.5 of 4 lanes active: 32 threads a block would hold as many
    and take longer for each."""
    kernel = blocks_of(facts("nearest.plain").kernel, 4, shared=4 * 1400, lanes=1.5)
    finding = found(kernel)
    assert finding.estimate is not None and finding.estimate.speedup < 1.03
    (against,) = finding.remedies
    assert not against.applies and "different ways" in against.why
    assert "leave the block as it is" in finding.fix


def test_lanes_that_agree_want_whole_warps(facts: Callable[[str], Facts]) -> None:
    finding = found(blocks_of(facts("julia.block32x4").kernel, 4))
    assert finding.estimate is not None and finding.estimate.speedup > 3 and not finding.remedies
    assert "88 % of the lanes idle" in finding.title


def test_whole_blocks_pass(facts: Callable[[str], Facts]) -> None:
    assert outcome(facts("julia.block32x4").kernel) is PASSED
