"""A ring for a tile that is an address: which rounds, and between which bytes its addresses lie."""

from __future__ import annotations

import pytest

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.text import loops
from kscope.fixes.pipeline.addressed import Addressed, addressed
from kscope.fixes.pipeline.inlined import numbered
from kscope.fixes.pipeline.ranges import Ranges
from tests.support.with_sources import changes

AROUND = """__device__ inline unsigned place_of(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
template <int N> __device__ inline void arrived() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
__device__ inline void piece(unsigned (&r)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory"); }
"""
CODE = """__global__ void f(const half* __restrict__ x, const half* __restrict__ w, float* y, int n) {
  __shared__ __align__(128) char pool[4096 + 4096];
  const int t = threadIdx.x, lane = t % 32; unsigned fixed = place_of(pool), tile = fixed + 4096; float s = 0;
  auto at = [](int row, int c) { return row * 128 + (c ^ (row & 7)) * 16; };
  auto put = [&](unsigned to, const half* from) {
    #pragma unroll
    for (int i = 0; i < 4; i++) {
      const int e = i * 64 + t;
      uint4 v = ((const uint4*)from)[e];
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" :: "r"(to + at(e / 8, e % 8)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
    }
  };
  for (int k = 0; k < n; k++) {
    unsigned mine = tile + 0;
    put(mine, x + k * 2048); arrived<0>();
    __syncthreads();
    for (int d = 0; d < 4; d++) {
      unsigned a[4], b[4]; piece(a, fixed + at(lane, d * 2)); piece(b, mine + at(lane % 16 + d / 2 * 16, d * 2 + lane / 16 % 2));
      s += a[0] * b[0];
    }
    __syncthreads();
  }
  y[t] = s;
}"""  # noqa: E501


def found(code: str, around: str = AROUND, block: int = 64) -> Addressed | None:
    ranges = Ranges(code, (block, 1, 1), (32, 1, 1), {}, numbered(around))
    every = [addressed(code, loop, around, ranges) for loop in loops(code)]
    return next((one for one in every if one is not None), None)


def test_a_capture_whose_tiles_come_through_registers() -> None:
    (fix,) = [f for f in changes("mha_copy.registers", "LAT307") if f.kind == "stages"]
    assert fix.parameters == {"slots": 3, "shared_dynamic": 2 * 16384}
    (was, text), (end, closed) = [(e.was, e.becomes) for e in fix.edits]
    assert closed == end + " }"
    assert text.startswith("  if constexpr (SWZ == 1 && ASYNC == 0) {") and text.endswith("\n  else { " + was.strip())
    assert "const unsigned skv = slot ? more_first + slot * 16384 - 16384 : skv_first; unsigned sk = skv + " in text
    assert "copy_ahead_at((unsigned)sk + at(e / 8, e % 8), w);" in text and "copy_wait" not in text
    assert "if (tile + 2 * 1 < HN / 64) fetch(tile + 2 * 1, (slot + 2) % 3);" in text
    assert (fix.proof[0].before, fix.proof[0].after) == (8, 0) and fix.price is not None
    assert [c.state for c in fix.conditions].count("check") == 2


def test_a_tile_of_other_names() -> None:
    one = found(CODE)
    assert one is not None and (one.root, one.names, one.low, one.high) == ("tile", ("tile", "mine"), 4096, 8192)
    assert one.addresses == "unsigned mine = tile + 0;"
    assert "copy_ahead_at((unsigned)mine + at(e / 8, e % 8), v);" in one.copy and "arrived" not in one.copy


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("fixed + at(lane, d * 2)", "fixed + 4096 + at(lane, d * 2)"),  # another way to the tile
        ("fixed + at(lane, d * 2)", "fixed + at(n, d * 2)"),  # nobody knows where
        ("fixed + at(lane, d * 2)", "fixed + at(lane + d * 16, d * 2)"),  # its last rows
        ("piece(a, fixed", "other(a, fixed"),
        ("s += a[0] * b[0];", "s += a[0] * b[0]; mine += 16;"),
        ("s += a[0] * b[0];", "s += a[0] * b[0] + tile;"),
        ("y[t] = s;", "y[t] = s + tile;"),
        ("(v.x), \"r\"(v.y)", "(v.y), \"r\"(v.x)"),
        ("\"r\"(v.w)", "\"r\"(v.w + 1)"),
        ("to + at(e / 8, e % 8)", "to + at(e / 8, e % 8) + (k & 1) * 16"),
        ("unsigned mine = tile + 0;", "unsigned mine = next(tile);"),
        ("arrived<0>();", "other();"),
        ("arrived<0>();", "asm volatile(\"cp.async.commit_group;\");"),
        ("uint4 v = ((const uint4*)from)[e];", "uint4 v = ((const uint4*)from)[e]; v.x ^= 1;"),
        ("__syncthreads();\n    for", "for"),
        ("auto at = [](int row, int c) { return", "int z = 0; auto at = [&](int row, int c) { return z++ +"),
    ],
)
def test_rounds_that_are_left(was: str, becomes: str) -> None:
    assert was in CODE
    assert found(CODE.replace(was, becomes)) is None


def test_a_function_that_also_stores_is_no_load() -> None:
    stores = AROUND.replace('"ldmatrix.sync', '"st.shared.b32 [%4], %0; ldmatrix.sync')
    assert found(CODE, AROUND) is not None and found(CODE, stores) is None


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("lane * 4 + 3", 3, 127),
        ("t / 32 * 8", 0, 8),
        ("(t ^ 5) & 3", 0, 3),
        ("at(lane, 7)", 0, 31 * 128 + 7 * 16),
        ("1 ? 5 : t", 5, 5),
        ("t < 64 ? 1 : 2", 1, 1),
        ("t < 9 ? 1 : 2", 1, 2),
        ("(blockIdx.x << 2) % 7", 0, 6),
        ("blockDim.x - t", 1, 64),
    ],
)
def test_between_which_numbers_an_expression_lies(text: str, low: int, high: int) -> None:
    assert Ranges(CODE, (64, 1, 1), (32, 1, 1), {}, set()).of(text, CODE.index("y[t]")) == (low, high)


@pytest.mark.parametrize("text", ["n", "t - 5 & 3", "x[t]", "t / (t % 2)", "s + 1", "unknown", "1 << t"])
def test_expressions_that_nobody_knows(text: str) -> None:
    with pytest.raises(Unplayable):
        Ranges(CODE, (64, 1, 1), (32, 1, 1), {}, set()).of(text, CODE.index("y[t]"))
