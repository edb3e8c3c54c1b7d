"""Blocks whose loops run side by side: the old and the new text, compiled for the host and run thread by thread, give
the same; texts that count, shift, add up and call in the rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscope.fixes.compute.coarser import coarse, written
from tests.support.on_host import wrong

ABOVE = """
__device__ void add(float& to, float v) { to += v; }
__device__ void count(int& to) { ++to; }
__device__ float least(float u, float v) { return u < v ? u : v; }
"""
HEAD = """__global__ void k(const float* a, const float* b, float* out, int n, int m) {
  int i = blockIdx.x * 16 + threadIdx.x; float s = 0; int c = 1;
  for (int k = 0; k < n; k++) {
    float u = a[k + threadIdx.x], v = b[k + blockIdx.x * 3];
"""
TAIL = "\n  }\n  out[i] = s + c;\n}"
ROUNDS = [
    "s += u * v;", "s += u * v; ++c;", "s += u - v; --c;", "s += v; c <<= 1; c &= 255;", "s += v; c >>= 1; c += k;",
    "s += v; c++;", "add(s, u * v);", "s += v; count(c);", "s = least(s, u * v);", "add(s, v); c = c * 3 % 101;",
    "float w = u + k; s += w * v; c ^= k;", "s -= u; s *= 0.5f; s += v;",
]  # fmt: skip
ENDS = [
    "out[i] = s + c;", "out[i] += s; c += 2; out[i] *= c;", "if (s > c) out[i] = s; else out[i] = c;",
    "for (int j = 0; j < 3; j++) s += out[i] * j; out[i] = s;", "++c; add(s, c); out[i] = s;",
]  # fmt: skip


def test_blocks_side_by_side_compute_the_same(tmp_path: Path) -> None:
    texts = [HEAD + one + TAIL for one in ROUNDS]
    texts += [HEAD + ROUNDS[0] + TAIL.replace("out[i] = s + c;", one) for one in ENDS]
    pairs = []
    for code in texts:
        one = coarse(code, ABOVE)
        assert one is not None, code
        pairs.append((code, code[: one.span[0]] + written(code, one, 4)))
    assert wrong(tmp_path, pairs, name="k", call="a, b, out, n, m", above=ABOVE, blocks=(40, 10)) == [0] * len(pairs)


@pytest.mark.parametrize(
    "round_",
    [
        "s += v; two(s, c, n);",  # it may change all of them, the number of rounds too
        "s += u * v; n--;",
        "s += u * v; CLEAR(s)",
    ],
)
def test_what_may_be_changed_elsewhere(round_: str) -> None:
    assert coarse(HEAD + round_ + TAIL, f"{ABOVE}\n#define CLEAR(x) x = m;") is None
