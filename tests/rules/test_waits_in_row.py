"""Loads that wait one after the other where they could wait together: LAT302 prices issuing all of them first."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kscope.features.facts import Facts
from kscope.model.contract.analysis import KernelAnalysis
from kscope.model.kernel import Kernel
from kscope.rules._shared.waits_in_row import InRow, waits_in_row
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


def test_what_a_loop_holds_that_runs_once_is_in_the_row(facts: Callable[[str], Facts]) -> None:
    """centroids.each: a point's sixteen coordinates, unrolled into one round."""
    known = facts("centroids.each")
    assert known.code is not None
    inside = [i for i in loads(known) if known.code.cfg.loop_of[i] is not None]
    once = [i for i in inside if known.patterns.trips(known.code.cfg.loop_of[i] or 0) < 2 and known.code.executed[i]]
    assert len(once) == 16
    row = waits_in_row(known, known.code, once)
    assert row.count == 3 and row.sooner > 1.5


def test_loads_wait_together_as_far_as_registers_and_warps_allow(kernel: Callable[[str], Kernel]) -> None:
    """Eight loads of one word at once need seven registers more: beside 253 there is room for two, and where each step
    of registers takes warps, what is had by waiting once is lost by what nothing covers."""

    def row(registers: int) -> InRow:
        plain = kernel("streams.between")
        known = Facts(replace(plain, launch=replace(plain.launch, registers=registers)))
        assert known.code is not None
        return waits_in_row(known, known.code, loads(known))

    assert row(255).sooner == 1.0
    wide = kernel("streams.between")
    full = Facts(replace(wide, launch=replace(wide.launch, block=(1024, 1, 1), registers=64)))
    assert full.code is not None
    assert waits_in_row(full, full.code, loads(full)).sooner == 1.0, "one register more, and no block fits"
    few, many = row(253), row(24)
    assert few.registers <= 2 and few.together < many.together and 1 < few.sooner < many.sooner
    assert many.registers == 7


def test_the_promise_holds(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    (found,) = [f for f in diagnosis("streams.between").findings if f.code == "LAT302"]
    assert "8 waits stand in a row" in found.why and found.fix.startswith("all loads of a thread before the first use")
    assert found.estimate is not None
    assert found.estimate.low <= labels.truth("streams.between") <= found.estimate.high and found.estimate.speedup > 1.5
    assert not any("in a row" in f.why for f in diagnosis("streams.first").findings)
