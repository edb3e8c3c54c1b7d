"""Which code is a scan or a tree over a block, and what is something else."""

from __future__ import annotations

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.model.kernel import Counters
from tests.features.listings import program
from tests.support.edit import made

SCAN = """
S2R R2, SR_TID.X
LEA R3, R2, UR4, 0x2
MOV R5, 0x4
STS [R3], R4
BAR.SYNC.DEFER_BLOCKING 0x0
IADD3 R6, R3, -R5, RZ
LDS R7, [R6]
{grows}
BAR.SYNC.DEFER_BLOCKING 0x0
IADD3 R4, R4, R7, RZ
STS [R3], R4
ISETP.NE.AND P0, PT, R5, 0x200, PT
BAR.SYNC.DEFER_BLOCKING 0x0
@P0 BRA 0x50
EXIT
"""
DOUBLED, NEXT = "SHF.L.U32 R5, R5, 0x1, RZ", "IADD3 R5, R5, 0x4, RZ"

ROUND = """\
LDS R5, [R3+{far}]
LDS R4, [R3]
IADD3 R4, R4, R5, RZ
STS [R3], R4
BAR.SYNC.DEFER_BLOCKING 0x0
"""
STORED = "S2R R2, SR_TID.X\nLEA R3, R2, UR4, 0x2\nSTS [R3], R4\nBAR.SYNC.DEFER_BLOCKING 0x0\n"

STEP = "SHFL.DOWN PT, R5, R4, {far}, 0x1f\nIADD3 R4, R4, R5, RZ\n"
JOINED = "{guard} STS [R3], {value}\nBAR.SYNC.DEFER_BLOCKING 0x0\nLDS R6, [R3]\nEXIT\n"


def facts(text: str, runs: list[float]) -> Facts:
    code = program(text)
    runs = runs or [8.0] * len(code)
    counters = Counters([16 * i for i in range(len(runs))], {"inst_executed": runs})
    return Facts(msgspec.structs.replace(made({}, grid=1, block=256), program=code, counters=counters))


def scan(rounds: float, grows: str = DOUBLED) -> frozenset[int]:
    """A loop of so many rounds, entered once by each of eight warps."""
    runs = [8.0] * 5 + [8.0 * rounds] * 9 + [8.0]
    return facts(SCAN.format(grows=grows), runs).patterns.block_trees(256)


def tree(distances: list[int]) -> frozenset[int]:
    text = STORED + "".join(ROUND.format(far=hex(far)) for far in distances) + "LDS R6, [UR4]\nEXIT\n"
    return facts(text, []).patterns.block_trees(256)


def test_a_loop_whose_distance_doubles_until_the_block_is_done_is_a_scan() -> None:
    assert scan(8) == frozenset(range(5, 14))


def test_other_rounds_between_barriers_are_none() -> None:
    assert not scan(8, NEXT), "each round looks one place further: a walk, no halving"
    assert not scan(4.5), "a sorting network starts over before the block is halved down"


def test_unrolled_rounds_are_told_by_their_distances() -> None:
    halved = [512, 256, 128, 64, 32, 16, 8, 4]
    assert tree(halved) == frozenset(range(3, 3 + 5 * 8)), "each with the barrier before it"
    assert tree(halved[:3]), "down to a warp"
    assert not tree([512, 256]), "two halvings leave 64 of 256 threads"
    assert not tree([4, 12, 20, 28]), "a stencil's neighbours"


BEST = """\
LDS R5, [R3+{far}]
LDS R4, [R3]
FSETP.GT.AND P1, PT, R4, R5, PT
@P1 LEA R7, R2, UR5, 0x3
@P1 STS [R3], R5
@P1 LDS.64 R8, [R7+{twice}]
@P1 STS.64 [R7], R8
BAR.SYNC.DEFER_BLOCKING 0x0
"""


def test_a_tree_of_the_best_value_and_where_it_stood() -> None:
    """Two arrays, of 4 and of 8 bytes an element; data decide whether a place is stored to, not which."""
    rounds = "".join(BEST.format(far=hex(far), twice=hex(2 * far)) for far in (4, 8, 16, 32, 64, 128, 256, 512))
    known = facts(STORED + rounds + "LDS R6, [UR4]\nEXIT\n", [])
    assert known.patterns.block_trees(256) == frozenset(range(3, 3 + 8 * 8))
    assert not known.patterns.exchanges


def warp_tree(far: list[int], guard: str = "@P0", value: str = "R4") -> frozenset[int]:
    steps = "".join(STEP.format(far=hex(x)) for x in far)
    return facts("LEA R3, R2, UR4, 0x2\n" + steps + JOINED.format(guard=guard, value=value), []).patterns.warp_trees


def test_trees_of_each_warp_that_the_block_only_puts_together() -> None:
    assert warp_tree([16, 8, 4, 2, 1]) == frozenset(range(1, 11))


@pytest.mark.parametrize(
    "other", [warp_tree([16, 8, 4, 2]), warp_tree([16, 8, 4, 2, 1], guard=""), warp_tree([16, 8, 4, 2, 1], value="R9")],
    ids=["half of the warp", "every lane's own: an exchange", "a tile beside it"],
)  # fmt: skip
def test_what_the_block_needs_together_is_no_tree_of_warps(other: frozenset[int]) -> None:
    assert other == frozenset()


IN_MEMORY = """
S2R R2, SR_TID.X
MOV R9, 0x80
IMAD.WIDE R4, R2, 0x4, R6
ISETP.GE.AND P0, PT, R2, R9, PT
@P0 BRA 0x90
IMAD.WIDE R10, R9, 0x4, R4
LDG.E R0, [R4.64]
LDG.E R7, [R10.64]
STG.E [R4.64], R0
{shrinks}
BAR.SYNC.DEFER_BLOCKING 0x0
ISETP.NE.AND P0, PT, R9, RZ, PT
@P0 BRA 0x30
EXIT
"""
HALVED = "SHF.R.U32.HI R9, RZ, 0x1, R9"


def test_a_loop_that_halves_its_distance_in_global_memory_is_a_tree_there() -> None:
    def found(shrinks: str, space: str) -> frozenset[int]:
        runs = [8.0] * 3 + [64.0] * 2 + [20.0] * 4 + [64.0] * 4 + [8.0]
        return facts(IN_MEMORY.format(shrinks=shrinks), runs).patterns.block_trees(256, space)

    assert found(HALVED, "global") == frozenset(range(3, 13))
    assert not found(HALVED, "shared")
    assert not found("IADD3 R9, R9, -0x1, RZ", "global"), "one place less each round: a walk"
