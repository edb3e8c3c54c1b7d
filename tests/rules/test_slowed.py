"""Conditions of advice that had slowed public kernels: each holds on a capture, and not where it should not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.features.patterns.slicing import purpose
from kscope.features.sass.listing import Listing
from kscope.features.sass.loop_kinds import SPIN, loop_kinds
from kscope.fixes.work.launch import ENOUGH
from kscope.model.kernel import Kernel
from kscope.rules._shared.blocks.deeper_loads import HELD, TESTED, written_out
from kscope.rules._shared.blocks.joined_rows import joined
from kscope.rules._shared.blocks.one_round_more import CROWDED, crowded
from kscope.rules._shared.blocks.registers import held
from kscope.rules._shared.coarser_threads import masked_beside
from kscope.rules._shared.layouts import sure
from kscope.rules._shared.local_memory import waits_for_locals
from kscope.rules._shared.own_records import split
from kscope.rules._shared.waits_in_row import FETCHES, LOADS, fetching, named
from kscope.rules._shared.wide_accesses import FATTER, TILE, candidates, fix, mixes
from kscope.rules.compute.tensor_cores_idle import TensorCoresIdle
from kscope.rules.grid.block_size import COMMON
from kscope.rules.latency.low_occupancy import MORE_BLOCKS
from kscope.rules.latency.warp_divergence import WarpDivergence
from kscope.rules.memory.local_memory_indexing import PACKED, SELECTED
from tests.features.listings import program
from tests.rules.test_arithmetic import walked
from tests.support.said import found

Known = Callable[[str], Facts]


def with_frame(kernel: Kernel, bytes_: int) -> Facts:
    """The same with so many bytes of local memory a thread."""
    assert kernel.program is not None
    code = kernel.program.instructions
    (place,) = (n for n, ins in enumerate(code) if ins.defs == (1,) and 1 in ins.uses)
    frame = [msgspec.structs.replace(o, value=-bytes_) if o.kind == "integer" else o for o in code[place].operands]
    changed = msgspec.structs.replace(code[place], operands=tuple(frame))
    out = msgspec.structs.replace(kernel.program, instructions=(*code[:place], changed, *code[place + 1 :]))
    return Facts(msgspec.structs.replace(kernel, program=out))


def test_the_driver_s_carve_out_is_no_limit_beside_another(facts: Known) -> None:
    """It sets no more of an SM aside than the blocks take that registers allow: registers alone are to be saved."""
    known = facts("mha_copy.registers")
    assert known.counters.occupancy is not None and known.counters.occupancy.limiters == ("registers",)
    asked = facts("occupancy_smem.slow").counters.occupancy
    assert asked is not None and asked.limiters == ("shared memory",), "200 KB that the launch asks for are a limit"


def test_more_warps_are_none_for_warps_that_wait_for_their_own_arrays(facts: Known) -> None:
    assert waits_for_locals(facts("sort16.insertion")) and waits_for_locals(facts("local_array.slow"))
    assert not waits_for_locals(facts("calibrate.block128"))


def test_a_grid_of_one_block_for_each_place_has_to_grow(facts: Known) -> None:
    kernel = facts("calibrate.block128").kernel
    assert MORE_BLOCKS in found("LAT301", Facts(kernel)).fix
    launch = msgspec.structs.replace(kernel.launch, grid=(4 * kernel.launch.grid[0], 1, 1), waves=4.0)
    assert MORE_BLOCKS not in found("LAT301", Facts(msgspec.structs.replace(kernel, launch=launch))).fix


def test_as_many_values_as_are_alive_need_as_many_registers(facts: Known) -> None:
    known = facts("mha_copy.registers")
    occ, code = known.counters.occupancy, known.code
    assert occ is not None and code is not None
    assert not held(known, occ, occ.theoretical), "what an SM holds now is within reach"
    assert held(known, occ, occ.maximum) == (0.85 * code.liveness.peak()[0] > 65536 / 32 / occ.maximum)


@pytest.mark.parametrize(("bytes_", "way"), [(32, SELECTED), (256, None)])
def test_few_words_that_no_loop_indexes_are_selected(bytes_: int, way: str | None, facts: Known) -> None:
    finding = found("MEM105", with_frame(facts("local_array.slow").kernel, bytes_))
    assert (finding.fix == way) if way else (finding.fix not in (SELECTED, PACKED))


def test_a_selection_takes_instructions_for_each_word(facts: Known) -> None:
    """Eight words selected cost more than one: the promise is smaller."""
    kernel = facts("local_array.slow").kernel
    few, some = (found("MEM105", with_frame(kernel, n)).estimate for n in (4, 32))
    assert few is not None and some is not None and few.speedup > some.speedup


@pytest.mark.parametrize(("case", "own"), [("dwconv.one", 18), ("csr.thread", 0), ("uncoalesced.slow", 0)])
def test_threads_with_many_loads_of_their_own_take_no_second_element(case: str, own: int, facts: Known) -> None:
    known = facts(case)
    assert known.code is not None and crowded(known, known.code) == own
    if own:
        assert CROWDED.format(own) in {r.why for r in found("LAT302", known).remedies}


@pytest.mark.parametrize(
    ("case", "way"), [("digits.thread_rows", TESTED), ("publish.fence_each", HELD), ("csr.thread", "")]
)
def test_unrolled_loops_are_told_what_keeps_their_loads_apart(case: str, way: str, facts: Known) -> None:
    known = facts(case)
    code = known.code
    assert code is not None
    loads = code.where(lambda ins, op: op.access == "load" and op.space == "global" and op.scoreboard == "long")
    hot = [i for i in code.hottest(loads) if code.blamed[i] > 0]
    assert written_out(known, code, hot) == way


def test_sharing_a_row_repeats_what_is_done_once_a_row(facts: Known) -> None:
    known = facts("csr.thread")
    code = known.code
    assert code is not None
    loop = next(n for n, lp in enumerate(code.cfg.loops) if lp.innermost and code.executed[lp.instructions[0]] > 0)
    loads = [i for i in code.cfg.loop_body(loop) if code.classes[i].access == "load"]
    four, all_ = (joined(known, code, loads, lanes).get("instructions", 1.0) for lanes in (4, 32))
    assert joined(known, code, loads, 1) == {} and 1.0 <= four < all_


@pytest.mark.parametrize(
    ("case", "words"), [("rope_bf16.pairs", True), ("uncoalesced.slow", False), ("csr.thread", False)]
)
def test_words_of_neighbouring_structures_stay_with_their_lane(case: str, words: bool, facts: Known) -> None:
    known = facts(case)
    code = known.code
    finding = found("MEM101", known)
    assert code is not None and finding.locations
    by_pc = {ins.pc: i for i, ins in enumerate(code.program.instructions)}
    members = sorted({by_pc[at.pc] for at in finding.locations if at.pc is not None})
    assert bool(split(known, code, members)) == words
    assert ("whole structures with one access" in finding.fix) == words


POLL = """
LDC.64 R2, c[0x0][0x210]
{load}
ISETP.NE.AND P0, PT, R4, RZ, PT
MEMBAR.SC.GPU
@!P0 BRA 0x10
EXIT
"""


@pytest.mark.parametrize(
    ("load", "spins"),
    [
        ("LDG.E R4, desc[UR4][R2.64]", True),  # volatile: the same place in each round
        ("LDG.E.STRONG.GPU R4, desc[UR4][R2.64]", True),
        ("LDG.E R4, desc[UR4][R4.64]", False),  # a list that is walked
    ],
)  # fmt: skip
def test_a_loop_that_asks_for_one_place_waits_for_another_warp(load: str, spins: bool) -> None:
    code = Listing(program(POLL.format(load=load)), "test")
    assert (SPIN in loop_kinds(code.program, code.cfg, code.classes).values()) == spins


SPINS = """
0x0 S2R R0, SR_TID.X
0x10 LDC.64 R2, c[0x0][0x210]
0xe0 LDG.E R4, desc[UR4][{place}.64]
0xf0 ISETP.NE.AND P0, PT, {tested}, RZ, PT
0x100 @!P0 BRA 0xe0
0x110 EXIT
"""


@pytest.mark.parametrize(
    ("place", "tested", "waits"), [("R2", "R4", True), ("R4", "R4", False), ("R2", "R0", False)],
    ids=["a flag", "a list", "a loop that something else ends"],
)  # fmt: skip
def test_a_lane_that_waits_for_its_warp_is_no_divergence(place: str, tested: str, waits: bool) -> None:
    """One lane spins while 31 wait behind it, by design: neither are its rounds narrow, nor is the flag data."""
    known = walked(SPINS.format(place=place, tested=tested), lanes=1.0)
    code = known.code
    assert code is not None
    (load,) = code.where(lambda ins, op: op.access == "load" and op.space == "global")
    assert (load not in WarpDivergence()._narrow(known, code, 32.0)) == waits
    assert (load not in fetching(known, code)) == waits


def test_the_rule_names_the_block_by_the_word_that_its_change_reads(facts: Known) -> None:
    (named_,) = (e.value for e in found("GRD404", facts("julia.block6x6")).evidence if e.metric == ENOUGH)
    assert named_ == 128 == COMMON


@pytest.mark.parametrize(("steps", "computes"), [(80, True), (10, False)])
def test_a_hash_of_the_thread_s_number_is_no_address(steps: int, computes: bool) -> None:
    """What decides whether a nonce is stored is what the kernel computes; a bound of a few steps is not."""
    mixed = "\n".join(f"LOP3.LUT R{4 + n % 2}, R{5 - n % 2}, {hex(17 * n + 1)}, R0, 0x96, !PT" for n in range(steps))
    text = (
        f"S2R R0, SR_TID.X\nLDC.64 R2, c[0x0][0x210]\n{mixed}\nISETP.GT.U32.AND P0, PT, R4, 0x10, PT\n"
        f"@P0 EXIT\nSTG.E desc[UR4][R2.64], R0\nEXIT\n"
    )
    code = Listing(program(text), "test")
    mixing = {i for i in range(len(code)) if code[i].opcode == "LOP3"}
    assert (len(mixing & purpose(code)) > steps // 2) == computes


@pytest.mark.parametrize(("case", "what"), [("texels.fetched", FETCHES), ("texels.loaded", LOADS)])
def test_textures_are_fetched_and_not_copied(case: str, what: str, facts: Known) -> None:
    """cp.async and TMA copy memory; a filtered fetch is neither."""
    code = facts(case).code
    assert code is not None
    slow = code.where(lambda ins, op: op.scoreboard == "long" and op.access == "load")
    assert named(code, [i for i in code.hottest(slow)[:4] if code.blamed[i] > 0]) == what


TURNED = """
S2R R0, SR_TID.X
LDC.64 R2, c[0x0][0x210]
LDC.64 R6, c[0x0][0x218]
IMAD.WIDE R2, R0, 0xc, R2
IMAD.WIDE R6, R0, 0xc, R6
LDG.E R8, desc[UR4][R2.64]
LDG.E R9, desc[UR4][R2.64+0x4]
LDG.E R10, desc[UR4][R2.64+0x8]
{x}
FMUL R13, R9, R9
FMUL R14, R10, R10
STG.E desc[UR4][R6.64], R12
STG.E desc[UR4][R6.64+0x4], R13
STG.E desc[UR4][R6.64+0x8], R14
EXIT
"""


@pytest.mark.parametrize(("x", "turned"), [("FFMA R12, R8, R9, R10", True), ("FMUL R12, R8, R8", False)])
def test_pieces_that_need_each_other_are_no_flat_array(x: str, turned: bool) -> None:
    """A vector that is turned takes all its pieces; one that is scaled takes each as it comes."""
    known = walked(TURNED.format(x=x))
    assert known.code is not None
    threes = known.lanes.threes
    assert len(threes) == 2
    loads = Counter(known.code.classes[g.members[0]].access for g in threes)
    assert loads == {"load": 1, "store": 1}
    assert mixes(known.code, threes, threes) == turned


ROW = """
0x0 S2R R0, SR_TID.X
0x10 LDC.64 R2, c[0x0][0x210]
0x20 LDC.64 R6, c[0x0][0x218]
0x30 LDC.64 R8, c[0x0][0x220]
0xe0 LDG.E R10, desc[UR4][R8.64]
0xf0 IMAD.WIDE R12, {picked}, 0x8, R2
0x100 LDG.E.64 R14, desc[UR4][R12.64]
0x110 LDG.E.64 R16, desc[UR4][R6.64]
0x120 DFMA R18, R14, R16, R18
0x130 IADD3 R6, R6, 0x8, RZ
0x140 IADD3 R8, R8, 0x4, RZ
0x150 IADD3 R20, R20, 0x1, RZ
0x160 ISETP.NE.AND P2, PT, R20, 0x40, PT
0x170 @P2 BRA 0xe0
0x180 STG.E.64 desc[UR4][R8.64], R18
0x190 EXIT
"""


@pytest.mark.parametrize(("picked", "sparse"), [("R10", True), ("R20", False)])
def test_rows_of_a_sparse_matrix_fill_no_tensor_core(picked: str, sparse: bool) -> None:
    """A public solve with blocks of 3 x 3: 2.1x was promised on tensor cores, and no sample waits for a product."""
    known = walked(ROW.format(picked=picked))
    (loop,) = known.patterns.fma_loops
    assert loop.both and TensorCoresIdle()._sparse(known, loop) == sparse


MASK = """
0x0 S2R R0, SR_TID.X
0x10 LDC.64 R2, c[0x0][0x210]
0x20 LDC.64 R6, c[0x0][0x218]
0x30 IADD3 R2, R2, R0, RZ
0x40 LDG.E.U8 R4, desc[UR4][R2.64]
0x50 ISETP.EQ.AND P0, PT, {tested}, RZ, PT
0x60 @P0 EXIT
0xe0 IMAD.WIDE R6, R0, 0x8, R6
0xf0 STG.E.64 desc[UR4][R6.64], R8
0x100 EXIT
"""


@pytest.mark.parametrize(("tested", "share", "found_"), [("R4", 0.3, True), ("R0", 0.3, False), ("R4", 0.02, False)])
def test_what_a_mask_picks_lies_apart_for_fatter_threads(tested: str, share: float, found_: bool) -> None:
    """A public kernel that packs the elements of a mask: 16 bytes of the mask a thread took 1.13 times as long."""
    known = walked(MASK.format(tested=tested))
    code = known.code
    assert code is not None
    code.__dict__["threads"] = [share * 32000.0 if i >= 7 else 32000.0 for i in range(len(code))]
    assert masked_beside(code, [4]) == found_


def test_threads_that_cannot_become_fewer_are_not_told_to(facts: Known) -> None:
    """A public kernel of 1.4 waves: "fewer, fatter threads" was the fix, and what the same finding ruled out."""
    known = facts("ldg32_x4.slow")
    assert known.code is not None
    groups, narrow = candidates(known, known.code)
    members = sorted({*narrow, *(i for g in groups for i in g.members)})
    told = [fix(known, known.code, members, groups, peeled=False, own=False, few=few) for few in (False, True)]
    assert FATTER in told[0] and TILE not in told[0]
    assert TILE in told[1] and FATTER not in told[1]


def test_a_small_gain_by_other_places_for_lanes_is_not_sure(facts: Known) -> None:
    known = facts("uncoalesced.slow")
    assert [sure(known, {"l2_sectors": 0.3}, 0, gain=gain, indirect=False) for gain in (1.5, 1.7)] == [0.5, 0.9]


def test_a_kernel_without_loads_has_none_in_flight(facts: Known) -> None:
    """A public kernel that fills an image: threads that do more were to have more loads in flight."""
    known = facts("taper.one")
    assert known.code is not None
    loads = known.code.where(lambda ins, op: op.access == "load" and op.space == "global")
    assert ("loads in flight" in found("GRD405", known).why) == bool(len(loads))
    assert ("loads in flight" in found("GRD405", without_loads(known.kernel)).why) is False


def without_loads(kernel: Kernel) -> Facts:
    """The same where its loads from global memory move a constant."""
    assert kernel.program is not None
    code = [
        msgspec.structs.replace(ins, opcode="MOV", mods=()) if ins.opcode == "LDG" else ins
        for ins in kernel.program.instructions
    ]
    changed = msgspec.structs.replace(kernel.program, instructions=tuple(code))
    return Facts(msgspec.structs.replace(kernel, program=changed))
