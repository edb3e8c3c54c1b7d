"""How accesses move from round to round and from block to block, on real captures and on compiled code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.code import Code
from kscope.features.facts import Facts
from kscope.features.listing import Listing
from kscope.features.walks import Walks
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
