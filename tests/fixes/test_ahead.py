"""Two slots of a tile: which loops copy, wait, use and wait."""

from __future__ import annotations

import pytest

from kscope.fixes.given import text
from kscope.fixes.work import ahead

CODE = """__global__ void f(const float* __restrict__ x, float* y, int n) {
  __shared__ float a[64], b[2][32]; int t = threadIdx.x; float s = 0;
  for (int k = 0; k < n; k += 64) {
    #pragma unroll
    for (int e = t; e < 64; e += 32) a[e] = x[k + e];
    if (t < 2) { int q = t * 2; b[q][t] = x[k * 2 + t]; }
    __syncthreads();
    for (int e = 0; e < 64; e++) s += a[e] * b[0][e & 31];
    __syncthreads();
  }
  y[t] = s;
}"""


def test_a_round_that_copies_waits_and_uses() -> None:
    first = text.loops(CODE)[0]
    one = ahead._round(CODE, first)
    assert one is not None and one.arrays == ("a", "b") and one.sources == ("x",)
    turned = CODE.replace("    __syncthreads();\n  }", "  }").replace("k += 64) {", "k += 64) { __syncthreads();")
    one = ahead._round(turned, text.loops(turned)[0])
    assert one is not None and "s += a[e]" in one.use
    assert ahead._played() > 0


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("a[e] = x[k + e]", "a[e] = 2 * x[k + e]"),  # no copy
        ("a[e] = x[k + e]", "a[e] = x[k + e]; s++"),
        ("float a[64]", "half a[64]"),  # converts
        ("float a[64]", "double a[64]"),
        ("const float*", "const short*"),
        ("if (t < 2)", "if (k < 2)"),  # kept from round to round
        ("s += a[e]", "a[e] = s, s += a[e]"),
        ("s += a[e] * b[0][e & 31];", "{ s += a[e]; x++; }"),
        ("s += a[e] * b[0][e & 31];", "{ s += a[e]; t = e; }"),
        ("s += a[e] * b[0][e & 31];", "{ s += a[e]; if (s > 9) break; }"),
        ("s += a[e] * b[0][e & 31];", "{ s += a[e]; __syncthreads(); }"),
        ("y[t] = s", "y[t] = s + a[0]"),  # used behind the loop
        ("k += 64", "k *= 2"),
        ("  for (int k", "  #pragma unroll 1\n  for (int k"),
    ],
)
def test_other_rounds_are_left_alone(was: str, becomes: str) -> None:
    code = CODE.replace(was, becomes, 1)
    assert all(ahead._round(code, one) is None for one in text.loops(code))
