"""CMP208 points at the instructions that load the unit it names."""

from __future__ import annotations

import pytest

from kscope import analyze
from tests.support.reports import fixture


@pytest.mark.parametrize(
    ("capture", "opcodes"),
    [
        ("bank_conflict.slow", {"LDS"}),
        ("place_rows.header1", {"LDG", "STG"}),
        ("layernorm_bf16.scalar", {"LDG", "STG"}),
    ],
)
def test_a_cache_at_its_peak_shows_the_accesses(capture: str, opcodes: set[str]) -> None:
    """S2R runs on the load/store pipe too, but loads neither L1 nor L2; an LDS with a 32-way conflict does 32 times."""
    (kernel,) = analyze(fixture(capture)).kernels
    (found,) = [f for f in kernel.findings if f.code == "CMP208"]
    assert found.locations
    assert {place.sass.split(".")[0].split()[0] for place in found.locations} <= opcodes
