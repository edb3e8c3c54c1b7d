"""What lies at an index that a whole warp has, loaded by a lane for each of 32 rounds."""

from __future__ import annotations

import pytest

from kscope.fixes.given.text import Text
from kscope.fixes.order.batched import Walk, walks
from kscope.fixes.order.dealt_out import rewritten, same, written
from kscope.fixes.order.plain_loads import Plain, as_written, plain_of
from tests.support.with_sources import changes

FILE = """template <class T> __device__ __forceinline__ T one_or(const T* base, int at) {
  if (base != nullptr) return base[at];
  else return static_cast<T>(1);
}
"""
HEAD = (
    "__global__ void mix(const int* __restrict__ first, const int* next, const float* weight, const float* table,"
    " float* out, int many) {\n"
)
ROWS = """  int w = threadIdx.x >> 5, lane = threadIdx.x & 31;
  int r = blockIdx.x * (blockDim.x >> 5) + w;
  if (r < many) {
    int from = __ldg(first + r), to = __ldg(first + r + 1);
    float s = 0;
    int there;
    for (int e = from; e < to; ++e) {
      there = __ldg(next + e) * 32;
      s += one_or<float>(weight, e) * __ldg(table + there + lane);
    }
    out[r * 32 + lane] = s;
  }
}"""


def plain(body: str, file: str = FILE) -> Plain:
    code = HEAD + body
    one = plain_of(Text("a.cu", 1, code), "mix", code.split("\n"), file)
    assert one is not None
    return one


def found(body: str, block: tuple[int, int] = (64, 1)) -> tuple[Walk | None, str, int]:
    """The walk, its new text, and how many results are the same."""
    one = plain(body)
    for walk, new in rewritten(one):
        return walk, as_written(new, one.ways), same(one, walk, new, block)
    return None, "", 0


def test_a_sparse_product_whose_lanes_hand_out_its_indices() -> None:
    (fix,) = [f for f in changes("spmm32.each", "LAT302") if f.kind == "lane_mapping"]
    (edit,) = fix.edits
    assert "if (p + 32 + lane_n < end) { col_of_next = col[p + 32 + lane_n];" in edit.becomes
    assert "x_of[round_n] = x[__shfl_sync(~0u, col_of_now, first_n + round_n) * 32 + lane];" in edit.becomes
    assert [c.state for c in fix.conditions[:2]] == ["proved", "proved"]


def test_loads_are_written_as_the_kernel_writes_them() -> None:
    _, new, played = found(ROWS)
    assert played > 300
    assert "weight_of_next = one_or<float>(weight, e + lane_n);" in new
    assert "table_of[round_n] = __ldg(&table[there + lane]);" in new
    assert "int there = __shfl_sync(~0u, next_of_now, first_n + round_n) * 32;" in new


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("e + 32 <= to", "e + 31 <= to"),
        ("e + 32 + lane_n", "e + lane_n"),
        ("first_n + round_n)", "round_n)"),
        ("e + first_n < to", "e + first_n + 1 < to"),
        ("e + lane_n < to", "e + lane_n <= to"),  # what nobody has loaded before
        ("threadIdx.x % 32", "threadIdx.x % 16"),
    ],
)
def test_another_text_does_not_come_out_the_same(was: str, now: str) -> None:
    one = plain(ROWS)
    (walk,) = walks(one.kernel)
    new = written(walk)
    assert was in new and same(one, walk, new.replace(was, now), (64, 1)) == 0


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("threadIdx.x >> 5", "threadIdx.x >> 4"),  # two rows a warp
        ("if (r < many)", "if (r < many && lane < many)"),  # lanes that are not there
        ("if (r < many)", "if (r < many && lane != 3)"),
        ("e = from;", "e = from + lane % 2;"),  # each lane its own rounds
        ("__ldg(next + e)", "__ldg(next + e + lane)"),
        ("++e", "e += 2"),
        ("s += one", "out[e] = s; s += one"),  # a store that a load may see
        ("s += one", "__syncwarp(); s += one"),
        ("* __ldg(table + there + lane)", "+ there"),  # nothing is waited for twice
    ],
)
def test_what_is_left(was: str, now: str) -> None:
    assert was in ROWS
    assert found(ROWS.replace(was, now))[2] == 0


def test_a_name_that_is_used_behind_the_loop_is_not_its_own() -> None:
    assert found(ROWS.replace("= s;", "= s + there;"))[2] == 0


STRIDED = """  int lane = threadIdx.x % 32, row = blockIdx.x * blockDim.y + threadIdx.y;
  table += lane;
  for (; row < many; row += gridDim.x * blockDim.y) {
    float s = 0, most = 0;
    for (int e = first[row]; e < first[row + 1]; e++) {
      const int some = __ldg(&next[e]);
      const float v = __ldg(table + some * many);
      s += weight[e] * v;
      most = fmaxf(most, v);
    }
    out[row * 32 + lane] = s + most;
  }
}"""


def test_rows_by_threads_along_y_whose_end_is_loaded_in_each_round() -> None:
    _, new, played = found(STRIDED, (32, 4))
    assert "int e = first[row], stop_n = first[row + 1];" in new and "e + 32 + lane_n < stop_n" in new
    assert played > 100 and "int some = __shfl_sync(~0u, next_of_now, first_n + round_n);" in new


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("s += weight", "if (v > 3) s += weight"),  # slower, if anything
        ("s += weight", "next += 1; s += weight"),
        ("s += weight", "atomicAdd(&out[row], s); s += weight"),
        ("for (int e = first[row];", "if (weight[row + lane] > 0) for (int e = first[row];"),  # lanes part
    ],
)
def test_rounds_that_do_more_stay(was: str, now: str) -> None:
    assert was in STRIDED
    assert found(STRIDED.replace(was, now), (32, 4))[2] == 0


def test_lists_behind_pointers_of_their_own() -> None:
    made = "    const int* mine = next + from; const float* by = weight + from;\n    int there;\n"
    text = ROWS.replace("    int there;\n", made)
    text = text.replace("int e = from; e < to", "int e = 0; e < to - from").replace("__ldg(next + e)", "mine[e]")
    text = text.replace("one_or<float>(weight, e)", "by[e]")
    _, new, played = found(text)
    assert played > 200
    assert "next_of_next = next[from + (e + 32 + lane_n)]; weight_of_next = weight[from + (e + 32 + lane_n)];" in new
    assert found(text.replace("s += by", "mine++; s += by"))[2] == 0
    assert "weight_of_next" not in found(text.replace("by[e]", "by[e + lane]"))[1]


def test_a_load_through_an_address_ends_with_its_bracket() -> None:
    assert "const int some = next[e];" in plain(STRIDED).kernel.text.code


@pytest.mark.parametrize(
    "body",
    [
        "  if (base != nullptr) return base[at + 1];\n  else return static_cast<T>(1);",
        "  if (base != nullptr) return base[at] * threadIdx.x;\n  else return static_cast<T>(1);",
        "  base[at] = 1; return base[at];",
    ],
)
def test_a_function_that_does_more_than_load(body: str) -> None:
    file = f"template <class T> __device__ T one_or(const T* base, int at) {{\n{body}\n}}\n"
    assert "one_or<float>(weight, e)" in plain(ROWS, file).kernel.text.code
