"""Samples scaled to what was counted: real reports, and what must stay as it was."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.features.counters.stalls import COUNTER, REASONS, stall_mix
from kscope.features.facts import Facts
from kscope.features.profile.calibration import calibrated
from kscope.features.profile.code import Code
from kscope.features.sass.columns import total

CASES = ("ws_gemm.best", "ws_gemm.produce_exposed", "tma_scale.stages2")


@pytest.mark.parametrize("case", CASES)
def test_reasons_have_their_counted_shares(case: str, facts: Callable[[str], Facts]) -> None:
    code = facts(case).code
    found, mix, every = calibrated(code), stall_mix(code.kernel), total(code.samples)
    assert found.exact and total(found.all) == pytest.approx(every)
    large = [r for r, column in code.stall.items() if total(column) > 100]
    assert len(large) >= 4
    for reason in large:
        assert total(found.stall[reason]) / every == pytest.approx(mix.share[reason], rel=0.03), reason
        where = [i for i, v in enumerate(code.stall[reason]) if v]
        factors = {round(found.stall[reason][i] / code.stall[reason][i], 9) for i in where}
        assert len(factors) == 1, "within a reason the samples say where"


def test_without_counters_samples_are_as_they_are(facts: Callable[[str], Facts]) -> None:
    code = facts("ws_gemm.best").code
    metrics = {n: v for n, v in code.kernel.metrics.items() if n not in {COUNTER.format(r) for r in REASONS}}
    bare = Code(msgspec.structs.replace(code.kernel, metrics=metrics), code.program)
    found = calibrated(bare)
    assert not found.exact and found.all == bare.samples and found.stall == bare.stall
