"""Which accurate function a kernel calls, and which instructions are its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

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
    assert computation(listing(FED), [1]) == {0, 1, 2, 3}


def test_nor_where_that_loop_goes_round_once() -> None:
    """The body of an unrolled loop is executed little more often than the division before it."""
    code, runs = program(FED.strip()), [100.0] * 4 + [110.0] * 3 + [100.0]
    counters = Counters([16 * i for i in range(len(runs))], {"inst_executed": runs})
    facts = Facts(msgspec.structs.replace(made({}), program=code, counters=counters))
    assert facts.patterns.same_computation([1]) == {0, 1, 2, 3}
