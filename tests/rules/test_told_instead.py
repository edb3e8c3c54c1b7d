"""Advice that public kernels showed to be wrong or too little, on captures: what is told instead."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.features.patterns.local_memory import local_accesses, passed_on
from kscope.features.sass.listing import Listing
from kscope.rules._shared.blocks.trees import EVEN, LEVEL, even
from kscope.rules._shared.wide_accesses import padded
from kscope.rules.grid.load_imbalance import LoadImbalance
from kscope.rules.memory.local_memory_indexing import INLINED, WHERE_IT_LIES
from tests.features.listings import program
from tests.support.said import found

Known = Callable[[str], Facts]


@pytest.mark.parametrize(("step", "kept"), [(12, True), (24, True), (64, False), (4, False)])
def test_three_rounds_of_single_elements_are_no_structure(
    step: int, kept: bool, facts: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop over structures of three floats moves by twelve bytes or a multiple, one over floats by its unrolling."""
    known = facts("nearest256.warp")
    assert padded(known, set())
    monkeypatch.setattr(type(known.lanes.strides), "steps", lambda self, index: [step])
    assert bool(padded(known, set())) == kept


def test_few_warps_that_meet_twice_have_no_smaller_blocks(facts: Known) -> None:
    known = facts("barrier.slow")
    assert even(known, 2) == (LEVEL if known.counters.launch.warps_per_block < 8 else EVEN)
    small = msgspec.structs.replace(known.kernel.launch, block=(128, 1, 1))
    other = Facts(msgspec.structs.replace(known.kernel, launch=small))
    assert (even(other, 2), even(other, 12)) == (LEVEL, EVEN)


def test_arguments_of_a_call_by_pointer_are_no_indexed_array(facts: Known) -> None:
    """1.83 times as fast where the function is known."""
    finding = found("MEM105", facts("potential.pointer"))
    assert finding.fix == INLINED and "no array" in finding.why and finding.title.startswith("Values pass through")
    assert finding.estimate is not None and finding.estimate.low < 1.825 < finding.estimate.high
    assert found("MEM105", facts("local_array.slow")).fix != INLINED
    assert found("MEM105", facts("permute.copied")).fix == WHERE_IT_LIES


@pytest.mark.parametrize(
    ("target", "by_pointer"),
    [("LDC.64 R2, c[0x0][0x220]", True), ("LDG.E.64 R2, desc[UR4][R8.64]", True), ("LDC.64 R2, c[0x4][R0]", False)],
)
def test_what_is_linked_in_is_no_call_by_pointer(target: str, by_pointer: bool) -> None:
    """vprintf and __assertfail are called through a table of the driver's (bank 4)."""
    code = Listing(program(f"{target}\nSTL [R1], R4\nCALL.ABS.NOINC R2\nLDL R4, [R1]\nEXIT"))
    accesses = local_accesses(code)
    assert len(accesses) == 2 and passed_on(code, accesses) == by_pointer
    assert not passed_on(code, [])


def test_long_blocks_leave_an_sm_s_warps_empty(facts: Known) -> None:
    """What smaller pieces bring at best: as many more warps as an SM could hold; none where all blocks run at once."""
    uneven, at_once = LoadImbalance()._fuller(facts("ragged.block")), LoadImbalance()._fuller(facts("pairs.rows"))
    assert uneven == pytest.approx(64 / 15.3, abs=0.1) and at_once == 1.0
    finding = found("GRD403", facts("ragged.block"))
    assert finding.estimate is not None and finding.estimate.low < 17.55 < finding.estimate.high
