"""Blocks that end as fast as the device can start them: short threads where the blocks are large enough, small blocks
elsewhere; lanes of a row of their own, and blocks of few threads."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding, Remedy
from kscope.rules._shared.blocks.deeper_loads import CHAINS, HOPS, SIDE
from kscope.rules._shared.blocks.started import in_tiles, outrun
from kscope.rules._shared.coarser_threads import alike_once, makes_one, stored_by_each, straight, strays
from kscope.rules._shared.data_reuse import walked
from kscope.rules._shared.layouts import APART, FIX, PIECES, ROW, Way, columns_beside, leading
from kscope.rules.base import PASSED
from kscope.rules.registry import rule
from tests.rules.test_arithmetic import walked as run
from tests.support.said import found

Known = Callable[[str], Facts]


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


def test_rows_of_which_a_lane_would_have_two_elements_stay_with_their_lanes(facts: Known) -> None:
    """Measured on a public kernel with rows of 16: 1.97x, shared 0.63x."""
    estimate = found("GRD405", facts("taper.one")).estimate
    assert estimate is not None
    shared, mine = (msgspec.structs.replace(estimate, speedup=gain) for gain in (1.32, 1.22))
    own = [Remedy(step=PIECES, applies=True, estimate=mine, why="where rows start at multiples of 16 bytes")]
    assert leading(Way(ROW, "", 1.0, "", walks=True), FIX[ROW], shared, own).fix == FIX[ROW]
    lead = leading(Way(ROW, "", 1.0, "", walks=True, brief=True), FIX[ROW], shared, own)
    assert lead.fix.startswith(PIECES) and lead.estimate == mine
    little = [msgspec.structs.replace(own[0], estimate=msgspec.structs.replace(mine, speedup=1.02))]
    assert leading(Way(ROW, "", 1.0, "", brief=True), FIX[ROW], shared, little).fix == FIX[ROW], "it must bring a tenth"


def test_rows_beside_columns_stay_with_their_lanes(facts: Known) -> None:
    """Lanes along a row would find a stride apart what they load side by side now. A public kernel (samples against
    their centres): 3.4x by 16 bytes of the row, a warp a row 0.96x."""
    estimate = found("GRD405", facts("taper.one")).estimate
    assert estimate is not None
    shared, mine = (msgspec.structs.replace(estimate, speedup=gain) for gain in (4.1, 3.0))
    own = [Remedy(step=PIECES, applies=True, estimate=mine, why="where rows start at multiples of 16 bytes")]
    assert leading(Way(ROW, "", 1.0, "", walks=True), FIX[ROW], shared, own).fix == FIX[ROW]
    lead = leading(Way(ROW, "", 1.0, "", walks=True, apart=True), FIX[ROW], shared, own)
    assert lead.fix.startswith(PIECES) and lead.estimate == mine
    assert [(r.step, r.applies, r.why) for r in lead.remedies] == [(FIX[ROW], False, APART)]


COLUMN = """
0x0 S2R R0, SR_TID.X
0x10 LDC.64 R2, c[0x0][0x210]
0x20 LDC.64 R4, c[0x0][0x218]
0x30 IMAD.WIDE R2, R0, 0x4, R2
0x40 IMAD.WIDE R4, R0, 0x4, R4
0x50 STG.E desc[UR6][R2.64], R7
0x60 STG.E desc[UR6][R2.64+0x1000], R7
0x70 STG.E desc[UR6][R2.64+0x2000], R7
0x80 STG.E desc[UR6][{last}.64+0x3000], R7
0x90 EXIT
"""


@pytest.mark.parametrize(("last", "bytes_"), [("R2", 16), ("R4", 12)])
def test_a_column_of_elements_shares_what_a_thread_pays_once(
    last: str, bytes_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four of one array a thread, though apart, or three of one and one of another. A public kernel with eight of a
    volume: four times as many 0.82x."""
    facts = run(COLUMN.format(last=last))
    assert facts.code is not None and stored_by_each(facts, facts.code, [5, 6, 7, 8]) == bytes_
    launch = msgspec.structs.replace(facts.counters.launch, blocks=1024, warps_per_block=8, waves=8.0)
    monkeypatch.setattr(type(facts.counters), "launch", launch)
    assert makes_one(facts, facts.code, [5, 6, 7, 8]) == (bytes_ < 16)


BESIDE = """
0x0 S2R R0, SR_TID.X
0x10 LDC.64 R2, c[0x0][0x210]
0x20 LDC.64 R4, c[0x0][0x218]
0x30 IMAD.WIDE R2, R0, 0x400, R2
0x40 IMAD.WIDE R4, R0, {lane}, R4
0xe0 LDG.E R6, desc[UR6][R2.64]
0xf0 LDG.E R7, desc[UR6][R4.64]
0x100 IADD3 R2, R2, 0x4, RZ
0x110 IADD3 R4, R4, {step}, RZ
0x120 FFMA R21, R6, R7, R21
0x130 IADD3 R20, R20, 0x1, RZ
0x140 ISETP.NE.AND P1, PT, R20, 0x40, PT
0x150 @P1 BRA 0xe0
0x160 EXIT
"""


@pytest.mark.parametrize(
    ("lane", "step", "apart"), [("0x4", "0x1000", True), ("0x4", "0x0", False), ("0x0", "0x4", False)],
    ids=["columns", "one element each", "one row for all"],
)  # fmt: skip
def test_what_lies_side_by_side_from_round_to_round(
    lane: str, step: str, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = run(BESIDE.format(lane=lane, step=step))
    assert facts.code is not None
    monkeypatch.setattr(type(facts.profile), "compact", lambda self, i: i == 6)
    assert columns_beside(facts, facts.code, [5]) == apart


def test_a_tile_has_longer_blocks_where_starting_them_is_the_limit(facts: Known) -> None:
    scale, why = in_tiles(facts("voxels.one"), possible=True)
    assert scale == {"blocks": 0.25} and "several elements a thread" in why
    assert in_tiles(facts("voxels.one"), possible=False) == ({}, ""), "gathers have no tile"
    assert in_tiles(facts("taper.eight"), possible=True) == ({}, ""), "its blocks start fast enough"


@pytest.mark.parametrize(
    ("case", "apart"),
    [("uncoalesced.slow", True), ("hamming.vector", True), ("narrow_loads.slow", False), ("voxels.one", False)],
)
def test_lanes_that_fatter_threads_would_move_apart(case: str, apart: bool, facts: Known) -> None:
    """They walk rows of their own; they load 16 bytes each already; they lie side by side; an index picks the row."""
    known = facts(case)
    assert known.code is not None
    loads = known.code.where(lambda ins, op: op.space == "global" and op.access == "load")
    assert strays(known, known.code, known.code.ran(loads)) == apart


def test_a_thread_with_one_chain_follows_no_others(facts: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread of the capture walks many lists; had it one, less than a wave of them would all be in flight."""
    several = found("LAT302", facts("list_walk.serial"))
    assert several.fix == CHAINS
    known = Facts(facts("list_walk.serial").kernel)
    assert known.counters.launch.waves < 1 and known.code is not None
    (inner,) = {n for n, loop in enumerate(known.code.cfg.loops) if loop.innermost and loop.parent is not None}
    trips = type(known.patterns).trips
    monkeypatch.setattr(type(known.patterns), "trips", lambda self, n: trips(self, n) if n == inner else 1.0)
    one = found("LAT302", known)
    assert one.fix == HOPS and one.estimate is not None and several.estimate is not None
    assert one.estimate.speedup < several.estimate.speedup
    assert any(r.step == SIDE and not r.applies and "in flight already" in r.why for r in one.remedies)


def test_device_memory_is_named_where_l2_shows_its_time(facts: Known) -> None:
    known = facts("slopes.compared")
    fullest = known.counters.busiest
    assert fullest is not None and fullest.name == "l2" and known.counters.l2_shows_dram
    assert found("MEM107", known).severity == "minor"
    assert not facts("gemm_f32.naive").counters.l2_shows_dram


def test_the_rest_of_a_row_in_l1_is_no_reuse(facts: Known) -> None:
    known = facts("rows.single")
    assert known.code is not None
    loads = known.code.ran(known.code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    rows = walked(known, known.code, loads)
    assert rows and not any(map(known.profile.compact, rows)) and rows < set(loads), "the weights are all lanes' own"
