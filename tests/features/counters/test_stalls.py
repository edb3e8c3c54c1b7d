"""What warps wait for: exact counters where the report has them, samples where not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.features.counters.stalls import COUNTER, SAMPLED, stall_mix
from kscope.model.kernel import Counters, Kernel
from tests.support import reports
from tests.support.edit import made, without_metrics


def counted(name: str) -> bool:
    return name.startswith("smsp__average_warps_issue_stalled_")


@pytest.mark.parametrize("case", reports.chosen_cases())
def test_sums_to_one(case: str, kernel: Callable[[str], Kernel]) -> None:
    exact = stall_mix(kernel(case))
    assert exact.exact and exact.latency is not None and exact.latency > 0
    assert sum(exact.share.values()) == pytest.approx(1)
    assert all(0 < share <= 1 for share in exact.share.values())
    sampled = stall_mix(without_metrics(kernel(case), counted))
    assert not sampled.exact and sampled.samples == exact.samples > 0
    assert sum(sampled.share.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    "case", ["bank_conflict.slow", "uncoalesced.slow", "sgemm.tiled", "atomics.slow", "spill.slow"]
)
def test_samples_tell_the_same(case: str, kernel: Callable[[str], Kernel]) -> None:
    """Two measurements of one thing: tens of thousands of samples come within a few percent of the counters."""
    exact, sampled = stall_mix(kernel(case)), stall_mix(without_metrics(kernel(case), counted))
    for reason in set(exact.share) | set(sampled.share):
        assert exact.of(reason) == pytest.approx(sampled.of(reason), abs=0.06), reason
    assert exact.waiting()[0][0] == sampled.waiting()[0][0]


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("bank_conflict.slow", "mio_throttle"), ("uncoalesced.slow", "lg_throttle"), ("barrier.slow", "barrier"),
        ("dependency_chain.slow", "wait"), ("occupancy_smem.slow", "long_scoreboard"),
        ("local_array.slow", "lg_throttle"),
    ],
)  # fmt: skip
def test_leading_wait(case: str, reason: str, kernel: Callable[[str], Kernel]) -> None:
    assert reason in [r for r, _ in stall_mix(kernel(case)).waiting()[:2]]


def test_spelling_is_folded() -> None:
    """The counters say no_instruction and gmma, the sampler no_instructions and warpgroup_arrive."""
    counters = {COUNTER.format(r): v for r, v in (("no_instruction", 3.0), ("gmma", 1.0), ("selected", 1.0))}
    mix = stall_mix(made(counters))
    assert mix.exact and mix.samples == 0
    assert dict(mix.share) == {"no_instructions": 0.6, "warpgroup_arrive": 0.2, "selected": 0.2}
    columns = {SAMPLED + "no_instructions": [2.0, 4.0], SAMPLED + "warpgroup_arrive": [0.0, 2.0]}
    sampled = stall_mix(msgspec.structs.replace(made({}), counters=Counters([0, 16], columns)))
    assert set(sampled.share) < set(mix.share) and sampled.samples == 8 and not sampled.exact
    assert dict(sampled.share) == {"no_instructions": 0.75, "warpgroup_arrive": 0.25}


def test_waiting_leaves_out_warps_that_could_issue() -> None:
    values = {"selected": 1.0, "not_selected": 5.0, "wait": 1.0, "barrier": 3.0}
    mix = stall_mix(made({COUNTER.format(r): v for r, v in values.items()}))
    assert mix.waiting() == [("barrier", pytest.approx(0.3)), ("wait", pytest.approx(0.1))]
    assert mix.of("selected", "not_selected", "no such reason") == pytest.approx(0.6)


def test_nothing_collected() -> None:
    mix = stall_mix(made({}))
    assert (dict(mix.share), mix.samples, mix.exact, mix.latency, mix.waiting()) == ({}, 0, False, None, [])
