"""CMP208 points at the instructions that load the unit it names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope import analyze
from kscope.engine.verdict.regime import decide
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding
from kscope.model.kernel import Kernel
from kscope.rules.base import Passed
from kscope.rules.compute.pipe_saturated import PipeSaturated
from tests.support.edit import with_metrics
from tests.support.reports import fixture

TAGS = [
    f"{name}.avg.pct_of_peak_sustained_elapsed"
    for name in ("lts__t_tag_requests", "gpu__compute_memory_access_throughput_internal_activity")
]


@pytest.mark.parametrize(
    ("capture", "opcodes"),
    [
        ("bank_conflict.slow", {"LDS"}),
        ("csr.thread", {"LDG"}),
        ("triton_gather.block256", {"LDG", "STG"}),
    ],
)
def test_a_cache_at_its_peak_shows_the_accesses(capture: str, opcodes: set[str]) -> None:
    """S2R runs on the load/store pipe too, but loads neither L1 nor L2; an LDS with a 32-way conflict does 32 times."""
    (kernel,) = analyze(fixture(capture)).kernels
    (found,) = [f for f in kernel.findings if f.code == "CMP208"]
    assert found.locations
    assert {place.sass.split(".")[0].split()[0] for place in found.locations} <= opcodes


@pytest.mark.parametrize("capture", ["layernorm_bf16.scalar", "bank_conflict.fast", "gather_rows.header4"])
def test_l2_that_only_hands_on_is_no_roof(capture: str) -> None:
    """Every byte is read once: L2's overall counter is above 80 %, and shows device memory's time."""
    (kernel,) = analyze(fixture(capture)).kernels
    assert kernel.verdict.limiter == "dram_bandwidth"
    assert not [f for f in kernel.findings if f.code == "CMP208"]


def test_l2_is_no_roof_where_loads_queue_for_device_memory(kernel: Callable[[str], Kernel]) -> None:
    """Sectors picked at random, made to come from L2 a few times: its overall counter is above 80 % still, but device
    memory is fuller than any of its ports, and loads wait for that."""
    random = kernel("gather.records")
    through = random.metrics["lts__t_sectors_srcunit_tex.sum"]
    assert through is not None
    ports = {"lts__t_sectors_srcunit_tex.sum": 3 * through, **dict.fromkeys(TAGS, 56.5)}
    often = Facts(with_metrics(random, ports))
    assert not often.counters.l2_passes and often.counters.l2_shows_dram and often.estimate.queue == 1
    assert often.counters.units["l2"].load > 0.9
    assert isinstance(PipeSaturated().run(often), Passed)
    assert decide(often).limiter == "dram_bandwidth"
    busier = Facts(with_metrics(random, {**ports, **dict.fromkeys(TAGS, 80.0)}))
    found = PipeSaturated().run(busier)
    assert isinstance(found, Finding) and found.roof == "l2", "a port of its own is fuller than device memory"
    assert decide(busier).limiter == "l2_bandwidth"
