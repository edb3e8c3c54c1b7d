"""Copies that call what fills their tiles, addresses of tiles as numbers: what is written out in a ring's rounds."""

from __future__ import annotations

import pytest

from kscope.fixes.given.text import loops
from kscope.fixes.pipeline.rounds import Round, live, read, tiles

LAMBDA = """__global__ void f(const float* __restrict__ x, float* y, int n) {
  __shared__ float a[64]; int t = threadIdx.x; float s = 0;
  auto bring = [&](int first) { for (int e = t; e < 64; e += 32) a[e] = x[first + e]; };
  for (int k = 0; k < n; k += 64) {
    bring(k + 0);
    __syncthreads();
    for (int e = 0; e < 64; e++) s += a[e];
    __syncthreads();
  }
  y[t] = s;
}"""
GIVEN = (
    LAMBDA.replace("int first)", "float* to, const float* from)").replace("a[e] = x[first + e]", "to[e] = from[e]")
    .replace("bring(k + 0)", "bring(a, x + k)")
)  # fmt: skip
FUNCTION = """__device__ inline void bring(float* to, const float* from, int count) {
  for (int e = threadIdx.x; e < count; e += blockDim.x) to[e] = from[e];
}
"""
CALLS = GIVEN.replace(GIVEN[GIVEN.index("  auto") : GIVEN.index("  for (int k")], "").replace("x + k)", "x + k, 64)")
FRAGMENTS = """__global__ void g(const half* __restrict__ x, float* y, int n) {
  __shared__ __align__(128) half a[64][72]; int t = threadIdx.x; float s = 0;
  const unsigned row = (unsigned)__cvta_generic_to_shared(&a[t % 16][t / 16 * 8]);
  for (int k = 0; k < n; k += 64) {
    for (int e = t; e < 512; e += 32) *(uint4*)&a[e / 8][e % 8 * 8] = *(const uint4*)&x[(k + e / 8) * 64 + e % 8 * 8];
    __syncthreads();
    for (int i = 0; i < 4; i++) {
      unsigned r[4]; fragment(r, row + i * 2304); fragment(r, at_shared(&a[i][0]));
      s += r[0];
    }
    __syncthreads();
  }
  y[t] = s;
}"""
AROUND = """__device__ inline uint32_t at_shared(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ inline void fragment(unsigned (&r)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]) : "r"(at));
}
"""


def round_of(code: str, around: str = "") -> Round | None:
    way = live(code, {})
    found = [read(way, one, tiles(way, {}, 0), around + code, {}) for one in loops(way)]
    return next((one for one in found if one is not None), None)


def gone(code: str, one: Round) -> list[str]:
    return [code[a:b] for a, b in one.gone]


def test_a_lambda_that_copies_is_written_out() -> None:
    one = round_of(LAMBDA)
    assert one is not None and "copy_ahead(&a[e], &x[(int)(k + 0) + e]);" in one.copy
    assert gone(LAMBDA, one) == [LAMBDA[LAMBDA.index("auto bring") : LAMBDA.index("\n  for")]]
    two = round_of(GIVEN)
    assert two is not None and "copy_ahead(&a[e], &(x + k)[e]);" in two.copy


def test_a_function_that_copies_is_written_out_and_stays() -> None:
    one = round_of(CALLS, FUNCTION)
    assert one is not None and "e < 64;" in one.copy and "copy_ahead(&a[e], &(x + k)[e]);" in one.copy
    assert not one.gone


def test_addresses_of_tiles_are_taken_in_each_round() -> None:
    one = round_of(FRAGMENTS, AROUND)
    assert one is not None and [t.name for t in one.tiles] == ["a"]
    address = "const unsigned row = (unsigned)__cvta_generic_to_shared(&a[t % 16][t / 16 * 8]);"
    assert one.use.startswith(address) and gone(FRAGMENTS, one) == [address]


@pytest.mark.parametrize(
    ("code", "was", "becomes"),
    [
        (LAMBDA, "[&](int first)", "[&](int& first)"),
        (LAMBDA, "a[e] = x[first + e]; }", "a[e] = x[first + e]; t++; }"),
        (LAMBDA, "a[e] = x[first + e]; }", "a[e] = x[first + e]; first++; }"),
        (LAMBDA, "a[e] = x[first + e]; }", "a[e] = x[first + e]; if (s > 0) return; }"),
        (LAMBDA, "x[first + e]", "x[first + e] * 2"),
        (LAMBDA, "x[first + e]", "x[first + m]"),  # which the round declares anew
        (LAMBDA, "bring(k + 0);", "bring(k++);"),
        (LAMBDA, "bring(k + 0);", "int e = 3; bring(k + e);"),  # which the lambda declares, too
        (LAMBDA, "for (int k", "bring(0); for (int k"),
        (LAMBDA, "y[t] = s;", "bring(n); y[t] = s + a[t];"),
        (GIVEN, "to[e] = from[e]", "to[e] = from[e]; to = to + 1"),
        (FRAGMENTS, "y[t] = s;", "y[t] = s + row;"),
        (FRAGMENTS, "s += r[0];", "s += r[0]; row++;"),
        (FRAGMENTS, "e % 8 * 8] = *", "e % 8 * 8 + row % 1] = *"),
        (FRAGMENTS, "s += r[0];", "s += r[0]; a[0][0] = s;"),
        (FRAGMENTS, "at_shared(&a", "other(&a"),  # which may store there
        (FRAGMENTS, "(unsigned)__cvta_generic_to_shared(&a[t % 16][t / 16 * 8])", "sum(a)"),
        (FRAGMENTS, "(unsigned)__cvta_generic_to_shared(&a[t % 16][t / 16 * 8])", "(unsigned)a[t][0]"),
    ],
)
def test_copies_that_are_left(code: str, was: str, becomes: str) -> None:
    assert was in code and round_of(code, AROUND) is not None
    text = code.replace(was, becomes)
    if "[first + m]" in becomes:
        text = text.replace("float s = 0;", "float s = 0; int m = 0;").replace("bring(k + 0);", "int m = k; bring(k);")
    assert round_of(text, AROUND) is None


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("e < count", "e < count + n"),  # another n than the kernel's
        ("inline void", "inline int"),
        ("__device__ inline", "template <class T> __device__ inline"),
        ("to[e] = from[e];", "to[e] = from[e]; __syncthreads();"),
    ],
)
def test_functions_that_are_left(was: str, becomes: str) -> None:
    assert was in FUNCTION and round_of(CALLS, FUNCTION) is not None
    assert round_of(CALLS, FUNCTION.replace(was, becomes)) is None


def test_a_lambda_that_keeps_values_is_one_of_names_that_stay() -> None:
    kept = LAMBDA.replace("[&]", "[=, &a]")
    assert round_of(kept) is None
    kept = LAMBDA.replace("[&]", "[=]")
    assert round_of(kept) is not None
    assert round_of(kept.replace("for (int k", "t += 1; for (int k")) is None
