"""Which accurate function a kernel calls, and which instructions are its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.features.patterns.accurate_math import accurate_calls, shared_divisors
from kscope.features.patterns.math_functions import integer_divisions
from kscope.features.patterns.slicing import computation
from kscope.features.sass.listing import Listing
from kscope.model.kernel import Counters
from tests.features.listings import program
from tests.support.edit import made

# y[i] = x[i] / (float)q[i], sm_90, nvcc 13.0; the slow path is the start of __cuda_sm3x_div_rn_noftz_f32_slowpath.
QUOTIENT = """
0x0 LDG.E R6, desc[UR4][R6.64]
0x10 LDG.E R0, desc[UR4][R4.64]
0x20 BSSY B0, 0xf0
0x30 I2FP.F32.S32 R3, R6
0x40 MUFU.RCP R8, R3
0x50 FCHK P0, R0, R3
0x60 FFMA R9, -R3, R8, 1
0x70 FFMA R9, R8, R9, R8
0x80 FFMA R8, R0, R9, RZ
0x90 FFMA R10, -R3, R8, R0
0xa0 FFMA R9, R9, R10, R8
0xb0 @!P0 BRA 0xe0
0xc0 MOV R4, 0xe0
0xd0 CALL.REL.NOINC 0x120
0xe0 BSYNC B0
0xf0 FADD R11, R9, R12
0x100 STG.E desc[UR4][R2.64], R11
0x110 EXIT
0x120 FADD.FTZ R9, R0, R3
0x130 RET.REL.NODEC R4 0x0
"""

# The float y = expf(x), and with the intrinsic: one multiplication by log2 e.
EXP = """
0x0 LDG.E R2, desc[UR4][R2.64]
0x10 HFMA2.MMA R5, -RZ, RZ, 0.96630859375, -0.0022525787353515625
0x20 MOV R9, 0x437c0000
0x30 FFMA.SAT R0, R2, R5, 0.5
0x40 FFMA.RM R0, R0, R9, 12582913
0x50 FADD R9, R0.reuse, -12583039
0x60 SHF.L.U32 R0, R0, 0x17, RZ
0x70 FFMA R9, R2, 1.4426950216293334961, -R9
0x80 FFMA R9, R2, 1.925963033500011079e-08, R9
0x90 MUFU.EX2 R9, R9
0xa0 FMUL R5, R0, R9
0xb0 FMUL R7, R5, R12
0xc0 STG.E desc[UR4][R6.64], R7
0xd0 EXIT
"""
FAST = """
0x0 LDG.E R2, desc[UR4][R2.64]
0x10 FMUL R0, R2, 1.4426950216293334961
0x20 FSETP.GEU.AND P0, PT, R0, -126, PT
0x30 @!P0 FMUL R0, R0, 0.5
0x40 MUFU.EX2 R9, R0
0x50 @!P0 FMUL R9, R9, R9
0x60 STG.E desc[UR4][R4.64], R9
0x70 EXIT
"""

# o[i] = hypotf(a[i], b[i]), sm_90, nvcc 13.0; of the slow path of the root the start and the end.
HYPOT = """
0x0 LDG.E R6, desc[UR4][R6.64]
0x10 LDG.E R8, desc[UR4][R8.64]
0x20 BSSY B0, 0x190
0x30 FADD R4, |R6|, -RZ
0x40 FADD R11, |R8|, -RZ
0x50 VIMNMX R3, R4.reuse, R11.reuse, !PT
0x60 VIMNMX R4, R4, R11, PT
0x70 LOP3.LUT R5, R3, 0xfe000000, RZ, 0xc0, !PT
0x80 IADD3 R0, -R5, 0x7e800000, RZ
0x90 FMUL R10, R4, R0.reuse
0xa0 FMUL R0, R3, R0
0xb0 FMUL R11, R10, R10
0xc0 FFMA R0, R0, R0, R11
0xd0 MUFU.RSQ R7, R0
0xe0 IADD3 R6, R0, -0xd000000, RZ
0xf0 ISETP.GT.U32.AND P0, PT, R6, 0x727fffff, PT
0x100 @!P0 BRA 0x140
0x110 MOV R11, 0x130
0x120 CALL.REL.NOINC 0x200
0x130 BRA 0x180
0x140 FMUL.FTZ R9, R0, R7
0x150 FMUL.FTZ R7, R7, 0.5
0x160 FFMA R0, -R9, R9, R0
0x170 FFMA R0, R0, R7, R9
0x180 BSYNC B0
0x190 FSETP.NEU.AND P0, PT, R4, RZ, PT
0x1a0 LOP3.LUT R5, R5, 0x800000, RZ, 0xfc, !PT
0x1b0 @P0 FMUL R3, R5, R0
0x1c0 FSETP.NEU.AND P0, PT, R4, +INF , PT
0x1d0 FSEL R3, R3, +INF , P0
0x1e0 STG.E desc[UR4][R4.64], R3
0x1f0 EXIT
0x200 FADD.FTZ R0, R0, 1
0x210 RET.REL.NODEC R6 0x0
"""

# o[i] = atan2f(a[i], b[i]), likewise.
ATAN2 = """
0x0 LDG.E R4, desc[UR4][R6.64]
0x10 LDG.E R5, desc[UR4][R8.64]
0x20 BSSY B0, 0x120
0x30 FSETP.GT.AND P2, PT, |R4|, |R5|, PT
0x40 FSEL R3, |R4|, |R5|, P2
0x50 FSEL R0, |R5|, |R4|, P2
0x60 MUFU.RCP R10, R3
0x70 FCHK P0, R0, R3
0x80 FFMA R11, -R3, R10, 1
0x90 FFMA R11, R10, R11, R10
0xa0 FFMA R10, R0, R11, RZ
0xb0 FFMA R12, -R3, R10, R0
0xc0 FFMA R10, R11, R12, R10
0xd0 @!P0 BRA 0x110
0xe0 MOV R6, 0x100
0xf0 CALL.REL.NOINC 0x350
0x100 IMAD.MOV.U32 R10, RZ, RZ, R0
0x110 BSYNC B0
0x120 IMAD.MOV.U32 R9, RZ, RZ, 0x3b33710b
0x130 FMUL R0, R10, R10
0x140 BSSY B0, 0x290
0x150 FFMA R9, R0, R9, -0.015681877732276916504
0x160 FFMA R9, R0, R9, 0.042200751602649688721
0x170 FFMA R9, R0, R9, -0.074792981147766113281
0x180 FFMA R9, R0, R9, 0.10640415549278259277
0x190 FFMA R9, R0, R9, -0.14207722246646881104
0x1a0 FFMA R9, R0, R9, 0.19993925094604492188
0x1b0 FFMA R9, R0, R9, -0.33333197236061096191
0x1c0 FMUL R9, R0, R9
0x1d0 FFMA R9, R9, R10, R10
0x1e0 @P2 BRA 0x240
0x1f0 ISETP.GT.AND P0, PT, R5, -0x1, PT
0x200 @P0 BRA 0x280
0x210 IMAD.MOV.U32 R0, RZ, RZ, 0x3feee581
0x220 FFMA R9, R0, 1.6832555532455444336, -R9
0x230 BRA 0x280
0x240 ISETP.GE.AND P0, PT, R5, RZ, PT
0x250 IMAD.MOV.U32 R0, RZ, RZ, 0x3f6ee581
0x260 @P0 FFMA R9, R0, 1.6832555532455444336, -R9
0x270 @!P0 FFMA R9, R0, 1.6832555532455444336, R9
0x280 BSYNC B0
0x290 FSETP.NEU.AND P0, PT, |R5|, |R4|, PT
0x2a0 IMAD.MOV.U32 R0, RZ, RZ, 0x4016cbe4
0x2b0 FSETP.NEU.AND P1, PT, R3, RZ, PT
0x2c0 ISETP.GE.AND P2, PT, R5.reuse, RZ, PT
0x2d0 FADD R5, |R5|, |R4|
0x2e0 @!P0 FSEL R9, R0, 0.78539818525314331055, !P2
0x2f0 @!P1 FSEL R9, RZ, 3.1415927410125732422, P2
0x300 FSETP.GTU.AND P0, PT, R5, +INF , PT
0x310 LOP3.LUT R4, R9, 0x80000000, R4, 0xb8, !PT
0x320 FSEL R5, R5, R4, P0
0x330 STG.E desc[UR4][R6.64], R5
0x340 EXIT
0x350 FADD.FTZ R0, R0, R3
0x360 MOV R8, R6
0x370 RET.REL.NODEC R8 0x0
"""

# o[i] = atanf(a[i]) and acosf(a[i]), likewise.
ATAN = """
LDG.E R0, desc[UR4][R2.64]
HFMA2.MMA R7, -RZ, RZ, 0.890625, -0.00056934356689453125
MUFU.RCP R5, |R0|
FSETP.GT.AND P0, PT, |R0|, 1, PT
@P0 MOV R6, 0x3f6ee581
FSEL R5, R5, |R0|, P0
FMUL R4, R5, R5
FFMA R7, R4, R7, -0.014396979473531246185
FFMA R7, R4, R7, 0.039849750697612762451
FFMA R7, R4, R7, -0.072529748082160949707
FFMA R7, R4, R7, 0.10518480092287063599
FFMA R7, R4, R7, -0.14171802997589111328
FFMA R7, R4, R7, 0.19988775253295898438
FFMA R7, R4, R7, -0.33332940936088562012
FMUL R4, R4, R7
FFMA R5, R5, R4, R5
@P0 FFMA R5, R6, 1.6832555532455444336, -R5
FSETP.GTU.AND P0, PT, |R0|, +INF , PT
LOP3.LUT R0, R5, 0x80000000, R0, 0xb8, !PT
FSEL R5, R0, R5, !P0
STG.E desc[UR4][R2.64], R5
EXIT
"""
ACOS = """
LDG.E R0, desc[UR4][R2.64]
HFMA2.MMA R5, -RZ, RZ, 1.75, 0
MOV R3, 0x3d10ecef
FFMA R4, -|R0|.reuse, R5, 0.5
FSETP.NEU.AND P1, PT, |R0|.reuse, 1, PT
FSETP.GT.AND P0, PT, |R0|, 0.56000000238418579102, PT
MUFU.RSQ R5, R4
FMUL R6, R4, R5
FMUL R5, R5, 0.5
FFMA R5, -R6, R5, 0.5
FFMA R5, R6, R5, R6
FSEL R5, R5, RZ, P1
FSETP.GT.AND P1, PT, R0, 0.56000000238418579102, PT
FSEL R5, R5, |R0|, P0
LOP3.LUT R5, R5, 0x80000000, R0, 0xb8, !PT
FMUL R4, R5, R5
FFMA R3, R4, R3, 0.016980519518256187439
FFMA R3, R4, R3, 0.030762933194637298584
FFMA R3, R4, R3, 0.044709417968988418579
FFMA R7, R4.reuse, R3, 0.074989043176174163818
FFMA R7, R4, R7, 0.16666707396507263184
FMUL R4, R4, R7
HFMA2.MMA R7, -RZ, RZ, 1.9599609375, 20144
FFMA R5, R5, R4, R5
FSEL R0, R5, -R5, P0
@!P1 FFMA R5, R7, 0.93318945169448852539, R0
@P0 FADD R5, R5, R5
STG.E desc[UR4][R2.64], R5
EXIT
"""


def listing(text: str) -> Listing:
    return Listing(program(text), "test")


def test_a_division_with_its_test_its_way_round_and_its_slow_path() -> None:
    code = listing(QUOTIENT)
    (call,) = accurate_calls(code)
    assert call.function == "division" and not call.steady
    assert call.members == (2, *range(4, 15), 18, 19), "from the reciprocal to the merge, not the sum behind"


def test_a_float_divided_by_a_converted_integer_is_no_integer_division() -> None:
    assert integer_divisions(listing(QUOTIENT)) == []
    rounded = "I2F.RP R8, R10\nMUFU.RCP R8, R8\nIADD3 R6, R8, 0xffffffe, RZ\nF2I.FTZ.U32.TRUNC.NTZ R7, R6\nEXIT"
    assert integer_divisions(listing(rounded)) == [1]


def test_the_accurate_exp_and_not_the_intrinsic() -> None:
    (call,) = accurate_calls(listing(EXP))
    assert call.function == "exp" and call.members == tuple(range(1, 11))
    assert accurate_calls(listing(FAST)) == []


def test_a_hypot_is_one_call_with_its_root() -> None:
    code = listing(HYPOT)
    (call,) = accurate_calls(code)
    assert call.function == "hypot" and not call.steady
    assert call.members == (2, *range(5, 19), *range(20, 30), 32, 33), "from the larger of the two on"


def test_an_atan2_is_one_call_with_its_division() -> None:
    code = listing(ATAN2)
    (call,) = accurate_calls(code)
    assert call.function == "atan2"
    left = {code[i].text for i in range(len(code)) if i not in call.members}
    assert left == {
        *(code[i].text for i in (0, 1, 51, 52)), "ISETP.GT.AND P0, PT, R5, -0x1, PT", "@P0 BRA 0x280", "BRA 0x280",
    }, "all but loads, store, exit and the choice of the quadrant inside"  # fmt: skip


@pytest.mark.parametrize(("text", "function"), [(ATAN, "atan"), (ACOS, "asin or acos")])
def test_arcs(text: str, function: str) -> None:
    code = listing(text)
    (call,) = accurate_calls(code)
    assert call.function == function and call.members == tuple(range(1, len(code) - 2))


def test_what_the_slow_path_costs_is_no_argument_against_the_function() -> None:
    """Where many divisions take the way round, what comes back from there is theirs as well."""
    code = program(ATAN2)
    runs = [1000.0] * len(code)
    counters = Counters([16 * i for i in range(len(runs))], {"inst_executed": runs})
    (call,) = Facts(msgspec.structs.replace(made({}), program=code, counters=counters)).patterns.accurate_calls
    assert call.function == "atan2" and {53, 54, 55} <= set(call.members)


def test_two_divisions_by_one_value_share_it_and_a_loop_keeps_it() -> None:
    body = "MUFU.RCP R8, R3\nFCHK P0, R{0}, R3\nFFMA R9, -R3, R8, 1\nFFMA R9, R8, R9, R8\nFFMA R8, R{0}, R9, RZ\n" \
        "FFMA R10, -R3, R8, R{0}\nFFMA R9, R9, R10, R8\nSTG.E desc[UR4][R6.64], R9\n"  # fmt: skip
    twice = listing("LDG.E R3, desc[UR4][R6.64]\n" + body.format(20) + body.format(21) + "EXIT")
    assert shared_divisors(twice, accurate_calls(twice)) == {2, 10}
    around = listing("LDG.E R3, desc[UR4][R6.64]\nIADD3 R20, R20, 0x1, RZ\n" + body.format(20) + "@P1 BRA 0x10\nEXIT")
    found = accurate_calls(around)
    assert [c.steady for c in found] == [True] and shared_divisors(around, found) == set()


def test_a_divisor_from_before_the_loop_brings_its_reciprocal_along() -> None:
    """It was made once; the reciprocal is made again in each round, and goes with the division."""
    inside = "MUFU.RCP R8, R3\nFCHK P0, R20, R3\nFFMA R9, -R3, R8, 1\nFFMA R9, R8, R9, R8\nFFMA R8, R20, R9, RZ\n" \
        "FFMA R10, -R3, R8, R20\nFFMA R9, R9, R10, R8\nSTG.E desc[UR4][R6.64], R9\n"  # fmt: skip
    text = "LDG.E R3, desc[UR4][R6.64]\nIADD3 R20, R20, 0x1, RZ\n" + inside + "@P1 BRA 0x10\nEXIT"
    code = program(text)
    runs = [10.0, *[1000.0] * 10, 10.0]
    counters = Counters([16 * i for i in range(len(runs))], {"inst_executed": runs})
    (call,) = Facts(msgspec.structs.replace(made({}), program=code, counters=counters)).patterns.accurate_calls
    assert call.steady and call.members == (2, 3, 4, 5, 6, 7, 8)


def test_functions_of_captures(facts: Callable[[str], Facts]) -> None:
    found = facts("potential.ieee").patterns.accurate_calls
    assert Counter(c.function for c in found) == {"square root": 4, "division": 4}
    assert all(c.root for c in found if c.function == "division"), "each divides by the root"
    assert {"sin or cos", "exp"} == {c.function for c in facts("wave.library").patterns.accurate_calls}
    assert facts("wave.intrinsics").patterns.accurate_calls == []


FED = """
I2F.RP R8, R10
MUFU.RCP R8, R8
IADD3 R6, R8, 0xffffffe, RZ
F2I.FTZ.U32.TRUNC.NTZ R7, R6
IADD3 R9, R9, R7, RZ
ISETP.GT.AND P1, PT, R9, RZ, PT
@P1 BRA 0x40
EXIT
"""


def test_a_cone_does_not_run_into_the_loop_that_its_result_feeds() -> None:
    """One quotient before a loop of a thousand rounds: the rounds are not the division's."""
    assert computation(listing(FED), (1,)) == {0, 1, 2, 3}


def test_nor_where_that_loop_goes_round_once() -> None:
    """The body of an unrolled loop is executed little more often than the division before it."""
    code, runs = program(FED.strip()), [100.0] * 4 + [110.0] * 3 + [100.0]
    counters = Counters([16 * i for i in range(len(runs))], {"inst_executed": runs})
    facts = Facts(msgspec.structs.replace(made({}), program=code, counters=counters))
    assert facts.patterns.same_computation([1]) == {0, 1, 2, 3}


# o[i] = log2f(a[i]) and sinpif(a[i]), sm_90, nvcc 13.0.
LOG2 = """
LDG.E R4, desc[UR4][R2.64]
FSETP.GEU.AND P1, PT, R4, 1.175494350822287508e-38, PT
FSEL R2, RZ, -23, P1
@!P1 FMUL R4, R4, 8388608
IADD3 R5, R4.reuse, -0x3f3504f3, RZ
ISETP.GE.U32.AND P0, PT, R4, 0x7f800000, PT
LOP3.LUT R5, R5, 0xff800000, RZ, 0xc0, !PT
IADD3 R6, R4, -R5.reuse, RZ
I2FP.F32.S32 R5, R5
FADD R6, R6, -1
FFMA R2, R5, 1.1920928955078125e-07, R2
@P0 MOV R5, 0x7f800000
FFMA R7, R6, R7, -0.16845393180847167969
FFMA R7, R6, R7, 0.1716887056827545166
FFMA R7, R6, R7, -0.17900948226451873779
FFMA R7, R6, R7, 0.20512372255325317383
FFMA R7, R6, R7, -0.24046532809734344482
FFMA R7, R6, R7, 0.28857114911079406738
FFMA R7, R6, R7, -0.36067417263984680176
FFMA R7, R6, R7, 0.48089820146560668945
FFMA R7, R6, R7, -0.72134751081466674805
FMUL R7, R6, R7
FMUL R7, R6, R7
FFMA R7, R6, 1.4426950216293334961, R7
FADD R7, R2, R7
@P0 FFMA R7, R4, R5, +INF
FSETP.NEU.AND P0, PT, R4, RZ, PT
FSEL R7, R7, -INF , P0
STG.E desc[UR4][R2.64], R7
EXIT
"""
SINPI = """
LDG.E R4, desc[UR4][R2.64]
FADD R5, R4, R4
FRND R7, R5
F2I.NTZ R6, R5
FFMA R0, -R7, 0.5, R4
FMUL R7, R0, R0
LOP3.LUT R9, R6, 0x1, RZ, 0xc0, !PT
FFMA R8, R7.reuse, R8, -1.334560394287109375
FFMA R2, R7, -R10, 2.550144195556640625
FFMA R3, R0, R7, RZ
ISETP.NE.U32.AND P1, PT, R9, 0x1, PT
FFMA R8, R7.reuse, R8, 4.0586924552917480469
FRND.TRUNC R9, R4
FFMA R2, R7.reuse, R2, -5.1677198410034179688
LOP3.LUT P0, RZ, R6, 0x2, RZ, 0xc0, !PT
FFMA R8, R7, R8, -4.9348020553588867188
FFMA R3, R2, R3, RZ
FFMA R7, R7, R8, 1
@P1 FFMA R7, R0, 3.1415927410125732422, R3
FSETP.NEU.AND P1, PT, R9, R4, PT
@P0 FADD R7, RZ, -R7
@!P1 FMUL R7, RZ, R4
STG.E desc[UR4][R2.64], R7
EXIT
"""


@pytest.mark.parametrize(
    ("text", "function", "members"),
    [(LOG2, "log2", {1, 2, 5, *range(7, 28)}), (SINPI, "sinpi or cospi", set(range(1, 21)) - {12, 19})],
)
def test_log2_and_sinpi(text: str, function: str, members: set[int]) -> None:
    code = listing(text)
    (call,) = accurate_calls(code)
    assert call.function == function
    assert set(call.members) == members, sorted(members ^ set(call.members))


# erff(x) + y, sm_90, nvcc 13.0: a polynomial of x or of its square, and from 1.003 on 1 - 2^polynomial.
ERF = """
LDG.E R2, desc[UR4][R2.64]
HFMA2.MMA R6, -RZ, RZ, 0.8349609375, 5.424022674560546875e-06
IMAD.MOV.U32 R4, RZ, RZ, 0x38eb4c3a
IMAD.MOV.U32 R7, RZ, RZ, 0x3c09919f
IMAD.MOV.U32 R8, RZ, RZ, 0x3d24d99a
FMUL R5, R2.reuse, R2
FSETP.GE.AND P0, PT, |R2|, 1.0029599666595458984, PT
FSEL R5, |R2|, R5, P0
FSEL R4, R4, 8.4834944573231041431e-05, P0
FSEL R6, -R6, -0.00082130916416645050049, P0
FSEL R7, R7, 0.0052134888246655464172, P0
FSEL R3, -R8, -0.026868773624300956726, P0
FFMA R4, R5, R4, R6
MOV R6, 0x3e235519
IMAD.MOV.U32 R8, RZ, RZ, 0x3f69b4f9
FFMA R4, R5.reuse, R4, R7
FSEL R7, R6, 0.11284004896879196167, P0
HFMA2.MMA R6, -RZ, RZ, 1.7822265625, 0.000185489654541015625
FFMA R4, R5, R4, R3
FSEL R3, R8, -0.37612664699554443359, P0
FFMA R4, R5, R4, R7
FSEL R7, R6, 0.12837915122509002686, P0
FFMA R4, R5, R4, R3
FSEL R3, -|R2|, R2, P0
FFMA R4, R5, R4, R7
FFMA R3, R4, R3, R3
@P0 MUFU.EX2 R4, R3
@P0 FADD R5, -R4, 1
@P0 LOP3.LUT R3, R5, 0x80000000, R2, 0xb8, !PT
LDG.E R11, desc[UR4][R14.64]
FADD R7, R3, R11
STG.E desc[UR4][R12.64], R7
EXIT
"""


def test_erf() -> None:
    code = listing(ERF)
    (call,) = accurate_calls(code)
    assert call.function == "erf" and code[call.anchor].opcode == "FSETP"
    assert set(call.members) == set(range(1, 29)), sorted(set(range(1, 29)) ^ set(call.members))
