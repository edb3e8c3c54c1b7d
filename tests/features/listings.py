"""SASS of our own kernels as the tests use it: listings as nvdisasm prints them, and a way to read them."""

from __future__ import annotations

from kscope.model.program import Program
from kscope.parsers.sass.instructions import parse_program


def program(text: str, sm: int = 90) -> Program:
    """A program from lines of `offset instruction`; offsets are hexadecimal and may be left out (16 bytes apart)."""
    rows: list[tuple[int, str, str | None, int | None]] = []
    for line in text.strip().splitlines():
        head, _, rest = line.strip().partition(" ")
        if head.startswith("0x") and rest:
            rows.append((int(head, 16), rest, None, None))
        else:
            rows.append((16 * len(rows), line, None, None))
    return parse_program("test", sm, rows)


# Inner loop over loads, inside a grid-stride loop (ldg32_l2.fast, sm_90), with the padding that follows every kernel.
NESTED = """
0x0 LDC R2, c[0x0][0x224]
0x10 S2R R9, SR_CTAID.X
0x20 ULDC.64 UR6, c[0x0][0x208]
0x30 ISETP.GE.AND P0, PT, R2, 0x1, PT
0x40 @!P0 BRA 0x120
0x50 LDC.64 R12, c[0x0][0x220]
0x60 BSSY B0, 0x110
0x70 ISETP.GE.AND P1, PT, R9, R12, PT
0x80 @P1 BRA 0x100
0x90 LDC.64 R2, c[0x0][0x210]
0xa0 IMAD.WIDE R4, R9, 0x10, R2
0xb0 LDG.E.128.CONSTANT R4, desc[UR6][R4.64]
0xc0 IADD3 R9, R9, UR5, RZ
0xd0 ISETP.GE.AND P1, PT, R9, R12, PT
0xe0 FADD R11, R4, R5
0xf0 @!P1 BRA 0xa0
0x100 BSYNC B0
0x110 @!P0 BRA 0x50
0x120 LDC.64 R2, c[0x0][0x218]
0x130 STG.E desc[UR6][R2.64], R11
0x140 EXIT
0x150 BRA 0x150
0x160 NOP
"""

# A chain of dependent multiply-adds in a counted loop (dependency_chain.slow, sm_90, shortened).
CHAIN = """
0x0 MOV R4, 0x3f800347
0x10 IADD3 R3, R3, -0x4, RZ
0x20 ISETP.GT.AND P1, PT, R3, 0xc, PT
0x30 FFMA R5, R5, R4, 0.5
0x40 FFMA R5, R5, R4, 0.5
0x50 FFMA R5, R5, R4, 0.5
0x60 FFMA R5, R5, R4, 0.5
0x70 @P1 BRA 0x10
0x80 EXIT
"""
