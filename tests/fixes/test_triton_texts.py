"""Triton's kernels with another line, of which a change would not be the same."""

from __future__ import annotations

import pytest

from kscope.fixes.triton import programs, tiles
from tests.support.altered import Capture, told

GATHER: Capture = ("triton_gather.block32", "GRD404", programs.programs)
DOWN: Capture = ("triton_rowsum.down", "MEM101", tiles.along)
DEEP: Capture = ("triton_deep.tiles16", "GRD401", tiles.parts)
ROWS: Capture = ("triton_softmax.passes", "MEM106", tiles.whole_rows)
STORE, ADDED = "tl.store(out + offs, 2 *", "acc += tl.load(x + rows * cols + c)"
PLACE = "offs = tl.program_id(0) * BLOCK"


@pytest.mark.parametrize(
    ("capture", "was", "becomes"),
    [
        (GATHER, STORE, "tl.store(out + tl.program_id(0), 2 *"),  # one value of a program
        (GATHER, STORE, "tl.store(out + offs, BLOCK *"),
        (GATHER, STORE, "tl.store(out + offs, tl.num_programs(0) *"),
        (GATHER, PLACE, "offs = tl.program_id(0) * 32"),
        (DOWN, ADDED, f"{ADDED}\n        acc += tl.load(out + c)"),  # of one column in 32 then
        (DEEP, "pc = c + rm", "acc += 3; pc = c + rm"),  # by each part
        (DEEP, "acc = tl.zeros((BM, BN), dtype=tl.float32)", "acc = tl.load(c)"),
        (DEEP, "pa, pb = a + rm[:, None] * K +", "pa, pb = a + rm[:, None] * K_EACH +"),
        (DEEP, "pa += BK", "pa += BK * (_ // 64)"),
        (ROWS, "tl.store(out + base", "tl.store(x + base"),  # in place
        (ROWS, "total += tl.exp", "total = 0.9 * total + tl.exp"),
        (ROWS, "total += tl.exp", "total += c * tl.exp"),
        (ROWS, "peak = tl.max(top, 0)", "row = tl.max(top, 0)"),
    ],
)
def test_lines_that_ask_for_more(capture: Capture, was: str, becomes: str) -> None:
    assert told(*capture) and not told(*capture, (was, becomes))


def test_programs_whose_number_has_a_name() -> None:
    assert told(*GATHER, (PLACE, "pid = tl.program_id(0)\n    offs = pid * BLOCK"))


def test_a_column_of_rows_becomes_tiles() -> None:
    (fix,) = told(*DOWN)
    assert [e.becomes.strip() for e in fix.edits] == [
        "for c in range(0, cols, 32):",
        "acc += tl.sum(tl.load(x + (rows * cols + c)[:, None] + tl.arange(0, 32)[None, :]), 1)",
    ]
