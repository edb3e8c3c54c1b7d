"""What spilled values cost: stores that nobody waits for, and the warps that registers for them would cost."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.model.contract.analysis import KernelAnalysis
from kscope.rules._shared.local_memory import fewer_warps, local_instructions
from tests.support.labels import truth


@pytest.mark.parametrize("case", ["dct8.capped", "spill.slow", "ssm.sixteen_blocks"])
def test_promise_is_near_what_more_registers_brought(case: str, diagnosis: Callable[[str], KernelAnalysis]) -> None:
    found = next(f for f in diagnosis(case).findings if f.code == "MEM104")
    assert found.estimate is not None
    assert abs(math.log2(found.estimate.speedup / truth(case))) < 0.6


def test_registers_cost_warps_where_the_grid_fills_the_sms(facts: Callable[[str], Facts]) -> None:
    assert kept("dct8.capped", facts) == pytest.approx(0.26, abs=0.02)
    assert kept("ssm.sixteen_blocks", facts) == 1.0, "five blocks an SM, of 16 that fit"


def kept(case: str, facts: Callable[[str], Facts]) -> float:
    """Share of the warps that an SM still holds."""
    known = facts(case)
    assert known.code is not None
    return fewer_warps(known, known.code, local_instructions(known, known.code)[0])
