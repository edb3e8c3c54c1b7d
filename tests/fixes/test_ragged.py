"""Runs of rows of different lengths, one a block: as many rows for each block."""

from __future__ import annotations

import pytest

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.recurrence.ragged import Runs, _played, runs, spans
from kscope.fixes.recurrence.serial import found
from kscope.fixes.rows.function import _read
from tests.support.with_sources import changes

GIVEN = "const int* __restrict__ first, const float* __restrict__ x, float* __restrict__ out, const int* at, int wide"
BOUNDS = "int a = first[blockIdx.x], b = first[blockIdx.x + 1]; float s = 0;"
SUM = "for (int r = a; r < b; r++) s += x[r * wide + threadIdx.x];"
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
    return _played(one, more, (32, 1, 1), {"wide": 32}) if one is not None else 0


def test_a_capture_gives_every_block_as_many_rows() -> None:
    first, *rest = changes("ragged.block", "GRD403")
    assert first.title.startswith("as many rows for every block")
    text = first.edits[0].becomes
    assert "next0_n[step_n] = r < to_n ? x[(r * 128) + threadIdx.x] : 0;" in text and "s += value0_n[step_n];" in text
    assert "atomicAdd(&y[last_part_n * 128 + threadIdx.x], s);" in text
    assert "__device__ unsigned long long ragged_block_parts[4096] = {};" in first.code and "Memset" not in first.code
    assert first.above == first.edits[0].line and "float* __restrict__ y, int runs_n) {" in text
    assert "// launch: ragged_block<<<1056, dim3(128, 1, 1)>>>(..., 4096)" in first.code
    assert "__syncthreads_count(probe_n < behind_n && start[probe_n] <= from_n);" in text
    assert first.conditions[0].state == "proved" and first.conditions[0].ran > 1000
    checks = {c.holds for c in first.conditions if c.state == "check"}
    assert {"start never goes down", "no launch has more than 4096 runs"} < checks
    assert not any("zero" in c for c in checks)
    assert first.proof[0].before == pytest.approx(9.8, rel=0.01)
    assert any("parts" in f.title for f in rest)  # the smaller change stays, behind it


@pytest.mark.parametrize("more", [1, 3])
@pytest.mark.parametrize(
    "lines",
    [
        (BOUNDS, SUM, STORE),
        ("float s = 0; for (int e = first[blockIdx.x]; e < first[blockIdx.x + 1]; ++e)",
         "{ float v = x[at[e] * wide + threadIdx.x]; s += v * v; }", STORE),
        ("const int row = blockIdx.x, a = first[row], b = first[row + 1]; float s = 0.f;", SUM,
         "out[row * wide + threadIdx.x] = s;"),
        (BOUNDS, SUM.replace("+= x", "+= x[blockIdx.x] * x"), STORE),  # a row's part depends on its run
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
        (BOUNDS, SUM, STORE.replace("= s", "= s * 2 + 1")),
        (BOUNDS, SUM, STORE.replace("= s", "+= s")),
        (BOUNDS, SUM.replace("s += x", "s = 2 * s + x"), STORE),
        (BOUNDS, SUM.replace("s += x", "s += out[r] + x"), STORE),
        (BOUNDS, "if (a == b) return;", SUM, STORE),
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


def test_a_wrong_search_or_a_missing_barrier_is_seen() -> None:
    one = ragged(BOUNDS, SUM, STORE)
    assert one is not None
    *_, (start, end, text) = spans(one)
    for old, new in (
        ("(thread_n + 1) * skip_n", "thread_n * skip_n"),
        ("row_n < end_n;", "row_n <= end_n;"),
        ("    __syncthreads();\n    if", "    if"),
        ("    __syncthreads();\n  }", "  }"),
        ("at_n + 8 + step_n", "at_n + 7 + step_n"),
        ("at_n + 8 + 8 <= to_n", "at_n + 8 <= to_n"),
        ("|= first[none_n] == first[none_n + 1]", "|= false"),  # runs without rows
        ("if (run_n == left_n) { s_left_n = s; } else {", "{"),
        ("1] > to_n ? end_run_n", "1] > to_n + 99 ? end_run_n"),
        ("+ 1 == rest_n", "+ 2 == rest_n"),  # words stay for the next launch
        ("= turn_n;\n  __syncthreads();", "= turn_n;"),
        ("tile_n + 64;\n      for", "stop_n;\n      for"),
        ("first[of_n] > tile_n ? first[of_n] : tile_n", "first[of_n]"),
    ):
        assert old in text
        with pytest.MonkeyPatch.context() as patch:
            wrong = text.replace(old, new)
            patch.setattr("kscope.fixes.recurrence.ragged.spans", lambda found, wrong=wrong: [(start, end, wrong)])
            assert not _played(one, 1, (32, 1, 1), {"wide": 32}), old


def test_the_store_becomes_a_part_that_is_added() -> None:
    one = ragged(BOUNDS, SUM, STORE)
    assert one is not None
    *_, (_, _, text) = spans(one)
    assert "atomicAdd(&out[last_part_n * wide + threadIdx.x], s);" in text
    one = ragged(BOUNDS, SUM.replace("+= x", "+= x[blockIdx.x] * x"), STORE)  # a row's part depends on its run
    assert one is not None
    *_, (_, _, text) = spans(one)
    assert "blockIdx.x * wide" not in text and "atomicAdd(&out[run_n * wide + threadIdx.x], s);" in text
