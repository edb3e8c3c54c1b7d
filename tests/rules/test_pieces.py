"""What belongs together and is taken in pieces: elements, structures of three, a search that starts anew each time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding
from kscope.rules._shared.layouts import CAUGHT_SURE, OWN, PROVEN, SLIGHT, SLIGHT_SURE, caught, kind_of, sure
from kscope.rules._shared.wide_accesses import FLAT
from tests.rules.test_arithmetic import walked
from tests.support.said import found, outcome

GetFacts = Callable[[str], Facts]


def test_an_element_copied_byte_by_byte_is_one_access(facts: GetFacts) -> None:
    """The sources lie anywhere, the copies side by side: their distance says how long an element is. 2.32x measured."""
    finding = found("MEM102", facts("reorder.bytes"))
    assert finding.fix.startswith("copy each element of 4 bytes with one access")
    assert finding.estimate is not None and finding.estimate.low <= 50.85 / 21.89 <= finding.estimate.high
    assert not isinstance(outcome("MEM101", facts("reorder.bytes")), Finding)
    assert "copy each element" not in getattr(outcome("MEM102", facts("reorder.words")), "fix", "")


def test_a_search_is_not_done_for_several_rounds_at_once(facts: GetFacts) -> None:
    finding = found("MEM118", facts("bins.anew"))
    assert "searches" in finding.title and "last round's search ended" in finding.fix
    assert [r.step for r in finding.remedies if not r.applies] == ["several rounds at a time"]
    assert finding.estimate is not None and finding.estimate.low <= 176.77 / 64.35 <= finding.estimate.high
    assert not isinstance(outcome("MEM118", facts("bins.onward")), Finding)


def test_structures_of_three_that_are_stored_are_no_four_a_thread(facts: GetFacts) -> None:
    """At the memory's rate: nothing to gain, and none is promised."""
    finding = found("MEM102", facts("drift.one"))
    assert finding.fix == FLAT
    assert finding.estimate is not None and finding.estimate.speedup < 1.05


@pytest.mark.parametrize(
    ("case", "left", "expected"), [("rows.quads", 1.0, True), ("rows.quads", 0.5, False), ("rows.single", 1.0, False)]
)
def test_where_l1_catches_all_others_must_be_busier(case: str, left: float, expected: bool, facts: GetFacts) -> None:
    known = facts(case)
    assert caught(known, {"l2_sectors": left}) == expected
    assert sure(known, {"l2_sectors": left}, 0, gain=SLIGHT, indirect=False) == (CAUGHT_SURE if expected else PROVEN)


def test_lanes_that_save_little_by_other_places_are_less_sure(facts: GetFacts) -> None:
    """Of public kernels' steps none of 28 was slower where a third or more was promised, five of 12 where less."""
    known = facts("rows.single")
    gains = [sure(known, {"l2_sectors": 0.5}, 0, gain=gain, indirect=False) for gain in (SLIGHT - 0.01, SLIGHT)]
    assert gains == [SLIGHT_SURE, PROVEN]


@pytest.mark.parametrize(("blocks", "first"), [(66, ["GRD401"]), (67, [])])
def test_on_an_empty_device_more_blocks_go_before_atomics(
    blocks: int, first: list[str], facts: GetFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each SM sends its atomics by itself: of 132 more than half must have none. A public kernel: 1.5x, sums 0.91x."""
    known = facts("tickets.each")
    launch = known.counters.launch
    monkeypatch.setattr(type(launch), "blocks", blocks, raising=False)
    monkeypatch.setattr(type(known.counters), "hot_slice", None, raising=False)
    assert launch.sms == 132 and found("MEM109", known).first == first


@pytest.mark.parametrize(
    ("how", "last", "together", "one"),
    [
        ("STRONG.SYS", "0xc", True, True), ("STRONG.SYS", "0x10", True, False), ("CONSTANT", "0xc", True, False),
        ("STRONG.SYS", "0xc", False, False),
    ],
    ids=["a point", "with a gap", "in no order", "in records of more"],
)  # fmt: skip
def test_words_that_volatile_orders_are_one_access_without_it(
    how: str, last: str, together: bool, one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four words of a point, stored through a volatile pointer (a public kernel): 1.5x by one access of 16 bytes, dealt
    out to neighbouring lanes, as was told, 0.94x."""
    text = "\n".join(f"STG.E.{how} desc[UR4][R6.64+{at}], R{9 + n}" for n, at in enumerate(("0x0", "0x4", "0x8", last)))
    facts = walked(text)
    monkeypatch.setattr(type(facts.profile), "compact_together", lambda self, members, size: together and size == 16)
    told = kind_of(facts, [], {"l2_sectors": 0.25}, "", None, [3, 0, 2, 1])
    assert (told == OWN) == one
