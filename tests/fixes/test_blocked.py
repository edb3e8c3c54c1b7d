"""Elements at a stride in unrolled loops: which loops may take neighbours instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.fixes.memory import blocked

CODE = """__global__ void f(const __half* __restrict__ x, const __half* g, unsigned char* y, int n) {
  int t = threadIdx.x, base = blockIdx.x * 2048; float v[8], s = 0;
  #pragma unroll
  for (int k = 0; k < 8; k++) { v[k] = __half2float(x[base + k * 256 + t]); s += v[k]; }
  #pragma unroll
  for (int k = 0; k < N; k++) { int c = k * 256 + t; y[base + c] = (int)(v[k] * s * __half2float(g[c])); }
}"""
SECOND = "  #pragma unroll\n  for (int k = 0; k < N"


def test_loops_at_one_stride() -> None:
    one = blocked.strided(CODE, 256, {"N": 8})
    assert one is not None and (one.count, one.stride, one.t) == (8, 256, "t")
    assert one.arrays == {"x": "__half", "y": "unsigned char", "g": "__half"}
    assert [(name, pre, written) for _, uses, _ in one.uses for name, _, pre, written, _ in uses] == [
        ("x", "base", False), ("y", "base", True), ("g", "", False),
    ]  # fmt: skip


def test_sums_over_all_of_a_thread_are_left_as_they_are() -> None:
    more = CODE.replace(SECOND, f"  for (int k = 0; k < 8; k++) s += v[k] * s;\n{SECOND}")
    assert blocked.strided(more, 256, {"N": 8}) is not None


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("k * 256 + t]", "k * 128 + t]"),  # threads would share elements
        ("k * 256 + t]", "k * 256 + t + k]"),
        ("  #pragma unroll\n  for (int k = 0; k < 8", "  for (int k = 0; k < 8"),  # arrays of registers need numbers
        ("int k = 0; k < N", "int k = 1; k < N"),
        ("k < N", "k < n"),
        ("k < N", "k < 4"),  # v holds others then
        ("s += v[k];", "s += v[k] * k;"),  # the element's number counts
        ("s += v[k];", "s += v[k] * t;"),
        ("s += v[k];", "s += v[k + 1];"),
        ("s += v[k];", "if (s < 0) s += v[k];"),
        ("float v[8], s = 0;", "float v[8], s = y[t];"),
        ("y[base + c] =", "y[base + c] +="),
        ("y[base + c] =", "if (c) y[base + c] ="),
        ("g[c])", "g[t])"),
        (SECOND, f"  for (int k = 0; k < 8; k++) o[k * 256 + t] = v[k];\n{SECOND}"),  # elsewhere, by the same places
        (SECOND, f"  for (int k = 0; k < 4; k++) s += v[k];\n{SECOND}"),
        (SECOND, f"  for (int k = 0; k < 8; k++) s += __shfl_sync(~0u, v[k], 0);\n{SECOND}"),
        (SECOND, f"  s += v[3];\n{SECOND}"),
    ],
)
def test_other_loops_are_left_alone(was: str, becomes: str) -> None:
    assert blocked.strided(CODE.replace(was, becomes, 1), 256, {"N": 8}) is None


@given(st.integers(1, 4), st.sampled_from([32, 64, 256]), st.sampled_from([2, 4, 8]))
def test_both_orders_are_the_same_elements(rounds: int, stride: int, group: int) -> None:
    assert blocked.places_kept(rounds * group, stride, group) == rounds * group * stride
    assert blocked.places_kept(rounds * group + 1, stride, group) == 0
