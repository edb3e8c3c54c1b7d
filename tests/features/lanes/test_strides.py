"""How accesses move from round to round and from block to block, on real captures and on compiled code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.features.lanes.strides import Walks, astride, lane_stride
from kscope.features.profile.code import Code
from kscope.features.profile.excess import IDEAL_SECTORS, SECTORS
from kscope.features.sass.listing import Listing
from kscope.features.sass.slices import grid_dimensions
from tests.features.listings import program

# for (int r = threadIdx.x; r < rows; r += 32) x += a[(size_t)r * cols + blockIdx.x];  nvcc 13.0, sm_90a, shortened
# behind the loop: a block sums a column, its lanes stand a row apart.
COLUMN_A_BLOCK = """
0x0 LDC R1, c[0x0][0x28]
0x10 S2R R6, SR_TID.X
0x20 ULDC UR6, c[0x0][0x220]
0x30 ULDC.64 UR4, c[0x0][0x208]
0x40 ULDC.64 UR8, c[0x0][0x210]
0x50 BSSY B0, 0x1e0
0x60 HFMA2.MMA R0, -RZ, RZ, 0, 0
0x70 ISETP.GE.AND P0, PT, R6, UR6, PT
0x80 @P0 BRA 0x1d0
0x90 LDC R11, c[0x0][0x224]
0xa0 S2R R7, SR_CTAID.X
0xb0 SHF.R.S32.HI R10, RZ, 0x1f, R6
0xc0 IMAD.MOV.U32 R0, RZ, RZ, RZ
0xd0 MOV R9, R6
0xe0 SHF.R.S32.HI R8, RZ, 0x1f, R11
0xf0 MOV R2, R7
0x100 IMAD R4, R10, R11, RZ
0x110 IMAD.MOV.U32 R3, RZ, RZ, RZ
0x120 IMAD R5, R8, R9, R4
0x130 IMAD.WIDE.U32 R2, R9, R11, R2
0x140 IADD3 R3, R3, R5, RZ
0x150 LEA R4, P0, R2, UR8, 0x2
0x160 LEA.HI.X R5, R2, UR9, R3, 0x2, P0
0x170 LDG.E.CONSTANT R5, desc[UR4][R4.64]
0x180 IADD3 R9, P1, R9, 0x20, RZ
0x190 ISETP.GE.AND P0, PT, R9, UR6, PT
0x1a0 IADD3.X R10, RZ, R10, RZ, P1, !PT
0x1b0 FADD R0, R5, R0
0x1c0 @!P0 BRA 0xf0
0x1d0 BSYNC B0
0x1e0 SHFL.BFLY PT, R3, R0, 0x10, 0x1f
0x1f0 EXIT
0x200 BRA 0x200
"""

# for (int i = threadIdx.x; i < 4096; i += 256) a += p[i] * p[i + 64 * blockIdx.y];  with p = x + blockIdx.x * 4096
LAGS = """
0x0 LDC R1, c[0x0][0x28]
0x10 S2R R4, SR_TID.X
0x20 LDC.64 R2, c[0x0][0x218]
0x30 ULDC.64 UR4, c[0x0][0x208]
0x40 BSSY B0, 0x240
0x50 S2R R13, SR_CTAID.X
0x60 IMAD.MOV.U32 R11, RZ, RZ, RZ
0x70 S2R R10, SR_CTAID.Y
0x80 ISETP.GT.AND P0, PT, R4, 0xfff, PT
0x90 @P0 BRA 0x230
0xa0 IMAD R8, R10, 0x40, R4.reuse
0xb0 SHF.R.S32.HI R5, RZ, 0x1f, R4
0xc0 ULDC.64 UR6, c[0x0][0x210]
0xd0 IADD3 R0, R4, -0x100, RZ
0xe0 IMAD.MOV.U32 R11, RZ, RZ, RZ
0xf0 SHF.R.S32.HI R9, RZ, 0x1f, R8
0x100 IMAD.WIDE.U32 R6, R13, 0x1000, R4
0x110 IMAD.WIDE.U32 R8, R13, 0x1000, R8
0x120 LEA R14, P0, R6, UR6, 0x2
0x130 LEA R12, P1, R8, UR6, 0x2
0x140 LEA.HI.X R15, R6, UR7, R7, 0x2, P0
0x150 LEA.HI.X R7, R8, UR7, R9, 0x2, P1
0x160 IMAD.MOV.U32 R6, RZ, RZ, R12
0x170 MOV R8, R14
0x180 IMAD.MOV.U32 R9, RZ, RZ, R15
0x190 LDG.E.CONSTANT R6, desc[UR4][R6.64]
0x1a0 LDG.E.CONSTANT R8, desc[UR4][R8.64]
0x1b0 VIADD R0, R0, 0x100
0x1c0 IADD3 R12, P2, R12, 0x400, RZ
0x1d0 IADD3 R14, P1, R14, 0x400, RZ
0x1e0 ISETP.GE.AND P0, PT, R0, 0xf00, PT
0x1f0 IMAD.X R7, RZ, RZ, R7, P2
0x200 IADD3.X R15, RZ, R15, RZ, P1, !PT
0x210 FFMA R11, R6, R8, R11
0x220 @!P0 BRA 0x160
0x230 BSYNC B0
0x240 ULDC UR6, c[0x0][0xc]
0x250 IMAD R5, R10, UR6, R13
0x260 LEA R5, R5, R4, 0x8
0x270 IMAD.WIDE.U32 R2, R5, 0x4, R2
0x280 STG.E desc[UR4][R2.64], R11
0x290 EXIT
"""
# for (int i = threadIdx.x / 32; i < rows; i += 8) a += p[i * 256];  with p = x + blockIdx.x * 32 + threadIdx.x % 32
ROWS = """
0x0 LDC R1, c[0x0][0x28]
0x10 S2R R6, SR_TID.X
0x20 LDC.64 R2, c[0x0][0x218]
0x30 ULDC UR6, c[0x0][0x220]
0x40 ULDC.64 UR4, c[0x0][0x208]
0x50 S2R R9, SR_CTAID.X
0x60 BSSY B0, 0x1e0
0x70 IMAD.MOV.U32 R7, RZ, RZ, RZ
0x80 SHF.R.U32.HI R0, RZ, 0x5, R6
0x90 ISETP.GE.AND P0, PT, R0, UR6, PT
0xa0 IMAD R5, R9, 0x100, R6
0xb0 IMAD.WIDE.U32 R2, R5, 0x4, R2
0xc0 @P0 BRA 0x1d0
0xd0 IMAD.SHL.U32 R4, R0, 0x100, RZ
0xe0 ULDC.64 UR8, c[0x0][0x210]
0xf0 IMAD.MOV.U32 R7, RZ, RZ, RZ
0x100 LEA R5, P0, R9, R4, 0x5
0x110 LOP3.LUT R5, R5, 0x1f, R6, 0xf8, !PT
0x120 LEA.HI.X.SX32 R4, R4, RZ, 0x1, P0
0x130 LEA R6, P1, R5, UR8, 0x2
0x140 LEA.HI.X R5, R5, UR9, R4, 0x2, P1
0x150 IMAD.MOV.U32 R4, RZ, RZ, R6
0x160 LDG.E.CONSTANT R4, desc[UR4][R4.64]
0x170 VIADD R0, R0, 0x8
0x180 IADD3 R6, P1, R6, 0x2000, RZ
0x190 ISETP.GE.AND P0, PT, R0, UR6, PT
0x1a0 IMAD.X R5, RZ, RZ, R5, P1
0x1b0 FADD R7, R4, R7
0x1c0 @!P0 BRA 0x150
0x1d0 BSYNC B0
0x1e0 STG.E desc[UR4][R2.64], R7
0x1f0 EXIT
"""


def walks_of(facts: Facts) -> tuple[Code, Walks, list[int]]:
    code = facts.code
    assert code is not None
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    return code, Walks(code, facts.kernel.launch.block), loads


@pytest.mark.parametrize(
    ("case", "step"),
    [
        ("uncoalesced.slow", 64),  # a lane walks a row, 16 floats a round of the unrolled loop
        ("row_stats.thread", 64),
        ("triton_rowsum.down", 16),
    ],
)
def test_a_lane_walks_a_row(case: str, step: int, facts: Callable[[str], Facts]) -> None:
    code, walks, loads = walks_of(facts(case))
    inside = [i for i in loads if code.cfg.loop_of[i] is not None]
    assert {tuple(walks.steps(i)) for i in inside if code.executed[i] == max(code.executed)} <= {(step, step)}
    assert any(walks.steps(i) == [step, step] for i in inside)
    assert walks.on_and_on(inside)


@pytest.mark.parametrize("case", ["uncoalesced.fast", "row_stats.warp"])
def test_a_warp_walks_it_together(case: str, facts: Callable[[str], Facts]) -> None:
    """A round passes over what the other lanes read: no lane reads on where it stopped."""
    _, walks, loads = walks_of(facts(case))
    assert not walks.on_and_on(loads)


def test_fields_of_structs_are_no_columns(facts: Callable[[str], Facts]) -> None:
    """Neighbouring blocks read structs that are blocks apart."""
    _, walks, loads = walks_of(facts("particles.aos"))
    assert {step for i in loads for step in walks.between_blocks(i)} == {256 * 48}
    assert not walks.columns(loads)


def test_a_step_that_launch_values_decide_differs(facts: Callable[[str], Facts]) -> None:
    """B of the naive product goes on by a row of n floats, whatever n is; A by its own elements."""
    code, walks, loads = walks_of(facts("sgemm.naive"))
    steps = {tuple(walks.steps(i)) for i in loads if code.cfg.loop_of[i] is not None}
    constant = {s for s in steps if len(set(s)) == 1}
    assert constant and steps - constant, "one factor walks its row, the other one steps down a column"


def test_a_block_a_column() -> None:
    """Lanes a row apart, rounds 32 rows apart, the next block at the next element: a column's sum, not a row's."""
    code = Listing(program(COLUMN_A_BLOCK))
    (load,) = code.where(lambda ins, op: ins.opcode == "LDG")
    walks = Walks(code, (32, 1, 1))
    assert walks.between_blocks(load) == [4, 4] and walks.columns([load])
    assert len(set(walks.steps(load))) == 2, "32 times the number of columns, which the launch decides"
    assert not walks.on_and_on([load])


def test_windows_of_neighbouring_blocks_overlap() -> None:
    """Four lags over the same 16 KiB: one factor is read four times, the other one but for the 256 bytes of a lag."""
    code = Listing(program(LAGS))
    shifted, same = code.where(lambda ins, op: ins.opcode == "LDG")
    walks = Walks(code, (256, 1, 1))
    asked = dict.fromkeys((shifted, same), 8 * 4 * 16384.0)
    times = walks.windows(asked, {"x": 8, "y": 4})
    assert times[same] == 4
    assert times[shifted] == pytest.approx(4 * 16384 / (16384 + 3 * 256))
    assert walks.windows({shifted: 8 * 16384.0}, {"x": 8}) == {}, "one lag reads everything once"


def test_a_row_that_the_block_looks_up_is_its_own() -> None:
    """A list of arrays in the parameters, one picked by a table of blocks: no statement about what blocks share."""
    plain, picked = "0xe0 SHF.R.S32.HI R8, RZ, 0x1f, R11", "0xe0 LDC R8, c[0x0][R7+0x230]"
    assert plain in COLUMN_A_BLOCK
    for text, said in ((COLUMN_A_BLOCK, frozenset("x")), (COLUMN_A_BLOCK.replace(plain, picked), None)):
        code = Listing(program(text))
        (load,) = code.where(lambda ins, op: ins.opcode == "LDG")
        assert grid_dimensions(code, load) == said


def test_rows_of_a_tile_are_no_window() -> None:
    """As many bytes as a round steps over, but in rows that stand apart: neighbours read the columns beside."""
    code = Listing(program(ROWS))
    (load,) = code.where(lambda ins, op: ins.opcode == "LDG")
    walks = Walks(code, (1024, 1, 1))
    assert walks.steps(load) == [8192, 8192] and walks.between_blocks(load) == [128, 128]
    assert walks.windows({load: 8 * 1024 * 256.0}, {"x": 8}) == {}


@pytest.mark.parametrize(
    ("case", "padded"),
    [("mma_ring.wait_three", True), ("hgemm.wmma_padded", True), ("mha.swizzled", False)],
)
def test_padded_rows_lay_sectors_astride(case: str, padded: bool, facts: Callable[[str], Facts]) -> None:
    """The profiler counts more sectors than the bytes need exactly where rows are padded by half a sector."""
    its = facts(case)
    code = its.code
    assert code is not None
    touched, ideal = code.column(SECTORS), code.column(IDEAL_SECTORS)
    assert touched is not None and ideal is not None
    for i in code.ran(code.where(lambda ins, op: ins.opcode == "LDGSTS" and op.bytes == 16)):
        assert (touched[i] > 1.2 * ideal[i]) == padded
        assert astride(code, i, its.kernel.launch.block) == padded


MASKED = """
0x0 S2R R0, SR_TID.X
0x10 ULDC.64 UR4, c[0x0][0x210]
0x20 LOP3.LUT P0, R5, R0, 0x1f, RZ, 0xc0, !PT
0x30 LEA R2, P1, R5, UR4, 0x2
0x40 LEA.HI.X R3, R5, UR5, RZ, 0x2, P1
0x50 @P0 LDG.E R4, desc[UR6][R2.64]
0x60 EXIT
"""


def test_a_mask_that_also_makes_a_predicate_is_computed() -> None:
    code = Listing(program(MASKED))
    (load,) = code.where(lambda ins, op: ins.opcode == "LDG")
    assert lane_stride(code, load, (256, 1, 1)) == 4
