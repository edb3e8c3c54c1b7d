"""CMP208 points at the instructions that load the unit it names."""

from __future__ import annotations

import pytest

from kscope import analyze
from tests.support.reports import fixture


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
