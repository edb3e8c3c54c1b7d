"""What a sum that is kept in memory costs beside its waits, and what a tile does to it (MEM114, MEM112)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.model.contract.analysis import KernelAnalysis
from kscope.rules._shared.data_reuse import stores_gone


def test_l2_is_asked_less_by_the_stores_that_go(facts: Callable[[str], Facts]) -> None:
    one = facts("adam.step")
    code, traffic = one.code, one.counters.traffic
    assert code is not None
    stores = code.where(lambda ins, op: op.access == "store" and op.space == "global")
    scale = stores_gone(one, stores)
    assert set(scale) == {"l2_sectors", "l2_requests", "l2_writes"}
    assert scale["l2_sectors"] == pytest.approx(1 - traffic.global_store_sectors / traffic.l2_sectors, abs=0.01)
    assert stores_gone(one, [])["l2_sectors"] == 1


def test_a_sum_in_shared_memory_asks_nothing_of_l2(facts: Callable[[str], Facts]) -> None:
    one = facts("sums.in_shared")
    (kept,) = one.patterns.kept_in_memory
    assert stores_gone(one, kept.stores)["l2_sectors"] == 1


def test_its_promise_holds_and_a_tile_says_that_it_keeps_the_sums(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    found = {f.code: f for f in diagnosis("sums.in_shared").findings}
    said = found["MEM114"].estimate
    assert said is not None and said.low <= 3.1 <= said.high
    assert "sums that are stored in each round then stay in registers" in found["MEM112"].why
