"""The regime and limiter of every labelled capture, and of kernels of which little was collected."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import get_args

import msgspec
import pytest
from msgspec import structs

from kscope.arch import table
from kscope.arch.estimates import constants
from kscope.engine.kernels.headroom import BANDWIDTH, headroom
from kscope.engine.verdict.regime import _by_pipeline, decide
from kscope.features.counters.stalls import COUNTER
from kscope.features.facts import Facts
from kscope.model.contract.analysis import KernelAnalysis, Limiter, Regime, Told
from kscope.model.contract.next_step import WRITTEN
from kscope.model.kernel import Kernel
from kscope.rules.registry import rule
from tests.support import reports
from tests.support.edit import made
from tests.support.labels import LABELS, REGIMES

ROOFS = {name: BANDWIDTH if name == "dram" else str(unit["title"]) for name, unit in table("units").items()}
BY_REGIME = {
    "memory": {"dram_bandwidth", "l2_bandwidth", "l1_throughput", "shared_memory", "memory_latency", "atomics"},
    "compute": {
        "tensor_pipe", "fp32_pipe", "fp64_pipe", "integer_pipe", "special_function", "instruction_issue",
        "dependency_latency", "instruction_fetch", "divergence",
    },
    "overhead": {
        "launch", "small_grid", "tail", "imbalance", "barrier", "pipeline_fill", "host", "synchronization", "transfer",
        "communication",
    },
    "unknown": {"unknown"},
}  # fmt: skip


def test_every_limiter_has_one_regime() -> None:
    assert set(BY_REGIME) == set(get_args(Told)) == {*get_args(Regime), "unknown"}
    assert sorted(x for group in BY_REGIME.values() for x in group) == sorted(get_args(Limiter))


@pytest.mark.parametrize("case", [case for case in LABELS if case in reports.chosen()])
def test_labelled(case: str, diagnosis: Callable[[str], KernelAnalysis]) -> None:
    right = diagnosis(case).verdict.regime in LABELS[case]["regime"]
    assert right == (case not in REGIMES), "REGIMES lists the cases whose regime is missed, and no others"


@pytest.mark.parametrize(
    ("case", "limiter"),
    [
        ("dram_bound.triad", "dram_bandwidth"), ("ldg32_x4.slow", "dram_bandwidth"),
        ("bank_conflict.slow", "shared_memory"), ("uncoalesced.slow", "l1_throughput"),
        ("tail_effect.slow", "tail"), ("small_grid.slow", "small_grid"), ("launch_bound.tiny", "launch"),
        ("barrier.slow", "barrier"), ("divergence.slow", "divergence"), ("dependency_chain.slow", "dependency_latency"),
        ("occupancy_smem.slow", "memory_latency"),
    ],
)  # fmt: skip
def test_limiter(case: str, limiter: str, diagnosis: Callable[[str], KernelAnalysis]) -> None:
    assert diagnosis(case).verdict.limiter == limiter


@pytest.mark.parametrize("case", reports.chosen_cases())
def test_verdict(case: str, diagnosis: Callable[[str], KernelAnalysis]) -> None:
    k = diagnosis(case)
    v = k.verdict
    assert v.limiter in BY_REGIME[v.regime]
    assert 0 < v.confidence <= 1
    assert v.sentence and "\n" not in v.sentence and len(v.sentence) < 500
    assert v.sentence.lower().startswith(v.regime), "the sentence names the regime"
    assert v.sentence == f"{v.regime.capitalize()}-bound {v.body}" and v.sentence.startswith(v.headline)
    assert v.headline.startswith(f"{v.regime.capitalize()}-bound on ") and v.reason and v.next
    left = v.body
    for part in (v.headline.partition("-bound ")[2], v.reason, v.contrast, v.next):
        assert part in left, "each part stands in the sentence, in this order"
        left = left.partition(part)[2]
    assert left == "."
    assert k.headroom is not None and k.headroom.speedup_bound >= 1 and k.headroom.bounded_by


def test_headroom_of_a_kernel_at_its_roof(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    full = diagnosis("dram_bound.triad").headroom
    far = diagnosis("small_grid.slow").headroom
    assert full is not None and far is not None
    assert full.speedup_bound < 1.1 and "memory" in full.bounded_by
    assert far.speedup_bound > 10


def test_headroom_moves_with_bytes_that_a_fix_removes(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    spilling = diagnosis("spill.slow")
    first = spilling.findings[0].estimate
    assert spilling.headroom is not None and first is not None
    assert "MEM104" in spilling.headroom.bounded_by
    assert spilling.headroom.speedup_bound == first.high


@pytest.mark.parametrize("case", reports.chosen_cases())
def test_no_range_beyond_the_roof(case: str, diagnosis: Callable[[str], KernelAnalysis]) -> None:
    """What the roofline allows bounds every promise, unless its fix takes bytes or operations away; it is as sure as
    what kernels attained, and no promise is narrower than a measurement's noise."""
    kernel, c = diagnosis(case), constants()
    assert kernel.headroom is not None
    most = c.over * kernel.headroom.speedup_bound
    for f in kernel.findings:
        if f.regime == "compute" and kernel.headroom.bounded_by.endswith("as the code stands"):
            continue  # fewer instructions for the same result have another bound
        if f.estimate is None or getattr(rule(f.code), "moves_roof", False):
            continue
        lowered = {ROOFS.get(name) for name in f.estimate.relieves or ()}
        if kernel.headroom.bounded_by.removesuffix(f" {WRITTEN}") in lowered:
            continue
        assert f.estimate.high <= max(1.01 * most, (1 + c.noise) * f.estimate.speedup + 0.001)


def test_a_fix_that_takes_bytes_away_moves_the_roof(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    spills = next(f for f in diagnosis("ssm.sixteen_blocks").findings if f.code == "MEM104")
    room = diagnosis("ssm.sixteen_blocks").headroom
    assert room is not None and spills.estimate is not None
    assert spills.estimate.high > room.speedup_bound >= spills.estimate.speedup


def test_nothing_collected() -> None:
    facts = Facts(made({}, grid=264))
    found = decide(facts)
    assert (found.regime, found.limiter, found.confidence) == ("unknown", "unknown", 0.0)
    assert "how full units are and what warps wait for were not collected" in found.reason
    assert headroom(facts, []) is None


@pytest.mark.parametrize(
    ("reason", "regime", "limiter"),
    [
        ("long_scoreboard", "memory", "memory_latency"), ("lg_throttle", "memory", "l1_throughput"),
        ("barrier", "overhead", "barrier"), ("wait", "compute", "dependency_latency"),
        ("no_instruction", "compute", "instruction_fetch"), ("math_pipe_throttle", "compute", "instruction_issue"),
    ],
)  # fmt: skip
def test_by_waits(reason: str, regime: str, limiter: str) -> None:
    """No unit was collected: what the warps wait for decides."""
    values = {COUNTER.format(reason): 8.0, COUNTER.format("selected"): 1.0}
    found = decide(Facts(made(values, grid=264)))
    assert (found.regime, found.limiter) == (regime, limiter)
    assert found.confidence <= 0.5, "a full unit would overrule the waits"


def test_waits_of_an_empty_chip() -> None:
    """One block on 132 SMs: whatever its warps wait for, the others have none."""
    found = decide(Facts(made({COUNTER.format("long_scoreboard"): 8.0}, grid=1)))
    assert (found.regime, found.limiter) == ("overhead", "small_grid") and found.confidence <= 0.5
    unsaid = decide(Facts(made({COUNTER.format("long_scoreboard"): 8.0}, grid=1, known=False)))
    assert unsaid.regime == "memory", "a report without the grid is not one block"


def test_waits_that_two_units_explain() -> None:
    """The queue of shared memory is that of special functions too; nothing of the report tells them apart."""
    found = decide(Facts(made({COUNTER.format("mio_throttle"): 8.0, COUNTER.format("wait"): 4.0}, grid=264)))
    assert found.regime == "unknown" and "shared memory was not collected" in found.reason


def test_shape_needs_idle_sms(kernel: Callable[[str], Kernel]) -> None:
    """The tail is the limit because SMs idle; the same launch with busy SMs is what its units make it."""
    k = kernel("tail_effect.slow")
    assert decide(Facts(k)).limiter == "tail"
    values = {**k.metrics, "sm__cycles_active.avg": k.metrics["sm__cycles_active.max"]}
    busy = msgspec.structs.replace(k, metrics=type(k.metrics)(values, {}))
    assert decide(Facts(busy)).limiter not in ("tail", "small_grid", "imbalance")


def test_memory_across_the_bus_is_bounded_by_memory(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    """Neither idle arithmetic nor the idle device memory bounds a kernel whose data come over the bus."""
    found, moved = diagnosis("scale_add.host_input"), diagnosis("scale_add.device_input")
    assert found.headroom is not None and moved.headroom is not None
    assert found.headroom.bounded_by == "device-memory bandwidth once the data are there"
    assert found.duration_us is not None and moved.duration_us is not None
    assert found.headroom.speedup_bound >= 0.9 * found.duration_us / moved.duration_us, "what the repair did gain"
    assert "once" not in moved.headroom.bounded_by


@pytest.mark.parametrize(
    ("waited", "ready", "regime"), [("long_scoreboard", 0.5, "memory"), ("long_scoreboard", 8.0, "compute"),
                                    ("math_pipe_throttle", 0.5, "compute")],
)  # fmt: skip
def test_a_used_pipe_is_no_limit_where_warps_wait_for_memory_longer(waited: str, ready: float, regime: str) -> None:
    """Issue slots at 65 %: with warps that stand in line for them they limit, with warps that wait for loads they do
    not."""
    values = {
        "smsp__issue_active.avg.pct_of_peak_sustained_elapsed": 65.0, COUNTER.format(waited): 4.0,
        COUNTER.format("not_selected"): ready, COUNTER.format("selected"): 1.0,
    }  # fmt: skip
    assert decide(Facts(made(values, grid=10_000))).regime == regime


def test_atomics_that_fill_one_slice_name_the_limiter(facts: Callable[[str], Facts]) -> None:
    found = decide(facts("atomics.slow"))
    assert (found.regime, found.limiter) == ("memory", "atomics") and "one slice of L2" in found.reason


def test_issue_slots_bound_the_code_as_it_stands(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    """Fewer instructions for the same result have another bound, so fixes of arithmetic are not held by it."""
    every = [diagnosis(case) for case in reports.chosen_cases()]
    bounded = [k for k in every if k.headroom is not None and k.headroom.bounded_by.endswith("as the code stands")]
    assert bounded
    for k in bounded:
        assert k.headroom is not None and "device-memory" not in k.headroom.bounded_by
def _with(facts: Facts, level: float, data: float) -> str:
    """The regime of a specialised capture whose pipe holds another level and whose consumers wait another share."""
    sp = facts.specialized.pipeline
    assert sp is not None and sp.loss is not None and sp.phases is not None
    other = SimpleNamespace(
        loss=structs.replace(sp.loss, data=data, epilogue=0.02, loop=0.02, pipe=0.0),
        phases=structs.replace(sp.phases, level=level),
        resolved=True,
        asks_late=sp.asks_late,
    )
    changed = Facts(facts.kernel)
    changed.specialized.__dict__["pipeline"] = other
    found = _by_pipeline(changed)
    assert found is not None
    return f"{found.regime}, {found.limiter}"


def test_the_pipe_of_a_specialised_kernel_names_its_regime_unless_it_is_mostly_idle(
    facts: Callable[[str], Facts],
) -> None:
    """A fused attention kernel: the tensor pipe at 76 % of its peak, consumers waiting for data 13 % of the time."""
    stages = facts("ws_gemm.stages2")
    assert _with(stages, 0.76, 0.13) == "compute, tensor_pipe"
    assert _with(stages, 0.66, 0.35) == "memory, memory_latency"
