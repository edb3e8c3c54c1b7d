"""Atomics on more places than a block could add up in shared memory."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kscope.features.counters.hot_slice import places
from kscope.features.facts import Facts
from kscope.model.kernel import Kernel
from kscope.rules._shared.blocks import spread_atomics
from kscope.rules.base import PASSED
from kscope.rules.memory import atomic_contention
from tests.support.edit import with_metrics
from tests.support.said import found

Known = Callable[[str], Kernel]
CASE = "groupby_f64.global"  # 44 % of its lanes have a sector of their own


@pytest.mark.parametrize("sectors", [2_000, 20_000, 100_000])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_sectors_dealt_at_random_are_found_again(sectors: int, share: float) -> None:
    drawn, slices, each = random.Random(sectors), 96, 50
    load = [0.0] * slices
    for _ in range(sectors):
        load[drawn.randrange(slices)] += each
    even = sum(load) / slices * (1 - share) / share  # what else L2 serves
    of = {"lts__t_sectors.max": max(load) + even, "lts__t_sectors.avg": sum(load) / slices + even,
          "lts__t_sectors.sum": sum(load) + slices * even,
          "lts__t_sectors_srcunit_tex_op_red.sum": sum(load)}  # fmt: skip
    assert sectors / 3 < (places(of) or 0) < 3 * sectors


def test_nothing_is_known_without_slices_or_with_few_atomics(kernel: Known) -> None:
    assert places({}) is None
    assert places(kernel("dram_bound.triad").metrics) is None
    few = places(kernel("atomics.slow").metrics)
    assert few is not None and few < 10


def test_what_a_block_cannot_add_up_is_no_promise(kernel: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = kernel(CASE)
    assert found("MEM109", Facts(plain)).estimate is not None
    mean = plain.metrics["lts__t_sectors.avg"]
    even = with_metrics(plain, {"lts__t_sectors.max": mean * 1.01})  # some 200,000 sectors, no hot slice
    assert "aggregate" in found("MEM109", Facts(even)).fix  # more than half of the lanes meet: a warp adds up
    monkeypatch.setattr(spread_atomics, "MEET", 0.4)
    finding = found("MEM109", Facts(even))
    assert finding.estimate is None and finding.severity == "major"
    assert "aggregate" not in finding.fix and "gathered" in finding.fix
    with monkeypatch.context() as patched:  # places that are claimed are told as that, however many they are
        patched.setattr(atomic_contention, "claimed", lambda *given: PASSED)
        assert atomic_contention.AtomicContention().check(Facts(even), Facts(even).code) is PASSED  # type: ignore[arg-type]
    few = with_metrics(plain, {"lts__t_sectors.max": mean * 1.5})
    assert found("MEM109", Facts(few)).estimate is not None
