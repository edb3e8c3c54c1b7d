"""Loads that wait one after the other where they could wait together: LAT302 prices issuing all of them first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.model.contract.analysis import KernelAnalysis
from kscope.rules._shared.waits_in_row import waits_in_row
from tests.support import labels


def loads(facts: Facts) -> list[int]:
    assert facts.code is not None
    return facts.code.where(lambda ins, op: op.scoreboard == "long" and op.access == "load")


def test_eight_loads_between_stores_wait_eight_times(facts: Callable[[str], Facts]) -> None:
    known = facts("streams.between")
    assert known.code is not None
    row = waits_in_row(known, known.code, loads(known))
    assert row.count == 8 and 4 < row.sooner <= 8, "the longest of eight waits is left"


def test_loads_that_come_first_wait_together(facts: Callable[[str], Facts]) -> None:
    known = facts("streams.first")
    assert known.code is not None
    assert waits_in_row(known, known.code, loads(known)).count <= 2


@pytest.mark.parametrize("case", ["list_walk.serial", "row_stats.thread"])
def test_loads_of_loops_are_not_counted(case: str, facts: Callable[[str], Facts]) -> None:
    known = facts(case)
    assert known.code is not None
    inside = [i for i in loads(known) if known.code.cfg.loop_of[i] is not None]
    row = waits_in_row(known, known.code, inside)
    assert (row.count, row.sooner) == (0, 1.0)


def test_the_promise_holds(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    (found,) = [f for f in diagnosis("streams.between").findings if f.code == "LAT302"]
    assert "8 waits stand in a row" in found.why and found.fix.startswith("all loads of a thread before the first use")
    assert found.estimate is not None
    assert found.estimate.low <= labels.truth("streams.between") <= found.estimate.high and found.estimate.speedup > 1.5
    assert not any("in a row" in f.why for f in diagnosis("streams.first").findings)
