"""Loops that are matrix products, and the many that are not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.features.patterns.fma_loops import FmaLoop, fma_loops, pair_loops
from kscope.features.sass.listing import Listing
from kscope.model.kernel import Counters
from tests.features.listings import program
from tests.support import reports
from tests.support.edit import made

PRODUCTS = (
    "sgemm.", "mm.", "gemm_f32.", "gemm_bf16.ffma", "hgemm.", "qdot.", "qk.float", "conv1x1.", "csr.", "lora.fma",
    "steps.", "rank16.", "rows.", "short_csr.", "product.", "hmm.", "bmm.",
)  # fmt: skip
CORRELATIONS = ("autocorr.", "batch4.")  # sums of products of two loaded factors too
ELEMENTWISE = ("particles.", "affine_roof.linear")  # loaded fields multiplied one by one
NO_PRODUCT = [c for c in reports.chosen_cases() if not c.startswith(PRODUCTS + ELEMENTWISE + CORRELATIONS)]
SGEMM = ("sgemm.naive", "sgemm.tiled", "sgemm.blocktile2d")


def loops(facts: Facts) -> list[FmaLoop]:
    """The products: loops whose multiply-adds have both factors loaded."""
    assert facts.code is not None
    return [loop for loop in fma_loops(facts.code) if loop.both]


@pytest.mark.parametrize(
    ("case", "words", "space"),
    [
        ("sgemm.naive", 2.0, "global"),  # both factors from memory for each multiply-add
        ("sgemm.tiled", 2.0, "shared"),
        ("sgemm.blocktile2d", 16 / 64, "shared"),  # 8 + 8 words feed 8 x 8
    ],
)
def test_finds_the_product(case: str, words: float, space: str, facts: Callable[[str], Facts]) -> None:
    f = facts(case)
    (loop,) = loops(f)
    code = f.code
    assert code is not None and loop.opcode == "FFMA"
    assert loop.fmas == pytest.approx(2048**3 / 32, rel=0.01), "every multiply-add of the product, a warp at a time"
    assert loop.words_per_fma == pytest.approx(words, rel=0.05)
    assert {code.classes[i].space for i in loop.loads} == {space}
    assert {code[i].opcode for i in loop.fma_indices} == {"FFMA"}
    inside = next(lp for lp in code.cfg.loops if loop.loads[0] in lp.instructions and lp.innermost)
    assert set(loop.loads) | set(loop.fma_indices) <= set(inside.instructions)
    assert 0 < loop.issue < 1


def test_larger_tiles_issue_fewer_other_instructions(facts: Callable[[str], Facts]) -> None:
    naive, tiled, blocked = (loops(facts(case))[0].issue for case in SGEMM)
    assert naive < tiled < blocked


@pytest.mark.parametrize("case", NO_PRODUCT)
def test_none_elsewhere(case: str, facts: Callable[[str], Facts]) -> None:
    """Streaming, reductions, stencils, chains of multiply-adds on constants: no product of two loaded factors."""
    assert loops(facts(case)) == []


@pytest.mark.parametrize(
    ("case", "opcode", "words", "spaces"),
    [
        ("manhattan.one", "FADD", 2.0, {"global"}),  # |a - b|, both loaded
        ("centroids.each", "FADD", 2.0, {"global", "shared"}),  # (x - c)^2
        ("centroids.eight", "FADD", 9 / 8, {"global", "shared"}),  # one word of the one side feeds eight of the other
    ],
)
def test_pairs_joined_otherwise(
    case: str, opcode: str, words: float, spaces: set[str], facts: Callable[[str], Facts]
) -> None:
    code = facts(case).code
    assert code is not None
    loop = pair_loops(code)[0]
    assert (loop.opcode, loop.both) == (opcode, True)
    assert loop.words_per_fma == pytest.approx(words, rel=0.05)
    assert {code.classes[i].space for i in loop.loads} == spaces


ROOTS = """
LDG.E.CONSTANT R0, desc[UR6][R6.64]
LDG.E.CONSTANT R5, desc[UR6][R2.64]
FMUL R5, R0, R5
MUFU.RSQ R4, R5
FMUL.FTZ R0, R5, R4
FMUL.FTZ R4, R4, 0.5
FFMA R5, -R0, R0, R5
FFMA R0, R5, R4, R0
{0}
IADD3 R6, R6, 0x4, RZ
@P0 BRA 0x0
EXIT
"""


@pytest.mark.parametrize(("last", "pairs"), [("FADD R11, R0, R11", 1), ("STG.E desc[UR6][R8.64], R0", 0)])
def test_a_function_of_a_pair_summed_up_is_a_product(last: str, pairs: int) -> None:
    """sqrt(a * b) over all pairs, as a distance of distributions adds it up; stored one by one it is none."""
    found = pair_loops(Listing(program(ROOTS.format(last).strip()), "test"))
    assert [(lp.opcode, lp.loads) for lp in found] == [("FMUL", (0, 1))] * pairs


@pytest.mark.parametrize("case", ["sums.in_shared", "row_stats.warp", "barrier.slow", "sgemm.tiled"])
def test_no_pairs_elsewhere(case: str, facts: Callable[[str], Facts]) -> None:
    """Sums of single values, reductions in shared memory, products, elementwise sums."""
    code = facts(case).code
    assert code is not None and not pair_loops(code)


def test_steps_beside_a_copying_loop(facts: Callable[[str], Facts]) -> None:
    """The unrolled steps of a product stand in the loop over tiles, which has an inner loop that copies."""
    (loop,) = loops(facts("steps.one"))
    assert loop.fmas == pytest.approx(1024 * 1024 * 512 / 32, rel=0.01) and loop.words_per_fma == pytest.approx(2.0)


@pytest.mark.parametrize(("case", "words"), [("paths.one", 2.0), ("paths.tile", 0.5)])
def test_minima_of_sums_in_one_instruction(case: str, words: float, facts: Callable[[str], Facts]) -> None:
    """VIADDMNMX joins two loaded values and keeps the least of all rounds: two words for each, or 8 for 16 results."""
    code = facts(case).code
    assert code is not None
    loop = pair_loops(code)[0]
    assert loop.opcode == "VIADDMNMX" and loop.both
    assert loop.fmas == pytest.approx(1024**3 / 32, rel=0.01)
    assert loop.words_per_fma == pytest.approx(words, rel=0.15)
    assert {code.classes[i].space for i in loop.loads} == {"shared"}


# for (k) { tile[t] = float(a[k]); barrier; for (j) sum += tile[j] * other[j]; } of bfloat16, and a table before it
STAGED = """
0x0 LDG.E R20, desc[UR4][R2.64]
0x10 STS [R21+0x800], R20
0x20 LDG.E R8, desc[UR4][R2.64]
0x30 LOP3.LUT R9, R8, 0xffff0000, RZ, 0xc0, !PT
0x40 PRMT R10, RZ, 0x5410, R8
0x50 STS [R22], R9
0x60 STS [R22+0x400], R10
0x70 BAR.SYNC.DEFER_BLOCKING 0x0
0x80 LDS R12, [R23]
0x90 LDS R13, [R23+0x400]
0xa0 FFMA R14, R12, R13, R14
0xb0 VIADD R23, R23, 0x4
0xc0 VIADD R24, R24, 0x1
0xd0 ISETP.NE.AND P0, PT, R24, 0x20, PT
0xe0 @P0 BRA 0x80
0xf0 VIADD R2, R2, 0x80
0x100 VIADD R25, R25, 0x1
0x110 ISETP.NE.AND P1, PT, R25, 0x40, PT
0x120 @P1 BRA 0x20
0x130 STG.E desc[UR4][R4.64], R14
0x140 EXIT
"""


@pytest.mark.parametrize(("table", "halves_"), [(1.0, True), (64.0, False)])
def test_a_table_of_the_blocks_makes_staged_halves_no_floats(table: float, halves_: bool) -> None:
    """bfloat16 values are stored as floats in each round; what is stored once says nothing of them."""
    text = program(STAGED)
    inner = {n * 16 for n in range(8, 15)}
    runs = [2048.0 if i.pc in inner else 64.0 if 0x20 <= i.pc < 0x130 else table for i in text.instructions]
    counters = Counters([i.pc for i in text.instructions], {"inst_executed": runs})
    known = Facts(msgspec.structs.replace(made({}), program=text, counters=counters))
    (loop,) = loops(known)
    assert known.patterns.multiplies_halves(loop) is halves_
