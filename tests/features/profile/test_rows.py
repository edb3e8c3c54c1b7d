"""Rows that get more threads than they have elements, and rows that loaded data picks, on captures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.features.profile import coalescing, own_elements
from kscope.features.profile.block_items import items
from kscope.features.profile.warp_rows import warp_rows
from kscope.features.sass.slices import alike
from kscope.rules._shared.paid_once import of_a_warp

GetFacts = Callable[[str], Facts]


def test_a_warp_that_walks_rows_of_six(facts: GetFacts) -> None:
    f = facts("short_csr.warp")
    found = f.profile.warp_rows(f.lanes.stride, f.lanes.strides.steps)
    assert found is not None
    assert found.elements == pytest.approx(6.5, rel=0.01), "rows of 5, 6, 7 and 8 elements, one after the other"
    assert found.rows == 1 << 19


@pytest.mark.parametrize("case", ["short_csr.eight", "best.warp", "row_stats.warp", "sgemm.naive", "divergence.slow"])
def test_warps_that_share_no_short_rows(case: str, facts: GetFacts) -> None:
    """Fewer lanes share a row; a warp joins one element a lane; rows fill their warps; nothing is joined."""
    f = facts(case)
    assert f.code is not None
    found = warp_rows(f.code, f.lanes.stride, f.lanes.strides.steps)
    assert found is None or found.elements > 16


def test_a_block_that_joins_an_element_a_thread(facts: GetFacts) -> None:
    f = facts("softmax128.block")
    row = of_a_warp(f)
    assert row is not None and (row.elements, row.threads) == (128, 128) and row.rounds(32) == 4
    assert f.code is not None
    names = {f.code[i].opcode for i in row.dealt}
    assert {"LDG", "STG"} <= names and names.isdisjoint({"SHFL", "BAR", "STS", "LDS"}), "what joins is no element's"
    assert {"SHFL", "BAR"} <= {f.code[i].opcode for i in row.once}


@pytest.mark.parametrize("case", ["bitonic1024.shuffles", "best.warp", "halves.shuffle", "signal_max.one"])
def test_blocks_that_hand_nothing_back_have_no_row(case: str, facts: GetFacts) -> None:
    """A sort stores what other lanes handed on; a sum of a block may be one of any piece of the data."""
    f = facts(case)
    floor = f.estimate.latency_floor
    assert f.code is not None and floor is not None
    assert own_elements.joined(f.code), "they are looked at"
    assert items(f.code, f.kernel.launch.block, f.counters.launch.warps, floor.walk) is None


def test_rows_that_an_index_picks(facts: GetFacts) -> None:
    code = facts("voxels.one").code
    assert code is not None
    assert {code[i].name for i in coalescing.picked(code)} == {"STG.E"}, "of the row at[v]"
    assert not set(coalescing.picked(code)) & set(coalescing.contiguous(code))
    walked = facts("short_csr.warp").code
    assert walked is not None and coalescing.picked(walked) == [], "rows that a loop walks start anywhere"


def test_what_all_threads_of_a_block_compute_alike(facts: GetFacts) -> None:
    code = facts("sgemm.tiled").code
    assert code is not None
    branches = [i for i in code.ran(range(len(code))) if code[i].opcode == "BRA" and code[i].guard is not None]
    assert branches and alike(code, branches), "the round of the tile"
    loads = [i for i in code.ran(range(len(code))) if code[i].opcode == "LDG"]
    assert loads and not alike(code, loads)


def test_what_a_thread_keeps_in_local_memory_is_its_own(facts: GetFacts) -> None:
    """Though its address is the same number in every thread."""
    code = facts("local_array.slow").code
    assert code is not None
    loads = [i for i in code.ran(range(len(code))) if code[i].opcode == "LDL"]
    users = sorted({c for i in loads for c in code.defuse.consumers(i)})
    assert users and not alike(code, users)
