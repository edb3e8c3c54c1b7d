"""A block's tree of sums with a barrier a level: below the first level by one warp."""

from __future__ import annotations

import pytest
from msgspec import structs

from kscope.fixes.recurrence.tree import _alone, _applied, _compared, tree
from kscope.fixes.rows.function import _read
from tests.support.with_sources import changes

GIVEN = "float* x, float* __restrict__ y, int n"
OWN = "int i = threadIdx.x; float* row = x + blockIdx.x * 256;"
LEVELS = "for (int d = 128; d; d /= 2) { if (i < d) row[i] = row[i] + row[i + d]; __syncthreads(); }"
SHARED = "__shared__ float s[256]; int i = threadIdx.x; s[i] = x[blockIdx.x * 256 + i]; __syncthreads();"
FIRST = "if (i == 0) y[blockIdx.x] = row[0];"


def compared(*lines: str, block: int = 128, within: bool = True) -> int:
    fn = _read("k.cu", [f"__global__ void k({GIVEN}) {{", *lines, "}"], "k", 1, (), None)
    assert fn is not None
    one = tree(fn, {}, block)
    if one is None:
        return -1
    return _compared(structs.replace(one, within=within), {"n": block}, block)


def test_a_capture_that_adds_up_in_memory_does_so_in_registers() -> None:
    (fix,) = [f for f in changes("halves.global", "LAT304") if "levels below" in f.title]
    tree_, last = fix.edits
    assert "value_n = 0.5f * (left_n + right_n);" in tree_.becomes
    assert tree_.becomes.count("__syncthreads()") == 1 and "row[0]" not in last.becomes
    assert last.becomes.endswith("if (!t) y[blockIdx.x] = value_n;")
    assert (fix.proof[0].before, fix.proof[0].after) == (10, 1)
    (kept,) = [c for c in fix.conditions if c.holds.startswith("nobody reads afterwards")]
    assert kept.state == "check" and fix.conditions[0].state == "proved"


@pytest.mark.parametrize(
    "lines",
    [
        (OWN, LEVELS, FIRST),
        (OWN, LEVELS.replace("d /= 2", "d >>= 1").replace("d; ", "d > 0; "), FIRST),
        (OWN, LEVELS.replace("row[i] + row[i + d]", "fmaxf(row[i], row[d + i])"), FIRST),
        (OWN, LEVELS.replace("row[i] = row[i] + ", "row[i] += "), "if (!i) y[blockIdx.x] = 2 * row[0];"),
        (OWN, LEVELS.replace("row[i] = row[i] + row[i + d];", "{ row[i] = row[i] + row[i] * row[i + d]; }"), FIRST),
        (OWN, LEVELS.replace("128", "blockDim.x"), "y[blockIdx.x * 128 + i] = row[0] * i;"),  # all threads take it
    ],
)
def test_the_same_pairs_come_together(lines: tuple[str, ...]) -> None:
    assert compared(*lines, within=False) >= 4
    assert (compared(*lines) >= 4) == ("row[i] * row" not in lines[1])  # which is another one by other pairs


@pytest.mark.parametrize(
    "levels",
    [
        "for (int d = 128; d; d /= 2) { if (i < d) s[i] += s[i + d]; __syncthreads(); }",
        "for (unsigned d = blockDim.x / 2; d > 0; d >>= 1) {\n"
        "  __syncthreads(); if (i < d) s[i] = fmaxf(s[i], s[i + d]); }",
    ],
)  # fmt: skip
def test_a_tree_in_shared_memory_stays_there(levels: str) -> None:
    for within in (False, True):
        assert compared(SHARED, levels, "if (i == 0) y[blockIdx.x] = s[0];", block=256, within=within) >= 4


@pytest.mark.parametrize(
    "lines",
    [
        (OWN, LEVELS.replace("128", "96"), FIRST),  # no power of two
        (OWN, LEVELS.replace("128", "n"), FIRST),
        (OWN, LEVELS.replace("i + d]", "i + d + 1]"), FIRST),
        (OWN, LEVELS.replace(" + row[i + d]", " + d * row[i + d]"), FIRST),  # another one in every level
        (OWN.replace("threadIdx.x;", "127 - threadIdx.x;"), LEVELS, FIRST),
        (OWN, "for (int r = 0; r < n; r++) {", LEVELS, "}", FIRST),
        (OWN, "if (n > 4)", LEVELS, FIRST),
        (OWN, "if (i > n) return;", LEVELS, FIRST),
        (OWN, LEVELS.replace(" __syncthreads();", ""), FIRST),
    ],
)
def test_other_levels_are_left_alone(lines: tuple[str, ...]) -> None:
    assert compared(*lines) == -1


@pytest.mark.parametrize(
    "lines",
    [
        (OWN, LEVELS, "y[blockIdx.x * 128 + i] = row[i];"),  # what the levels leave is read again
        (OWN, LEVELS, "if (i == 0) y[blockIdx.x] = row[0] + row[1];"),
        (OWN.replace("blockIdx.x * 256", "0"), LEVELS, FIRST),  # all blocks in one place
    ],
)
def test_what_comes_out_otherwise_is_not_printed(lines: tuple[str, ...]) -> None:
    assert compared(*lines) == compared(*lines, within=False) == 0


def test_the_first_value_stays_where_others_take_it() -> None:
    for last, alone in ((FIRST, True), ("y[i] = row[0];", False), ("if (i == 1) y[0] = row[0];", False)):
        fn = _read("k.cu", [f"__global__ void k({GIVEN}) {{", OWN, LEVELS, last, "}"], "k", 1, (), None)
        one = tree(fn, {}, 128) if fn is not None else None
        assert one is not None and (_alone(one) is not None) == alone
        assert ("if (i == 0) row[0] = value_n;" in _applied(one)) != alone
