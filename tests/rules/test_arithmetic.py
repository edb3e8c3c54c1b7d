"""Rules about divisions, doubles and slow paths, on code with counts made for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding
from kscope.model.kernel import Counters
from kscope.model.program import Program
from kscope.rules._shared.math_calls import _alike, spent_on
from kscope.rules.base import Passed
from kscope.rules.compute.integer_address_overhead import (
    GRID,
    INDICES,
    LOADED,
    MODULUS,
    NARROW,
    IntegerAddressOverhead,
)
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


def divided(others: int, of: str = "LDG.E R2, desc[UR4][R2.64]") -> Any:
    """The division of what an instruction brings into R2, in so many instructions that belong to something else."""
    work = [f"{0x1E0 + 16 * n:#x} FFMA R20, R20, R21, R22" for n in range(others)]
    end = 0x1E0 + 16 * others
    last = [f"{end:#x} STG.E desc[UR4][R2.64], R8", f"{end + 16:#x} EXIT", "0x2000 I2F.U64.RP R8, UR4"]
    whole = WIDE.replace("LDG.E R2, desc[UR4][R2.64]", of).strip().splitlines()
    text = program("\n".join([*whole, *work, *last, "0x2010 RET.REL.NODEC R0 0x0"]))
    return said("CMP205", text, [0.0 if ins.pc in LONG_WAY else 1000.0 for ins in text.instructions])


def test_a_division_counts_with_what_goes_with_it() -> None:
    """15 instructions divide, 24 go with them: the question whether 32 bits do, its branches, constants."""
    found = divided(180)
    assert isinstance(found, Finding) and "take 12 %" in found.title
    assert found.fix == NARROW + LOADED, "no dimension of the grid stands for loaded data, and no running index"
    assert isinstance(divided(400), Passed)


def test_dimensions_of_the_grid_stand_for_a_number_that_is_taken_apart(facts: Callable[[str], Facts]) -> None:
    mine = divided(180, of="S2R R2, SR_CTAID.X")
    assert isinstance(mine, Finding) and mine.fix == f"{GRID} of 32 bits"
    within = divided(180, of="S2R R2, SR_TID.X")
    assert isinstance(within, Finding) and within.fix == NARROW + INDICES, "a block's own numbers are no grid's"
    known, divides = facts("ising.modulo"), IntegerAddressOverhead()
    assert known.code is not None and known.kernel.launch.grid[1:] == (1, 1)
    assert divides._way(known, known.code, known.patterns.integer_divisions) == GRID
    several = facts("int_division.slow")  # eight numbers of a thread, 977 apart
    assert several.code is not None and several.kernel.launch.grid[1:] == (1, 1)
    assert divides._way(several, several.code, several.patterns.integer_divisions) == INDICES
    rows = msgspec.structs.replace(known.kernel.launch, grid=(known.kernel.launch.grid[0], 2, 1))
    known = Facts(msgspec.structs.replace(known.kernel, launch=rows))
    assert known.code is not None and divides._way(known, known.code, known.patterns.integer_divisions) == INDICES


# t = number; for (d = 0; d < 8; d++) { t /= sizes[d]; sum += t; } with sizes in constant memory or one size for all
APART = """
0x0 S2R R2, SR_TID.X
0x10 MOV R10, RZ
0x20 {before}
0x30 {within}
0x40 I2F.U32.RP R0, R4
0x50 MUFU.RCP R0, R0
0x60 VIADD R6, R0, 0xffffffe
0x70 F2I.FTZ.U32.TRUNC.NTZ R5, R6
0x80 IMAD.MOV R7, RZ, RZ, -R5
0x90 IMAD R7, R7, R4, RZ
0xa0 IMAD.HI.U32 R5, R5, R7, RZ
0xb0 IMAD.HI.U32 R2, R5, R2, RZ
0xc0 IADD3 R10, R10, 0x4, RZ
0xd0 ISETP.NE.AND P0, PT, R10, 0x20, PT
0xe0 @P0 BRA 0x30
0xf0 STG.E desc[UR4][R12.64], R2
0x100 EXIT
"""


@pytest.mark.parametrize(
    ("before", "within", "fix"),
    [("LDC R4, c[0x0][0x220]", "NOP", MODULUS), ("NOP", "LDC R4, c[0x3][R10]", LOADED)],
    ids=["one divisor", "a divisor each round"],
)
def test_a_number_taken_apart_in_a_loop_is_no_power(before: str, within: str, fix: str) -> None:
    text = program(APART.format(before=before, within=within))
    found = said("CMP205", text, [1000.0] * len(text))
    assert isinstance(found, Finding) and found.fix == fix


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


# s += (q.x - a.x) * __fdividef(a.y, 1 + a.x * a.x + a.y * a.y) + q.y over all a of a list that all threads walk.
EDGES = """
0x0 S2R R0, SR_CTAID.X
0x10 ULDC UR4, c[0x0][0x0]
0x20 S2R R3, SR_TID.X
0x30 IMAD R0, R0, UR4, R3
0x40 LDC R10, c[0x0][0x22c]
0x50 ULDC.64 UR6, c[0x0][0x208]
0x60 SHF.R.S32.HI R11, RZ, 0x1f, R0
0x70 ULDC.64 UR4, c[0x0][0x210]
0x80 IMAD.MOV.U32 R5, RZ, RZ, RZ
0x90 LEA R2, P0, R0, UR4, 0x3
0xa0 ULDC.64 UR8, c[0x0][0x218]
0xb0 LEA.HI.X R3, R0, UR5, R11, 0x3, P0
0xc0 LDG.E.64.CONSTANT R6, desc[UR6][R2.64]
0xd0 UMOV UR4, URZ
0xe0 MOV R2, UR8
0xf0 MOV R3, UR9
0x100 LDG.E.64.CONSTANT R8, desc[UR6][R2.64]
0x110 UIADD3 UR4, UR4, 0x1, URZ
0x120 UIADD3 UR8, UP0, UR8, 0x8, URZ
0x130 UIADD3.X UR9, URZ, UR9, URZ, UP0, !UPT
0x140 FFMA R4, R8, R8, 1
0x150 FADD R8, R6, -R8
0x160 FFMA R4, R9, R9, R4
0x170 FSETP.GEU.AND P0, PT, |R4|, 1.175494350822287508e-38, PT
0x180 @!P0 FMUL R4, R4, 16777216
0x190 @!P0 FMUL R9, R9, 16777216
0x1a0 ISETP.LE.AND P0, PT, R10, UR4, PT
0x1b0 MUFU.RCP R4, R4
0x1c0 FMUL R9, R4, R9
0x1d0 FFMA R8, R8, R9, R7
0x1e0 FADD R5, R8, R5
0x1f0 @!P0 BRA 0xe0
0x200 ULDC.64 UR4, c[0x0][0x220]
0x210 LEA R2, P0, R0, UR4, 0x2
0x220 LEA.HI.X R3, R0, UR5, R11, 0x2, P0
0x230 STG.E desc[UR6][R2.64], R5
0x240 EXIT
"""


def walked(text: str, waves: float = 8.0, lanes: float = 32.0) -> Facts:
    code = program(text)
    runs = [64000.0 if 0xE0 <= ins.pc <= 0x1F0 else 1000.0 for ins in code.instructions]
    threads = [n * (lanes if 0xE0 <= ins.pc <= 0x1F0 else 32.0) for n, ins in zip(runs, code.instructions, strict=True)]
    columns = {"inst_executed": runs, "thread_inst_executed": threads}
    columns["smsp__pcsamp_warps_issue_stalled_selected"] = runs
    counters = Counters([ins.pc for ins in code.instructions], columns)
    return Facts(msgspec.structs.replace(made({}, waves=waves), program=code, counters=counters))


def test_what_every_thread_computes_alike_is_shared_by_several_results() -> None:
    facts = walked(EDGES)
    floats, members = facts.profile.alike
    assert [16 * i for i in floats] == [0x140, 0x160, 0x180, 0x190, 0x1B0, 0x1C0]
    assert {0x100 // 16, 0x1A0 // 16} <= set(members), "the load and the test of the loop as well"
    found = rule("MEM112")().run(facts)
    assert isinstance(found, Finding) and found.regime == "compute" and found.pulls == ["+registers", "-threads"]
    assert found.estimate is not None and 1.2 < found.estimate.speedup < 2


@pytest.mark.parametrize(
    "facts",
    [
        walked(EDGES, waves=2.0),  # a quarter of the threads would leave SMs empty
        walked(EDGES, lanes=20.0),  # lanes that left the loop: rounds differ
        walked(EDGES.replace("MOV R2, UR8", "IADD3 R2, R0, UR8, RZ")),  # each thread its own list
        walked(EDGES.replace("LDG.E.64.CONSTANT R8, desc[UR6][R2.64]", "LDS.64 R8, [R2]")),  # each block its own
    ],
)
def test_what_is_a_threads_own_or_fills_no_device_is_not(facts: Facts) -> None:
    assert isinstance(rule("MEM112")().run(facts), Passed)


def test_a_power_does_not_count_the_sines_beside_it(facts: Callable[[str], Facts]) -> None:
    """They share source lines and arguments; each instruction belongs to one of them."""
    known = facts("wave.library")
    assert known.code is not None
    spent = {s.name: set(s.members) for s in spent_on(known, known.code)}
    assert {"pow", "sin or cos", "exp"} <= set(spent)
    assert spent["pow"].isdisjoint(spent["sin or cos"] | spent["exp"])


# y = x / (t + 1) for t = 0, 1, ..: the divisor, and its reciprocal, are the same in all threads.
ROUNDS = """
0x0 S2R R0, SR_TID.X
0x10 LDC.64 R2, c[0x0][0x210]
0x20 IMAD.WIDE R2, R0, 0x4, R2
0x30 LDG.E R5, desc[UR6][R2.64]
0x40 MOV R20, RZ
0x50 MOV R21, RZ
0xe0 I2FP.F32.S32 R6, R20
0xf0 FADD R7, {of}, 1
0x100 IADD3 R20, R20, 0x1, RZ
0x110 MUFU.RCP R8, R7
0x120 FCHK P0, R5, R7
0x130 FFMA R9, -R7, R8, 1
0x140 FFMA R9, R8, R9, R8
0x150 FFMA R10, R5, R9, RZ
0x160 FFMA R11, -R7, R10, R5
0x170 FFMA R12, R9, R11, R10
0x180 FADD R21, R21, R12
0x190 ISETP.NE.AND P1, PT, R20, 0x40, PT
0x1a0 @P1 BRA 0xe0
0x200 STG.E desc[UR6][R2.64], R21
0x210 EXIT
"""


def test_a_slow_path_that_many_calls_come_to_knows_no_argument() -> None:
    """It takes its operand from a register that each call fills: def-use sees none. A public kernel's angles, each its
    thread's own, were told to be the same in all threads."""
    for place, alike in ((0x1F0, True), (0x220, False)):  # as often as the call, and not
        facts = walked(f"{ROUNDS.format(of='R5').rstrip()}\n{place:#x} MUFU.RCP R31, R30\n".replace("0x210 EXIT\n", ""))
        assert facts.code is not None
        (call,) = facts.patterns.accurate_calls
        last = len(facts.code) - 1
        assert _alike(facts.code, msgspec.structs.replace(call, members=(*call.members, last)), {last}) == alike


@pytest.mark.parametrize(("of", "share"), [("R6", 1.0), ("R5", 0.0), ("R21", 0.0)])
def test_a_divisor_that_is_the_same_in_all_threads_needs_one_reciprocal(of: str, share: float) -> None:
    facts = walked(ROUNDS.format(of=of))
    assert facts.code is not None
    (division,) = spent_on(facts, facts.code)
    assert (division.name, division.alike) == ("division", share * division.calls)
    found = rule("CMP204")().run(facts)
    assert isinstance(found, Finding) and (bool(share)) == ("table in shared memory" in (found.fix or ""))
