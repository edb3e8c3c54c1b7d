"""How promises held, over several versions and worklogs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kscope.worklog.calibrate import calibrate, share, words
from kscope.worklog.entries import Delivered, Entry, Step
from tests.worklog.samples import entry


def version(code: str, promised: float, measured: float, *, alone: bool = True) -> Entry:
    low, high = 1.0, promised * 1.5
    one = Delivered(code=code, rule="a-rule", speedup=promised, low=low, high=high, measured=measured, alone=alone,
                    outcome="inside" if low <= measured <= high else "below", because="evidence gone")  # fmt: skip
    return entry(step=Step(parent="x", speedup=measured, sentence="", delivered=[one]))


@pytest.mark.parametrize(
    ("promised", "measured", "held"),
    [(4.0, 4.0, 1.0), (4.0, 2.0, 2 / 3), (1.1, 1.0, 0.0), (2.0, 0.5, 0.0), (1.1, 1.25, 2.2)],
)
def test_the_share_is_of_time(promised: float, measured: float, held: float) -> None:
    assert share(promised, measured) == pytest.approx(held)


def test_the_median_of_those_alone() -> None:
    rows = [version("MEM103", 2.0, m) for m in (1.25, 2.0, 1.6)] + [version("MEM103", 2.0, 4.0, alone=False)]
    (row,) = calibrate([*rows, replace(rows[0])])  # an entry that two worklogs share counts once
    assert (row.versions, row.alone, row.inside) == (4, 3, 4 - 1 + (4.0 <= 3.0))
    assert row.share == pytest.approx(0.75)
    assert words([row]) == {"MEM103": "delivered 0.8 of its promise in 3 of your versions, inside its bounds in 3 of 4"}


def test_promises_that_were_never_alone() -> None:
    (row,) = calibrate([version("MEM103", 2.0, 1.5, alone=False)])
    assert row.share is None
    assert words([row])["MEM103"] == "inside its bounds in 1 of 1 version, never alone"


def test_nothing_promised() -> None:
    assert calibrate([entry()]) == []
