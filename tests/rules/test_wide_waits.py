"""Wider accesses take from a wait what is queue or rounds, not the round trip that loads make together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Code, Facts
from kscope.rules._shared.wide_accesses import candidates
from kscope.rules._shared.wide_waits import Left, waits_left


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
