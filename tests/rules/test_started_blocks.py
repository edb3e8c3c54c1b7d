"""Blocks that end as fast as the device can start them: short threads where the blocks are large enough, small blocks
elsewhere; lanes of a row of their own, and blocks of few threads."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding, Remedy
from kscope.rules._shared.blocks.started import outrun
from kscope.rules._shared.coarser_threads import alike_once, straight
from kscope.rules._shared.layouts import FIX, PIECES, ROW, Way, leading
from kscope.rules.base import PASSED
from kscope.rules.registry import rule

Known = Callable[[str], Facts]


def found(code: str, facts: Facts) -> Finding:
    said = rule(code)().run(facts)  # type: ignore[attr-defined]
    assert isinstance(said, Finding)
    return said


def test_threads_of_large_enough_blocks_are_too_short(facts: Known) -> None:
    """Measured: 4.1 times faster with eight samples a thread; nothing is said of a larger block."""
    known = facts("taper.one")
    assert outrun(known) and not outrun(facts("taper.eight"))
    finding = found("GRD405", known)
    assert finding.estimate is not None and finding.estimate.low < 4.1 < finding.estimate.high
    assert finding.estimate.speedup == pytest.approx(4.1, rel=0.2)
    assert "as fast as the device can start them" in finding.title
    assert rule("GRD404")().run(known) is PASSED  # type: ignore[attr-defined]


@pytest.mark.parametrize(("threads", "short"), [(32, False), (48, False), (64, True), (128, True)])
def test_only_blocks_of_two_and_more_whole_warps_have_threads_that_end_too_soon(
    threads: int, short: bool, facts: Known
) -> None:
    """One warp a block, and blocks with idle lanes, are GRD404's."""
    kernel = facts("taper.one").kernel
    launch = msgspec.structs.replace(kernel.launch, block=(threads, 1, 1))
    said = rule("GRD405")().run(Facts(msgspec.structs.replace(kernel, launch=launch)))  # type: ignore[attr-defined]
    assert (isinstance(said, Finding) and "as fast as the device can start" in said.title) == short


def test_trees_in_global_memory_whose_rounds_are_written_out(facts: Known) -> None:
    """Measured: 1.44 times faster by shuffles."""
    finding = found("GRD405", facts("halves.global"))
    assert finding.estimate is not None and finding.estimate.low < 1.44 < finding.estimate.high
    assert facts("halves.global").patterns.block_trees(512, "global")
    assert not facts("halves.global").patterns.block_trees(512)
    assert not facts("halves.shuffle").patterns.block_trees(512, "global")


def test_few_threads_a_block_whose_rounds_more_could_share(facts: Known) -> None:
    """Eight threads a block, limited by registers of which 24 lanes use none: 3.2x with 128 threads (by ncu)."""
    finding = found("GRD401", facts("nearby.few"))
    assert finding.estimate is not None and finding.estimate.speedup == pytest.approx(3.2, rel=0.2)
    assert "blocks of 128 threads" in finding.fix


def test_loops_over_a_grid_as_large_as_the_work_are_no_loops(facts: Known) -> None:
    """A thread that goes round a loop again and again has it; one that goes once, has not."""
    again, once = facts("lines.each"), facts("taper.one")
    assert again.code is not None and once.code is not None
    inside = [i for i in range(len(again.code)) if again.code.cfg.loop_of[i] is not None and again.code.executed[i]]
    assert inside and not any(straight(again, again.code, i) for i in inside)
    assert all(straight(once, once.code, i) for i in range(len(once.code)) if once.code.executed[i])
    assert alike_once(once, once.code)


@pytest.mark.parametrize(("own", "first"), [(2.27, PIECES), (2.1, FIX[ROW]), (None, FIX[ROW])])
def test_rows_of_their_own_lead_where_joining_brings_no_more(own: float | None, first: str, facts: Known) -> None:
    """A public kernel: 1.97x by float4, 0.63x by sixteen lanes a row."""
    estimate = found("MEM101", facts("row_stats.thread")).estimate
    assert estimate is not None
    shared = msgspec.structs.replace(estimate, speedup=2.27)
    remedies = list[Remedy]()
    if own is not None:
        mine = msgspec.structs.replace(estimate, speedup=own)
        why = "where rows start at multiples of 16 bytes"
        remedies = [Remedy(step=PIECES, applies=True, estimate=mine, why=why)]
    lead = leading(Way(ROW, "", 1.0, ""), FIX[ROW], shared, remedies)
    assert lead.fix.startswith(first)
    assert (lead.title or "").endswith("a warp") == (first == FIX[ROW])
    assert [r.step for r in lead.remedies] == ([] if own is None else [FIX[ROW] if first == PIECES else PIECES])


