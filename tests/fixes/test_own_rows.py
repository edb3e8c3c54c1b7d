"""Rows of shared memory for each thread as columns."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.fixes.given import text
from kscope.fixes.tile import own_rows
from kscope.fixes.tile.bounded import most
from kscope.fixes.tile.layouts import Pattern, cost
from kscope.fixes.tile.tiles import ALL


@given(st.integers(1, 64), st.integers(1, 16), st.integers(0, 2**32))
def test_columns_map_back_and_have_no_conflicts(half: int, warps: int, seed: int) -> None:
    layout = own_rows.Columns(2 * half, 32 * warps, 4)
    size = layout.row * layout.rows * 4
    data = random.Random(seed)
    own = tuple((32 * (warps - 1) + n) * layout.row * 4 + data.randrange(layout.row) * 4 for n in range(32))
    assert all(layout.inverse(layout(o)) == o and 0 <= layout(o) < size for o in own)
    assert cost(Pattern(own, 4, ALL), layout) == (1, 1)


@pytest.mark.parametrize(
    ("loop", "right"),
    [
        ("for (int i = t; i < 64 * 128; i += 128) c[i] = 0;", True),
        ("for (int i = t; i < 64 * 128; i += 128) { c[i] = 1.5f; }", True),
        ("for (int i = t; i < 64 * 64; i += 128) c[i] = 0;", False),
        ("for (int i = t; i < 64 * 128; i += 128) c[i] = x[i];", False),
        ("for (int i = 0; i < 64 * 128; i += 128) c[i] = 0;", False),
        ("for (int i = t; i < 64 * 128; i += blockDim.x) c[i] = NONE;", True),
        ("for (int i = t; i < 64 * 128; i += 128) c[i] = i;", False),  # of each place another one
        ("for (int i = t; i < 64 * 128; i += 128) c[i] = t;", False),
        ("for (int i = t; i < 64 * 128; i += 256) c[i] = 0;", False),  # half of the places
    ],
)
def test_fills_are_in_any_order(loop: str, right: bool) -> None:
    code = f"int t = threadIdx.x; {loop}"
    (one,) = text.loops(code)
    assert own_rows._fills(code, one, "c", 64 * 128, 128, {"NONE": 7}) is right


@pytest.mark.parametrize(
    ("index", "end"),
    [
        ("(v >> (6 * j) & 63) * BIN", 126),
        ("v & 15 & m", 15),
        ("b", 255),
        ("b >> 2 ", 255),
        ("(v & 7) + 8 * (w & 1)", 15),
        ("v", None),
        ("v & m", None),
        ("v % 64", None),  # it may be less than 0
        ("(v & 63) - 1", None),
        ("n & 63", 63),
        ("n", None),
        ("x[i] & 31", 31),
    ],
)
def test_the_most_that_an_index_can_be(index: str, end: int | None) -> None:
    code = "int v = x[i], w = 0; const unsigned char b = s[i]; int n = b;"
    assert most(index, {"BIN": 2, "n": 3}, code) == end


def test_columns_are_told_without_a_division_where_indices_are_bounded() -> None:
    code = "{ unsigned* mine = c + t * 64; mine[v & 63]++; c[k] = 0; }"
    at = code.index("unsigned"), code.index(";") + 1
    own = own_rows._Own("mine", "c", "t", at, own_rows.Columns(64, 128, 4), ())
    put = [new for _, _, new in own_rows._spans(code, own, alone=True)]
    assert put == ["", "c[across(k)]", "c[(v & 63) * 128 + t]"]
    assert own_rows._spans(code, own, alone=False)[2][2] == "c[across(t * 64 + (v & 63))]"


@pytest.mark.parametrize(
    ("use", "right"),
    [
        ("mine[v & 63] += c[k];", True),
        ("atomicAdd(&c[k], 1); s = v & mine[3];", True),
        ("mine[bins[k]]++;", False),  # an index that is not found
        ("c[keys[k]] = 1;", False),
        ("int* two = &mine[2];", False),  # where it leads from there
        ("fill(&c[0], k);", False),
    ],
)
def test_addresses_and_indices_of_indices_are_left(use: str, right: bool) -> None:
    assert own_rows._plain(f"{{ {use} }}", ("mine", "c")) is right
