"""Rounds of sums that threads add by atomics, shared out to several blocks: which texts may, which may not."""

from __future__ import annotations

import pytest

from kscope.fixes.atomics.reading import read
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import Text
from kscope.fixes.tiling import added
from kscope.fixes.tiling.summed import Sums
from kscope.fixes.tiling.summed import summed as read_sums
from kscope.model.kernel import Launch
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

TILES = """__global__ void tiles(const float2* __restrict__ p, int* out, int m) {
  __shared__ float2 tile[64];
  int i = blockIdx.x * 64 + threadIdx.x, found = 0; float2 a = p[i];
  for (int first = blockIdx.x * 64; first < m; first += 64) {
    tile[threadIdx.x] = p[first + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 64; k++) { if (first + k > i) found += near(a, tile[k]); }
    __syncthreads();
  }
  out[i] = found;
}"""


def summed(code: str, *above: str) -> Sums | None:
    lines = [*(above or (NEAR,)), *code.split("\n")]
    name = code[code.index("void ") + 5 : code.index("(")]
    kernel = read(Text("k.cu", len(lines) - code.count("\n"), code), name, lines)
    return read_sums(kernel) if kernel is not None else None


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
    assert two is not None and list(two.sums) == ["sx", "sy"] and not two.exact  # their order is the reader's
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
        ("atomicAdd(&out[row], found)", "out[row] += found"),
        ("atomicAdd(&out[row], found)", "out[row] = 2 * found"),
        ("atomicAdd(&out[row], found)", "if (found) out[row] = found"),
        ("atomicAdd(&out[row], found)", "row = found"),
        ("atomicAdd(&out[row], found)", "atomicMax(&out[row], found)"),
        ("atomicAdd(&out[row], found)", "atomicAdd(&out[row], 2 + found)"),
        ("atomicAdd(&out[row], found)", "atomicAdd(&out[found], found)"),
        ("atomicAdd(&out[row], found)", "if (found > 3) atomicAdd(&out[row], found)"),
        ("atomicAdd(&out[row], found);", "atomicAdd(&out[row], found); atomicAdd(&out[m], 1);"),
        ("float2 a = p[row];", "float2 a = p[row]; atomicAdd(&out[m], 1);"),
        ("float2 a = p[row];", "float2 a = p[row + blockIdx.y];"),
        ("float2 a = p[row];", "float2 a = p[row]; if (a.x > 0) { a.x = 0; }"),
        ("c = row + 1", "c = found"),
        ("c = row + 1", "c = row++"),
        ("c < m", "c < m && p[c].x > 0"),  # each part would come to an end of its own
        ("&out[row]", "&out[row * gridDim.y]"),
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
    assert added._parts(blocks, slots, rounds, added.LEAST) == parts


def same(code: str) -> int:
    one, lines = summed(code), [NEAR, *code.split("\n")]
    kernel = read(Text("k.cu", 2, code), "tiles", lines)
    launch = Launch(grid=(64, 1, 1), block=(64, 1, 1), cluster=(1, 1, 1), registers=32, shared_static=512,
                    shared_dynamic=0, waves=1.0, known=True, carved=0)  # fmt: skip
    setting = Setting(code=None, lines=lambda _: lines, name="tiles", launch=launch)  # type: ignore[arg-type]
    return added._same(kernel, setting, one, added._spans(one, "y")) if one is not None and kernel is not None else -1


def test_rounds_of_tiles_come_to_the_same() -> None:
    one = summed(TILES)
    assert one is not None and one.shared and one.sums["found"].at == "i"
    head, store = added._spans(one, "y")
    assert head[2] == "for (int first = blockIdx.x * 64 + blockIdx.y * 64; first < m; first += gridDim.y * 64)"
    assert store[2] == "atomicAdd(&out[i], found);" and TILES[store[0] : store[1]] == "out[i] = found;"
    assert same(TILES) == (2 + 3) * 64
    assert same(TILES.replace("out[i] = found;", "if (i < m) { out[i] = found; }")) > 0


@pytest.mark.parametrize(
    ("was", "becomes", "found"),
    [
        ("first = blockIdx.x * 64;", "first = threadIdx.x;", -1),  # not the same rounds for a block
        ("    tile[threadIdx.x] = p", "    if (first == blockIdx.x * 64) tile[threadIdx.x] = p", 0),  # another round's
        ("    __syncthreads();\n  }", "  }", 0),  # a race
        ("float2 a = p[i];", "float2 a = p[i]; if (i >= m) return;", -1),
        ("float2 a = p[i];", "float2 a = p[i]; tile[0] = a;", 0),
        ("found += near", "found += first / 64 * 2 > 0 ? 1 : near", 320),
    ],
)
def test_rounds_of_tiles_that_are_left(was: str, becomes: str, found: int) -> None:
    assert was in TILES
    assert same(TILES.replace(was, becomes)) == found
