"""LAT302: what all lanes want is dealt to them, and loads in flight are paid with registers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from kscope.features.facts import Code, Facts
from kscope.rules._shared.blocks.deeper_loads import DEALT, UNEVEN, dealt, uneven
from kscope.rules._shared.blocks.one_round_more import in_flight, working_waves
from tests.support.said import found

Known = Callable[[str], Facts]


def loop_loads(known: Facts) -> tuple[Code, list[int]]:
    code = known.code
    assert isinstance(code, Code)
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    inner = [i for i in loads if code.cfg.loop_of[i] is not None]
    return code, code.hottest(inner, code.blame.by_producer.get("long_scoreboard"))


def test_words_that_all_lanes_want_are_dealt_to_them(facts: Known) -> None:
    """Rows of a sparse matrix, 16 at a time as nvcc unrolls them: 1.13 times as fast, 1.09 promised."""
    known = facts("spmm32.each")
    code, loads = loop_loads(known)
    words = dealt(known, code, loads[0])
    assert len(words) == 32 and all(code.classes[i].bytes == 4 for i in words)  # a column and a value for each of 16
    finding = found("LAT302", known)
    assert finding.fix.startswith(DEALT) and finding.estimate is not None
    assert finding.estimate.low < 1.126 < finding.estimate.high


@pytest.mark.parametrize("case", ["spmm32.dealt", "ssm.sixteen_blocks", "gather_rows.header4", "sgemm.tiled"])
def test_not_where_they_are_dealt_or_lead_nowhere(case: str, facts: Known) -> None:
    known = facts(case)
    code, loads = loop_loads(known) if known.code is not None else (None, [])
    assert code is not None
    assert [i for i in loads if dealt(known, code, i)] == []


def test_loads_take_registers_and_registers_take_warps(facts: Known) -> None:
    """qdot.dp4a has several words of a row in flight at 38 registers: four times as many are 1.3 times as many."""
    known = facts("qdot.dp4a")
    code, loads = loop_loads(known)
    assert 1.0 < in_flight(known, code, loads[:4], 4.0) < 2.0
    assert in_flight(known, code, loads[:4], 1.0) == 1.0
    small = structs.replace(known.kernel.launch, waves=0.1)  # so few blocks that no registers keep one out
    assert in_flight(Facts(structs.replace(known.kernel, launch=small)), code, loads[:4], 4.0) == 4.0


def test_one_load_a_round_is_as_many_as_asked_for(facts: Known) -> None:
    known = facts("list_walk.serial")
    code, loads = loop_loads(known)
    assert in_flight(known, code, loads[:1], 4.0) == 4.0


def test_warps_without_an_element_are_no_waves(facts: Known) -> None:
    known = facts("spmm32.each")
    code, _ = loop_loads(known)
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))[:1]  # a row's first
    assert working_waves(known, code, loads) == pytest.approx(known.counters.launch.waves)
    many = structs.replace(known.kernel.launch, grid=(8 * known.kernel.launch.grid[0], 1, 1))
    more = Facts(structs.replace(known.kernel, launch=many))
    assert working_waves(more, code, loads) == pytest.approx(more.counters.launch.waves / 8)


def test_chains_of_uneven_lengths_are_not_followed_side_by_side(facts: Known) -> None:
    known = facts("list_walk.serial")
    code, loads = loop_loads(known)
    assert not uneven(code, loads[0])
    assert all(r.why != UNEVEN for r in found("LAT302", known).remedies)
    other = Facts(structs.replace(known.kernel)).code  # of its own: what is changed stays here
    assert isinstance(other, Code) and other is not code
    other.__dict__["threads"] = [x // 2 for x in code.threads]  # half a warp, all of it to the end
    assert not uneven(other, loads[0])
    other.__dict__["threads"] = [x // 2 if i == loads[0] else x for i, x in enumerate(code.threads)]
    assert uneven(other, loads[0])
