"""Windows that neighbouring threads load again, on real captures and on compiled code (nvcc 13.0, sm_90, shortened)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from kscope.features.facts import Facts
from kscope.features.lanes.strides import Walks
from kscope.features.profile.neighbours import Window, windows
from kscope.features.sass.listing import TRIPS, Listing
from tests.features.listings import program

# for (k = -3; k <= 3; k++) m = fmaxf(m, x[min(max(i + k, 0), n - 1)]);  with i = blockIdx.x * 256 + threadIdx.x
CLAMPED = """
S2R R0, SR_CTAID.X
ULDC UR5, c[0x0][0x220]
S2R R3, SR_TID.X
IMAD R0, R0, 0x100, R3
LDC.64 R2, c[0x0][0x210]
UIADD3 UR4, UR5, -0x1, URZ
VIADDMNMX R4, R0.reuse, 0xfffffffd, RZ, !PT
VIADDMNMX R5, R0, 0xfffffffe, RZ, !PT
VIMNMX R10, RZ, R0, !PT
VIMNMX R7, R4, UR4, PT
VIADDMNMX R4, R0, 0xffffffff, RZ, !PT
VIMNMX R5, R5, UR4, PT
VIMNMX R11, R4, UR4, PT
VIADDMNMX R12, R0, 0x1, RZ, !PT
VIMNMX R13, R10, UR4, PT
IMAD.WIDE R6, R7, 0x4, R2
IMAD.WIDE R8, R5, 0x4, R2.reuse
LDG.E.CONSTANT R4, desc[UR6][R6.64]
IMAD.WIDE R10, R11, 0x4, R2.reuse
LDG.E.CONSTANT R5, desc[UR6][R8.64]
VIADDMNMX R14, R0, 0x2, RZ, !PT
VIMNMX R15, R12, UR4, PT
IMAD.WIDE R12, R13, 0x4, R2
LDG.E.CONSTANT R11, desc[UR6][R10.64]
VIADDMNMX R16, R0, 0x3, RZ, !PT
VIMNMX R17, R14, UR4, PT
IMAD.WIDE R6, R15, 0x4, R2.reuse
LDG.E.CONSTANT R13, desc[UR6][R12.64]
VIMNMX R19, R16, UR4, PT
IMAD.WIDE R14, R17, 0x4, R2.reuse
LDG.E.CONSTANT R7, desc[UR6][R6.64]
IMAD.WIDE R8, R19, 0x4, R2
LDG.E.CONSTANT R15, desc[UR6][R14.64]
LDG.E.CONSTANT R9, desc[UR6][R8.64]
EXIT
"""

# for (k = 0; k < w; k++) m = fmaxf(m, s[t + k]);  four rounds in one
LOOPED = """
S2R R0, SR_TID.X
LDC R4, c[0x0][0x220]
LEA R3, R0, 0x400, 0x2
BAR.SYNC.DEFER_BLOCKING 0x0
LDS R5, [R3+-0x8]
VIADD R4, R4, 0xfffffffc
LDS R8, [R3+-0x4]
ISETP.NE.AND P0, PT, R4, RZ, PT
LDS R10, [R3]
LDS R12, [R3+0x4]
IADD3 R3, R3, 0x10, RZ
FMNMX R5, R5, R6, !PT
FMNMX R5, R5, R8, !PT
FMNMX R5, R5, R10, !PT
FMNMX R6, R5, R12, !PT
{between}
@P0 BRA 0x40
EXIT
"""

# x[min(i + o, n - 1)] for o = 1 .. 4 a round, the border by a test and a select.
TESTED = """
S2R R0, SR_CTAID.X
LDC R8, c[0x0][0x220]
S2R R3, SR_TID.X
IMAD R5, R0, 0x100, R3
LDC.64 R14, c[0x0][0x210]
VIADD R7, R8, 0xffffffff
MOV R12, 0x1
IADD3 R10, R5, R12, RZ
VIADD R12, R12, 0x3
IADD3 R11, R10, 0x1, RZ
IADD3 R18, R10, 0x2, RZ
ISETP.GE.AND P0, PT, R10, R8, PT
ISETP.GE.AND P1, PT, {compared}, R8, PT
ISETP.GE.AND P2, PT, R18, R8, PT
SEL R16, R10, {border}, !P0
SEL R20, R11, {border}, !P1
SEL R22, R18, {border}, !P2
IMAD.WIDE R16, R16, 0x4, R14
IMAD.WIDE R20, R20, 0x4, R14
IMAD.WIDE R22, R22, 0x4, R14
LDG.E.CONSTANT R27, desc[UR8][R16.64]
LDG.E.CONSTANT R28, desc[UR8][R20.64]
LDG.E.CONSTANT R29, desc[UR8][R22.64]
ISETP.NE.AND P3, PT, R12, R8, PT
@P3 BRA 0x70
EXIT
"""

# Three rows of a tile of 20 x 20 floats by a block of 16 x 16, three values of each.
TILE = """
S2R R13, SR_TID.Y
S2R R0, SR_TID.X
BAR.SYNC.DEFER_BLOCKING 0x0
IMAD R3, R13, 0x50, RZ
IMAD R2, R0, 0x4, R3
LDS R4, [R2]
LDS R7, [R2+0x4]
LDS R8, [R2+0x8]
LDS R11, [R2+0x50]
LDS R14, [R2+0x54]
LDS R17, [R2+0x58]
LDS R9, [R2+0xa0]
LDS R6, [R2+0xa4]
LDS R5, [R2+0xa8]
EXIT
"""

# x[min(max(channel + k, 0), channels - 1) * hw + pixel] for k = -1, 0, 1; a channel a warp
CHANNELS = """
S2R R4, SR_TID.X
LDC.64 R2, c[0x0][0x210]
ULDC.64 UR8, c[0x0][0x220]
S2R R6, SR_CTAID.Y
UIADD3 UR4, UR9, -0x1, URZ
S2R R0, SR_CTAID.X
SHF.R.U32.HI R5, RZ, 0x5, R4
LEA R5, R6, R5, 0x2
SHF.L.U32 R7, R0, 0x5, RZ
LOP3.LUT R4, R7, 0xffffffe0, R4, 0xe2, !PT
VIADDMNMX R6, R5, 0xffffffff, RZ, !PT
VIMNMX R0, RZ, R5, !PT
VIMNMX R9, R6, UR4, PT
VIADDMNMX R8, R5, 0x1, RZ, !PT
VIMNMX R11, R0, UR4, PT
IMAD R9, R9, UR8, R4
VIMNMX R13, R8, UR4, PT
IMAD R11, R11, UR8, R4
IMAD.WIDE R8, R9, 0x4, R2
IMAD R13, R13, UR8, R4
IMAD.WIDE R10, R11, 0x4, R2
LDG.E.CONSTANT R9, desc[UR6][R8.64]
IMAD.WIDE R12, R13, 0x4, R2.reuse
LDG.E.CONSTANT R11, desc[UR6][R10.64]
LDG.E.CONSTANT R13, desc[UR6][R12.64]
EXIT
"""

# Two steps of a scan: s[t] += s[t - d] between barriers, for d = 1 and 2.
SCAN = """
S2R R7, SR_TID.X
LEA R5, R7, 0x400, 0x2
BAR.SYNC.DEFER_BLOCKING 0x0
LDS R4, [R5+-0x4]
BAR.SYNC.DEFER_BLOCKING 0x0
LDS R3, [R5]
FADD R4, R3, R4
STS [R5], R4
BAR.SYNC.DEFER_BLOCKING 0x0
LDS R3, [R5+-0x8]
BAR.SYNC.DEFER_BLOCKING 0x0
LDS R2, [R5]
FADD R2, R2, R3
STS [R5], R2
EXIT
"""

# A step of a product's tile of 32 x 32: a row's value for all lanes, a column's values a row apart.
PRODUCT = """
S2R R13, SR_TID.Y
S2R R0, SR_TID.X
LEA R2, R13, 0x400, 0x7
LEA R3, R0, 0x1400, 0x2
BAR.SYNC.DEFER_BLOCKING 0x0
LDS R4, [R2]
LDS R5, [R2+0x4]
LDS R6, [R2+0x8]
LDS R7, [R2+0xc]
LDS R8, [R3]
LDS R9, [R3+0x80]
LDS R10, [R3+0x100]
LDS R11, [R3+0x180]
EXIT
"""

# x[i - 1] + x[i] + x[i + 1], into y[i] or, with the same pointer, into x[i].
IN_PLACE = """
S2R R0, SR_TID.X
LDC.64 R2, c[0x0][0x210]
LDC.64 R8, c[0x0][{out}]
IMAD.WIDE R4, R0, 0x4, R2
IMAD.WIDE R8, R0, 0x4, R8
LDG.E R5, desc[UR6][R4.64+-0x4]
LDG.E R6, desc[UR6][R4.64]
LDG.E R7, desc[UR6][R4.64+0x4]
STG.E desc[UR6][R8.64], R7
EXIT
"""


def found(text: str, block: Sequence[int] = (256, 1, 1), grid: Sequence[int] = (1000, 1, 1)) -> dict[str, Window]:
    code = Listing(program(text))
    return {w.axis: w for w in windows(code, Walks(code, block, interior=True), block, grid)}


def test_a_window_of_a_row_clamped_at_its_borders() -> None:
    """Seven values an output; four outputs need ten of them, 2.5 each."""
    found_ = found(CLAMPED)
    assert found_.keys() == {"lanes"}
    row = found_["lanes"]
    assert (len(row.loads), row.asked, row.width, row.apart, row.extent) == (7, 7, 7, 1, 256)
    assert row.kept(1) == 1 and row.kept(4) == pytest.approx(10 / 28) and row.kept(8) == pytest.approx(14 / 56)
    assert row.kept(512) == 1, "no block has as many outputs"


@pytest.mark.parametrize("border", ["R7", "RZ"])
def test_a_border_by_a_test_and_a_select(border: str) -> None:
    """The last element, or a ring's first one: between the borders the index is what it was, and rounds go on."""
    row = found(TESTED.format(border=border, compared="R11"))["lanes"]
    assert (len(row.loads), row.asked, row.width) == (3, 3 * TRIPS, 3 * TRIPS)


def test_a_select_that_is_no_border() -> None:
    """Where a choice between two of the thread's own places, or one that data makes, leads is not known."""
    assert not found(TESTED.format(border="R3", compared="R11")), "either choice is the thread's own"
    assert not found(TESTED.format(border="R7", compared="R27")), "loaded data decides"


def test_rounds_of_a_loop_go_on_with_the_window() -> None:
    """Four values a round, and each round begins where the last one ended."""
    width = 4 * TRIPS
    row = found(LOOPED.format(between="NOP"))["lanes"]
    assert (len(row.loads), row.asked, row.width) == (4, width, width)
    assert row.kept(8) == pytest.approx((width + 7) / (8 * width))


@pytest.mark.parametrize("between", ["BAR.SYNC.DEFER_BLOCKING 0x0", "STS [R0], R6"])
def test_what_is_written_between_rounds_is_no_window_of_all(between: str) -> None:
    """Only the values of one round are the same for the neighbours."""
    assert found(LOOPED.format(between=between))["lanes"].asked == 4


def test_a_tile_has_windows_in_both_directions() -> None:
    both = found(TILE, (16, 16, 1))
    assert both.keys() == {"lanes", "rows"}
    for window in both.values():
        assert (window.asked, window.width, window.extent) == (9, 3, 16)
        assert window.kept(4) == pytest.approx(3 * 6 / (4 * 9))


def test_channels_of_neighbouring_warps() -> None:
    """A pitch that the launch decides: what the next warp, or the next block, loads is a plane on."""
    window = found(CHANNELS, (128, 1, 1), (64, 16, 1))["rows"]
    assert (window.asked, window.width, window.extent) == (3, 3, 4)
    assert window.kept(4) == pytest.approx(6 / 12) and window.kept(8) == 1, "a block has four channels"


def test_other_shapes_have_no_window() -> None:
    assert not found(SCAN), "what was written between is another value"
    assert not found(PRODUCT, (32, 32, 1)), "no thread stands where a column goes on"
    assert found(IN_PLACE.format(out="0x218"))["lanes"].width == 3
    assert not found(IN_PLACE.format(out="0x210")), "the neighbour may have written its result there"


def test_on_captures(facts: Callable[[str], Facts]) -> None:
    one, eight = facts("window.one"), facts("window.eight")
    (before,) = one.profile.windows(one.lanes.inside)
    assert (before.axis, before.asked, before.width) == ("lanes", 25, 25)
    assert before.kept(8) == pytest.approx(32 / 200)
    (after,) = eight.profile.windows(eight.lanes.inside)
    assert (after.asked, after.width) == (8, 4), "16 bytes a load, and eight outputs on for the next thread"
