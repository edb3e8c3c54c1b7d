"""Rounds of sums that threads add by atomics, shared out to several blocks: which texts may, which may not."""

from __future__ import annotations

import pytest

from kscope.fixes.atomics.reading import read
from kscope.fixes.given.text import Text
from kscope.fixes.tiling import added
from tests.support.with_sources import changes

NEAR = "__device__ inline int near(float2 a, float2 b) { float d = a.x - b.x; return d * d < 0.1f; }"
PAIRS = """__global__ void pairs(const float2* __restrict__ p, int* out, int m) {
  int row = blockIdx.x * blockDim.x + threadIdx.x, found = 0;
  if (row >= m) return;
  float2 a = p[row];
  #pragma unroll 4
  for (int c = row + 1; c < m; c++) { const float2 b = p[c]; if (near(a, b)) found++; }
  atomicAdd(&out[row], found);
}"""
FORCES = """__global__ void forces(const float4* x, float* fx, float* fy, size_t m) {
  float sx = 0.f, sy = 0.f;
  size_t i = blockIdx.x; float4 a = x[i];
  for (size_t j = threadIdx.x; j < m; j += blockDim.x) {
    float4 b = x[j]; float d = fmaxf(b.z - a.z, 1e-3f), w = b.w / (d * d);
    if (d < 4.f) continue;
    sx += w * b.x; sy -= w * b.y;
  }
  atomicAdd(fx + i, sx);
  if (sy != 0) atomicAdd(fy + i, sy);
}"""


def summed(code: str, *above: str) -> added.Sums | None:
    lines = [*(above or (NEAR,)), *code.split("\n")]
    name = code[code.index("void ") + 5 : code.index("(")]
    kernel = read(Text("k.cu", len(lines) - code.count("\n"), code), name, lines)
    return added.summed(kernel) if kernel is not None else None


def test_rows_of_pairs_are_shared_out_to_more_blocks() -> None:
    (fix,) = changes("pairs.rows", "GRD403")
    (edit,) = fix.edits
    head = "  for (int j = blockIdx.x * 128 + blockIdx.y; j < TN; j += gridDim.y) n += near(a, p[j]) & (j > i);"
    assert edit.becomes == head and fix.code == "pairs_rows<<<dim3(264, 32), 128>>>(...);"
    assert (fix.proof[1].before, fix.proof[1].after) == (264 * 4, 132 * 12 * 4)
    assert [c.holds for c in fix.conditions if c.state == "check"] == ["none of those arrays overlap"]
    assert changes("pairs.rows", "GRD401") == [fix]
    assert not [f for f in changes("pairs.mirrored", "GRD401") if f.kind == "lane_mapping"]


def test_counts_and_sums_of_other_texts() -> None:
    one, two = summed(PAIRS), summed(FORCES)
    assert one is not None and one.exact
    assert added._span(one, "z")[2] == "for (int c = row + 1 + blockIdx.z; c < m; c += gridDim.z)"
    assert two is not None and two.sums == ("sx", "sy") and not two.exact  # the order of floats' sums is the reader's
    assert added._span(two, "y")[2] == (
        "for (size_t j = threadIdx.x + (size_t)blockIdx.y * blockDim.x; j < m; j += gridDim.y * blockDim.x)"
    )


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("found++", "{ found++; if (found > 9) break; }"),  # what comes behind depends on what came before
        ("found++", "found += found + 1"),
        ("found++", "found = 1"),
        ("found++", "{ found++; a = b; }"),
        ("found++", "{ found++; out[c] = 1; }"),
        ("found++", "{ found++; m--; }"),
        ("found++", "{ if (c) b.x = 1; else a = b; found++; }"),
        ("found++", "{ found++; return; }"),
        ("near(a, b)", "near(a, found)"),
        ("near(a, b)", "near(a, __shfl_sync(~0u, b, 0))"),
        ("near(a, b)", "next(a, b)"),  # a function that is not here
        ("near(a, b)", "near(&a, b)"),
        ("found = 0", "found = 1"),
        ("found = 0", "found"),
        ("atomicAdd(&out[row], found)", "out[row] = found"),
        ("atomicAdd(&out[row], found)", "atomicMax(&out[row], found)"),
        ("atomicAdd(&out[row], found)", "atomicAdd(&out[row], 2 + found)"),
        ("atomicAdd(&out[row], found)", "atomicAdd(&out[found], found)"),
        ("atomicAdd(&out[row], found)", "if (found > 3) atomicAdd(&out[row], found)"),
        ("atomicAdd(&out[row], found);", "atomicAdd(&out[row], found); atomicAdd(&out[m], 1);"),
        ("float2 a = p[row];", "float2 a = p[row]; atomicAdd(&out[m], 1);"),
        ("float2 a = p[row];", "float2 a = p[row + blockIdx.y];"),
        ("float2 a = p[row];", "float2 a = p[row]; if (a.x > 0) { a.x = 0; }"),
        ("c = row + 1", "c = found"),
    ],
)
def test_texts_that_are_left(was: str, becomes: str) -> None:
    assert was in PAIRS
    assert summed(PAIRS.replace(was, becomes)) is None


@pytest.mark.parametrize(
    "near",
    [
        NEAR.replace("float2 b)", "float2& b)"),
        NEAR.replace("float2 b)", "float2 b, int* state)"),
        NEAR.replace("float d = ", "atomicAdd(&seen, 1); float d = "),
        NEAR.replace("float d = ", "float d = blockIdx.y + "),
        NEAR.replace("float d = ", "float d = other(a) + "),
    ],
)
def test_functions_that_do_more_than_give_a_value(near: str) -> None:
    assert summed(PAIRS, NEAR) is not None and summed(PAIRS, near) is None


def test_each_round_is_done_once() -> None:
    assert added._played(32) > 100


@pytest.mark.parametrize(
    ("blocks", "slots", "rounds", "parts"),
    [(264, 1584, 2112, 32), (264, 1584, 70, 8), (264, 1584, 9, 1), (10000, 1584, 2112, 1), (1000, 1584, 2112, 8)],
)
def test_as_many_parts_as_even_out(blocks: int, slots: int, rounds: float, parts: int) -> None:
    assert added._parts(blocks, slots, rounds) == parts
