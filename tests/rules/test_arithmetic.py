"""Rules about divisions, doubles and slow paths, on code with counts made for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding
from kscope.model.kernel import Counters
from kscope.model.program import Program
from kscope.rules.base import Passed
from kscope.rules.latency.warp_divergence import SORTED, SPECIAL
from kscope.rules.registry import rule
from tests.features.listings import program
from tests.features.patterns.test_double_math import LITERALS, QUOTIENT
from tests.support.edit import made

# A division of 64-bit values whose high words are zero (nvcc 13.0, sm_90): the call is there, and never made.
WIDE = """
0x0 LDG.E R2, desc[UR4][R2.64]
0x10 ULDC UR4, c[0x0][0x224]
0x20 BSSY B0, 0x1e0
0x30 LOP3.LUT R0, R3, UR4, RZ, 0xfc, !PT
0x40 ISETP.NE.U32.AND P0, PT, R0, RZ, PT
0x50 @!P0 BRA 0x90
0x60 MOV R0, 0x80
0x70 CALL.REL.NOINC 0x2000
0x80 BRA 0x1d0
0x90 ULDC UR4, c[0x0][0x220]
0xa0 MOV R9, RZ
0xb0 I2F.U32.RP R0, UR4
0xc0 ISETP.NE.U32.AND P2, PT, RZ, UR4, PT
0xd0 MUFU.RCP R0, R0
0xe0 VIADD R4, R0, 0xffffffe
0xf0 F2I.FTZ.U32.TRUNC.NTZ R5, R4
0x100 HFMA2.MMA R4, -RZ, RZ, 0, 0
0x110 IMAD.MOV R7, RZ, RZ, -R5
0x120 IMAD R7, R7, UR4, RZ
0x130 IMAD.HI.U32 R5, R5, R7, R4
0x140 IMAD.HI.U32 R8, R5, R2, RZ
0x150 IMAD.MOV R5, RZ, RZ, -R8
0x160 IMAD R5, R5, UR4, R2
0x170 ISETP.GE.U32.AND P0, PT, R5, UR4, PT
0x180 @P0 VIADD R5, R5, -UR4
0x190 @P0 IADD3 R8, R8, 0x1, RZ
0x1a0 ISETP.GE.U32.AND P1, PT, R5, UR4, PT
0x1b0 @P1 VIADD R8, R8, 0x1
0x1c0 @!P2 LOP3.LUT R8, RZ, UR4, RZ, 0x33, !PT
0x1d0 BSYNC B0
"""
LONG_WAY = {0x60, 0x70, 0x80, 0x2000, 0x2010}


def said(code: str, text: Program, runs: list[float], columns: Mapping[str, list[float]] | None = None) -> Any:
    by_name = {"inst_executed": runs, "smsp__pcsamp_warps_issue_stalled_selected": runs, **(columns or {})}
    counters = Counters([ins.pc for ins in text.instructions], by_name)
    return rule(code)().run(Facts(msgspec.structs.replace(made({}), program=text, counters=counters)))


def divided(others: int) -> Any:
    work = [f"{0x1E0 + 16 * n:#x} FFMA R20, R20, R21, R22" for n in range(others)]
    end = 0x1E0 + 16 * others
    last = [f"{end:#x} STG.E desc[UR4][R2.64], R8", f"{end + 16:#x} EXIT", "0x2000 I2F.U64.RP R8, UR4"]
    text = program("\n".join([*WIDE.strip().splitlines(), *work, *last, "0x2010 RET.REL.NODEC R0 0x0"]))
    return said("CMP205", text, [0.0 if ins.pc in LONG_WAY else 1000.0 for ins in text.instructions])


def test_a_division_counts_with_what_goes_with_it() -> None:
    """15 instructions divide, 24 go with them: the question whether 32 bits do, its branches, constants."""
    found = divided(180)
    assert isinstance(found, Finding) and "take 12 %" in found.title
    assert found.fix.startswith("32-bit operands where they suffice")
    assert isinstance(divided(400), Passed)


def test_two_double_literals_in_a_block_of_floats_promise_little() -> None:
    text = program(LITERALS)
    found = said("CMP203", text, [1000.0] * len(text))
    assert isinstance(found, Finding) and "27 % of all instructions serve the doubles" in found.why
    amid = program(LITERALS.replace("FMUL R6, R2, R2", "\n".join(["FFMA R6, R2, R2, R6"] * 100)))
    assert isinstance(said("CMP203", amid, [1000.0] * len(amid)), Passed)


@pytest.mark.parametrize(
    ("narrow", "fix", "first"),
    [
        ({15, 16, 21, 22, 23}, SPECIAL, ["CMP203", "CMP204", "CMP211"]),  # the slow path of the division
        ({4, 5, 6, 7, 8, 9, 10}, SORTED, []),  # the division itself
    ],
)
def test_lanes_that_part_for_a_slow_path_want_another_function(narrow: set[int], fix: str, first: list[str]) -> None:
    text = program(QUOTIENT)
    threads = [8000.0 if i in narrow else 32000.0 for i in range(len(text))]
    found = said("LAT305", text, [1000.0] * len(text), {"thread_inst_executed": threads})
    assert isinstance(found, Finding) and (found.fix, found.first) == (fix, first)
