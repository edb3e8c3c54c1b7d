"""Wider, closer or aligned accesses take queues and rounds from a wait, not the round trip that bytes make together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import IDEAL_SECTORS, SECTORS, Code, Facts
from kscope.rules._shared.stencils import alignable
from kscope.rules._shared.wide_accesses import candidates
from kscope.rules._shared.wide_waits import Left, waits_left
from kscope.rules.base import Passed
from tests.rules.test_conditions import found, gain, outcome
from tests.support.edit import with_metrics


def left(known: Facts, ratio: float) -> Left:
    code = known.code
    assert isinstance(code, Code)
    return waits_left(known, code, *candidates(known, code), ratio)


def test_loads_that_fly_together_take_one_round_trip(facts: Callable[[str], Facts]) -> None:
    """Four loads of adjacent words: four instructions, one wait. L1 is at 0.43, so they do not queue either."""
    found = left(facts("attn.global"), 0.25)
    assert found.path > 0.7 and found.share == pytest.approx(found.path, abs=0.05) and not found.fewer


def test_where_l1_is_full_their_queue_shrinks(facts: Callable[[str], Facts]) -> None:
    """The same four words, with L1 at 0.81: the path stays, most of the wait does not. It was 1.96x when built."""
    known = facts("ldg32_l2.slow")
    found = left(known, 0.25)
    assert found.path > 0.7 and found.share < 0.55


@pytest.mark.parametrize("case", ["narrow_loads.slow", "unpack.byte"])
def test_threads_that_work_alone_become_fewer(case: str, facts: Callable[[str], Facts]) -> None:
    found = left(facts(case), 0.125)
    assert found.fewer and found.share == pytest.approx(0.125, abs=0.01)


@pytest.mark.parametrize("case", ["signal_max.one", "steps.four"])
def test_threads_that_meet_at_barriers_do_not(case: str, facts: Callable[[str], Facts]) -> None:
    """The tile says what each thread brings, and all wait for all of it."""
    found = left(facts(case), 0.25)
    assert not found.fewer and found.path > 0.95 and found.share > 0.9


@pytest.mark.parametrize(
    ("code", "case", "most"),
    [
        ("MEM101", "list_walk.serial", 1.05),  # 32 sectors a request, one at a time: L2 is half empty
        ("MEM101", "smooth.halo_threads", 1.05),
        ("MEM108", "texels.loaded", 1.01),
    ],
)
def test_fewer_sectors_shorten_no_round_trip(
    code: str, case: str, most: float, facts: Callable[[str], Facts]
) -> None:
    known = facts(case)
    assert known.estimate.in_line("l1", "lsu", "l2", "dram") < 0.05
    assert gain(found(code, known)) < most


@pytest.mark.parametrize(
    ("code", "case", "least"),
    [
        ("MEM101", "particles.aos", 2.0),  # device memory is full
        ("MEM101", "row_stats.thread", 5.0),  # lanes come back for the rest of their sectors
        ("MEM108", "gather_rows.header4", 1.1),
        ("MEM108", "place_rows.header1", 1.1),
    ],
)
def test_where_sectors_queue_or_are_come_back_for_they_do(
    code: str, case: str, least: float, facts: Callable[[str], Facts]
) -> None:
    assert gain(found(code, facts(case))) > least


def test_what_l1_catches_saves_device_memory_nothing(facts: Callable[[str], Facts]) -> None:
    """The same records, but as if L1 had kept each sector until all its lanes came: what L2 sees is what they need."""
    known = facts("particles.aos")
    assert known.code is not None
    ideal = known.code.column(IDEAL_SECTORS)
    assert ideal is not None
    caught = Facts(with_metrics(known.kernel, {"lts__t_sectors_srcunit_tex.sum": sum(ideal)}))
    assert gain(found("MEM101", caught)) < 1.05 and gain(found("MEM101", known)) > 2.0


@pytest.mark.parametrize("case", ["dwconv.one", "build.optimised", "dmma.chain"])
def test_neighbours_in_a_stencil_cannot_all_be_aligned(case: str, facts: Callable[[str], Facts]) -> None:
    """a[i - 1], a[i], a[i + 1]: the one in the middle starts on a boundary, and any other base moves it off."""
    known = facts(case)
    assert known.code is not None
    touched, ideal = known.code.column(SECTORS), known.code.column(IDEAL_SECTORS)
    assert touched is not None and ideal is not None and sum(touched) > 1.01 * sum(ideal)
    assert isinstance(outcome("MEM108", known), Passed)


def test_rows_off_a_boundary_are(facts: Callable[[str], Facts]) -> None:
    """Loads of one base, a row apart, or of one kind: each row could start on a boundary."""
    known = facts("gather_rows.header4")
    assert known.code is not None
    touched, ideal = known.code.column(SECTORS), known.code.column(IDEAL_SECTORS)
    assert touched is not None and ideal is not None
    assert list(alignable(known, known.code, touched, ideal, 0.05, 0.5)) == list(ideal)
