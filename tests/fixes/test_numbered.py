"""Blocks of another size only where threads ask for their number in the grid alone."""

from __future__ import annotations

import pytest

from kscope.features.sass.listing import Listing
from kscope.fixes.work.numbered import numbered
from kscope.parsers.sass.instructions import parse_program

HEAD = ("S2R R0, SR_TID.X", "S2UR UR4, SR_CTAID.X", "LDC R3, c[0x0][RZ]")
NUMBER = "IMAD R5, R3, UR4, R0"
STORE = ("LDC.64 R8, c[0x0][0x210]", "IMAD.WIDE R8, R5, 0x4, R8", "STG.E desc[UR6][R8.64], R5", "EXIT")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((*HEAD, NUMBER, *STORE), True),
        ((*HEAD, "IMAD.MOV.U32 R7, RZ, RZ, R0", "IMAD R5, R3, UR4, R7", *STORE), True),  # through a copy
        (("S2R R0, SR_TID.X", "S2UR UR4, SR_CTAID.X", "IMAD R5, R0, c[0x0][0x0], R0", *STORE), False),
        # a number of 64 bits, whose thread has nothing above it
        ((*HEAD, "HFMA2.MMA R1, -RZ, RZ, 0, 0", "IMAD.WIDE.U32 R4, R3, UR4, R0", *STORE), True),
        ((*HEAD, "IMAD.MOV.U32 R1, RZ, RZ, RZ", "IMAD.WIDE.U32 R4, R3, UR4, R0", *STORE), True),
        ((*HEAD, "MOV R1, 0x1", "IMAD.WIDE.U32 R4, R3, UR4, R0", *STORE), False),
        # the number of all threads, by which a loop over the grid goes on
        ((*HEAD, NUMBER, "ULDC UR5, c[0x0][0xc]", "IMAD R6, R3, UR5, RZ", "IMAD.IADD R5, R5, 0x1, R6", *STORE), True),
        # a block for each row, whose threads go through it
        ((*HEAD, "IMAD R5, R0, UR4, R3", *STORE), False),
        (("S2R R5, SR_CTAID.X", *STORE), False),
        ((*HEAD, NUMBER, "IADD3 R5, R5, R3, RZ", *STORE), False),  # one block further on
        ((*HEAD, NUMBER, "ISETP.NE.AND P0, PT, R0, RZ, PT", *STORE), False),  # the first thread of each block
        ((*HEAD, NUMBER, "ULDC UR5, c[0x0][0xc]", "IADD3 R5, R5, UR5, RZ", *STORE), False),
        ((*HEAD, "SHF.R.U32.HI R0, RZ, 0x5, R0", NUMBER, *STORE), False),  # a warp's number
        (("S2R R0, SR_TID.X", "MOV R3, 0x80", "S2UR UR4, SR_CTAID.X", NUMBER, *STORE), False),  # a size of its own
        (("S2R R5, SR_TID.Y", *STORE), False),  # of another axis: nothing is numbered
    ],
)
def test_numbered(lines: tuple[str, ...], expected: bool) -> None:
    rows = [(16 * n, line, None, None) for n, line in enumerate(lines)]
    assert numbered(Listing(parse_program("kernel", 90, rows)), 0) is expected


def test_two_sizes_that_are_loaded_at_once() -> None:
    """Each is known: the one along y goes on by itself here."""
    lines = [
        "S2R R0, SR_TID.Y", "S2UR UR4, SR_CTAID.Y", "LDC R3, c[0x0][0x4]", NUMBER, "LDC.64 R10, c[0x0][RZ]",
        "IADD3 R5, R5, R11, RZ", *STORE,
    ]  # fmt: skip
    for more, expected in ((lines, False), (lines[:4] + lines[6:], True)):
        rows = [(16 * n, line, None, None) for n, line in enumerate(more)]
        assert numbered(Listing(parse_program("kernel", 90, rows)), 1) is expected
