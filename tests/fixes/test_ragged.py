"""Runs of rows of different lengths, one a block: as many rows for each block."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import Rules, play
from kscope.fixes.recurrence.ragged import _played, runs
from kscope.fixes.recurrence.ragged_parts import Runs, words
from kscope.fixes.recurrence.ragged_text import FENCE, spans
from kscope.fixes.recurrence.serial import found
from kscope.fixes.rows.function import _read
from tests.support.thorough import some
from tests.support.with_sources import changes

GIVEN = "const int* __restrict__ first, const float* __restrict__ x, float* __restrict__ out, const int* at, int wide"
BOUNDS = "int a = first[blockIdx.x], b = first[blockIdx.x + 1]; float s = 0;"
SUM = "for (int r = a; r < b; r++) s += x[r * wide + threadIdx.x];"
ROOM = (1056, 32)
STORE = "out[blockIdx.x * wide + threadIdx.x] = s;"


def ragged(*lines: str) -> Runs | None:
    fn = _read("k.cu", [f"__global__ void k({GIVEN}) {{", *lines, "}"], "k", 1, (), None)
    assert fn is not None
    try:
        one = found(fn)
    except Unplayable:
        return None
    return runs(one) if one is not None else None


def compared(*lines: str, more: int = 1) -> int:
    one = ragged(*lines)
    return _played(one, more, ROOM, (32, 1, 1), {"wide": 32}) if one is not None else 0


def zeros(out: int, part: int, came: int) -> dict[str, np.ndarray]:
    return {name: np.zeros(n, dtype=np.int64) for name, n in (("out", out), ("k_part0", part), ("k_came", came))}


def test_a_capture_gives_every_block_as_many_rows() -> None:
    first, *rest = changes("ragged.block", "GRD403")
    assert first.title.startswith("as many rows for every block")
    text = first.edits[0].becomes
    assert "{ value0_n[half_n + step_n] = x[(r * 128) + threadIdx.x]; }" in text
    assert "float s = sum0_n; y[of_run_n * 128 + threadIdx.x] = s;" in text
    assert "atomicAdd(&ragged_block_part0[slot_n * threads_n + thread_n], sum0_n);" in text and "while" not in text
    assert "__device__ float ragged_block_part0[135168] = {};" in first.code and "Memset" not in first.code
    assert "__device__ unsigned ragged_block_came[1056] = {};" in first.code
    assert first.above == first.edits[0].line and "float* __restrict__ y, int runs_n) {" in text
    assert "// launch: ragged_block<<<1056, dim3(128, 1, 1)>>>(..., 4096)" in first.code
    assert "__syncthreads_count(probe_n < behind_n && start[probe_n] <= from_n);" in text
    assert first.conditions[0].state == "proved" and first.conditions[0].ran > 1000
    checks = {c.holds for c in first.conditions if c.state == "check"}
    assert {"start never goes down", "no two launches of it run at a time"} < checks
    assert not any("zero" in c for c in checks)
    assert first.proof[0].before == pytest.approx(9.8, rel=0.01)
    assert any("parts" in f.title for f in rest)  # the smaller change stays, behind it


@pytest.mark.parametrize("more", some([1, 3], 1))
@pytest.mark.parametrize(
    "lines",
    [
        (BOUNDS, SUM, STORE),
        ("float s = 0; for (int e = first[blockIdx.x]; e < first[blockIdx.x + 1]; ++e)",
         "{ float v = x[at[e] * wide + threadIdx.x]; s += v * v; }", STORE),
        ("const int row = blockIdx.x, a = first[row], b = first[row + 1]; float s = 0.f;", SUM,
         "out[row * wide + threadIdx.x] = s;"),
        (BOUNDS, SUM.replace("+= x", "+= x[blockIdx.x] * x"), STORE),  # a row's part depends on its run
        (BOUNDS, SUM, STORE.replace("= s", "= s * 2 + 1")),
        (BOUNDS, SUM, STORE.replace("= s", "+= s")),
        (BOUNDS, SUM, "if (b > a) s = s * (b - a);", STORE),
        ("int a = first[blockIdx.x], n = first[blockIdx.x + 1] - a; float s = 0;",
         "for (int i = 0; i < n; i++) s += x[(a + i) * wide + threadIdx.x];", STORE.replace("= s", "= n ? s * n : 7")),
        ("const float* row = x + threadIdx.x;" + BOUNDS, "for (int r = a; r < b; r++) s += row[r * wide];", STORE),
        ("int w = blockIdx.x * wide;" + BOUNDS, SUM, "float t = s + 1; out[w + threadIdx.x] = t;"),
        (BOUNDS.replace("s = 0", "s = 0, q = 0"), "for (int r = a; r < b; r++)",
         "{ int e = at[r]; float v = x[e * wide + threadIdx.x]; s += v; q += v * v; }",
         STORE.replace("= s", "= q - s")),
        ("int w = wide;" + BOUNDS, SUM.replace("wide", "w").replace("+= x", "+= 3 * r - x"), STORE),
    ],
)  # fmt: skip
def test_every_row_is_added_to_its_run(lines: tuple[str, ...], more: int) -> None:
    assert compared(*lines, more=more) > 100


@pytest.mark.parametrize(
    "lines",
    [
        (BOUNDS.replace("+ 1]", "+ 2]"), SUM, STORE),  # runs overlap
        (BOUNDS.replace("s = 0", "s = 1"), SUM, STORE),  # every part would begin with it
        (BOUNDS, SUM, STORE.replace("= s", "= s + out[0]")),
        (BOUNDS, SUM, "*(out + threadIdx.x) = s;"),
        (BOUNDS, SUM.replace("s += x", "s = 2 * s + x"), STORE),
        (BOUNDS, SUM.replace("s += x", "s += out[r] + x"), STORE),
        (BOUNDS, "if (a == b) return;", SUM, STORE),
        ("unsigned a = first[blockIdx.x], n = first[blockIdx.x + 1] - a; float s = 0;",
         "for (unsigned i = 0; i < n; i++) s += x[(a + i) * wide + threadIdx.x];", STORE),
        ("int a = first[blockIdx.x], n = first[blockIdx.x + 1] - a; float s = 0;",
         "for (int i = 0; i < n; i++) s += at[i] * x[(a + i) * wide + threadIdx.x];", STORE),  # a number in its run
        (BOUNDS, SUM, STORE, "out[gridDim.x] = s;"),
        (BOUNDS, SUM, STORE, STORE.replace("= s", "= a")),
        (BOUNDS.replace("first[blockIdx.x + 1]", "first[blockIdx.x + 1] - 1"), SUM, STORE),
    ],
)
def test_other_work_of_a_block_is_left_alone(lines: tuple[str, ...]) -> None:
    assert ragged(*lines) is None


def test_sums_that_several_blocks_store_at_one_place_are_not_played() -> None:
    assert ragged(BOUNDS, SUM, "out[threadIdx.x] = s;") is not None
    assert not compared(BOUNDS, SUM, "out[threadIdx.x] = s;")


WRONG = [
    ("(thread_n + 1) * skip_n;\n  const", "thread_n * skip_n;\n  const"),
    ("begin_n < stop_n && begin_n < end_n", "begin_n < stop_n"),
    ("begin_n <= from_n && from_n < end_n", "begin_n <= from_n"),
    ("own_n[3] = end_n", "own_n[2] = end_n"),
    ("begins_at_n[step_n] > run_n", "begins_at_n[step_n] > run_n + 1"),
    ("if (most_n == run_n)", "if (most_n >= run_n)"),
    ("tile_n + at_n + half_n + 16 + step_n", "tile_n + at_n + half_n + 15 + step_n"),
    ("to_n - (tile_n + at_n + half_n + 16) >= 8", "to_n - (tile_n + at_n + half_n + 16) >= 0"),
    ("first[mine_n] >= first[mine_n + 1]", "first[mine_n] > first[mine_n + 1]"),  # runs without rows
    ("first[further_n] >= first[further_n + 1]", "first[further_n] > first[further_n + 1]"),
    ("if (left_n) { atomicAdd(&k_part0[slot_n * threads_n + thread_n], sum0_n); } else {", "{"),
    ("first_came_n == first_parts_n", "first_came_n + 1 == first_parts_n"),
    ("last_came_n == last_parts_n", "last_came_n == 0"),
    ("if (last_n[0]) k_came[slot_n] = 0;", ""),  # words stay for the next launch
    ("sums0_n[at_n] = 0;", ""),
    ("if (tile_n > from_n) { __syncthreads(); } else {", "if (tile_n == from_n) {"),
    ("if (to_n - tile_n > 64) __syncthreads();", ""),
]


@pytest.mark.parametrize(("old", "new"), WRONG)
def test_a_wrong_search_or_a_missing_barrier_is_seen(old: str, new: str) -> None:
    one = ragged(BOUNDS, SUM, STORE)
    assert one is not None
    *_, (start, end, text) = spans(one, ROOM)
    assert old in text
    with pytest.MonkeyPatch.context() as patch:
        wrong = text.replace(old, new)
        patch.setattr("kscope.fixes.recurrence.ragged.spans", lambda *_: [(start, end, wrong)])
        assert not _played(one, 1, ROOM, (32, 1, 1), {"wide": 32})


def test_runs_that_nothing_says_where_they_begin_end_all_the_same() -> None:
    """Numbers that go down: no loop waits, and nothing outside the arrays is touched."""
    one = ragged(BOUNDS, SUM, STORE)
    assert one is not None
    *_, (_, _, text) = spans(one, ROOM)
    body, rng = text.replace(FENCE, ""), np.random.default_rng(7)
    wrong = ([9, 0, 5], [0, 900, 3, 2], [40, 30, 20, 10, 0], [0, 2, 1, 600, 5, 7], [*rng.integers(0, 500, 40)])
    for first in wrong:
        memory = {"first": np.array(first), "x": np.ones(1 << 15, dtype=np.int64), **zeros(out=2048, part=288, came=9)}
        rules = Rules(literals="drawn", tickets=True, handed=("k_part0", "k_came"))
        play(body, (9, 1), (32, 1), memory, {"wide": 32, "runs_n": len(first) - 1}, rules)
        assert memory["first"].tolist() == first


@pytest.mark.parametrize("shape", [((5, 32), (9, 1), (64, 1)), ((5, 32), (9, 1), (16, 2)), ((5, 32), (3, 1), (8, 1))])
def test_a_launch_of_another_shape_than_there_are_words_for(
    shape: tuple[tuple[int, int], tuple[int, int], tuple[int, int]],
) -> None:
    """Blocks of more threads than the arrays were made for, or of fewer than look at a time."""
    one = ragged(BOUNDS, SUM, STORE)
    assert one is not None
    room, grid, block = shape
    *_, (_, _, text) = spans(one, room)
    first = np.concatenate([[0], np.cumsum(np.random.default_rng(3).integers(0, 60, 40))])
    x = np.random.default_rng(4).integers(0, 1000, int(first[-1]) * block[0])
    memory = {"first": first, "x": x, **zeros(out=40 * block[0], part=words(room), came=room[0])}
    rules = Rules(literals="drawn", tickets=True, handed=("k_part0", "k_came"))
    play(text.replace(FENCE, ""), grid, block, memory, {"wide": block[0], "runs_n": 40}, rules)
    rows = x.reshape(-1, block[0])
    expected = np.array([rows[a:b].sum(axis=0) for a, b in itertools.pairwise(first)])
    assert np.array_equal(memory["out"].reshape(40, -1), expected) and not memory["k_part0"].any()


def test_the_store_becomes_a_part_that_is_added() -> None:
    one = ragged(BOUNDS, SUM.replace("+= x", "+= x[blockIdx.x] * x"), STORE)  # a row's part depends on its run
    assert one is not None
    *_, (_, _, text) = spans(one, ROOM)
    assert "blockIdx.x * wide" not in text and "atomicAdd(&out[run_n * wide + threadIdx.x], s);" in text
