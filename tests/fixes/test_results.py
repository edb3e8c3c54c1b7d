"""Several results of neighbouring windows a thread: which kernels, and that results are the same."""

from __future__ import annotations

import re

import numpy as np
import pytest

from kscope.fixes.atomics.reading import Kernel, read
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.text import Text
from kscope.fixes.left import left
from kscope.fixes.thread.halves import halves, window
from kscope.fixes.thread.linear import linear
from kscope.fixes.thread.results import LOADS, _each, scaled, written
from kscope.model.contract.fixes import Fix
from tests.support.with_sources import changes
from tools.fixes_pairs import setting

BLOCK = 64
KINDS = {"x": "float", "y": "float", "w": "float"}
STENCIL = """__global__ void k(const float* x, float* __restrict__ y, const float* w, int n) {
  __shared__ float tile[BLOCK + 2 * RADIUS];
  int g = threadIdx.x + blockIdx.x * blockDim.x, l = threadIdx.x + RADIUS;
  tile[l] = g < n ? x[g] : 0;
  if (threadIdx.x < RADIUS) {
    tile[l - RADIUS] = g >= RADIUS && g - RADIUS < n ? x[g - RADIUS] : 0;
    tile[l + BLOCK] = g + BLOCK < n ? x[g + BLOCK] : 0;
  }
  __syncthreads();
  float sum = 0;
  for (int o = -RADIUS; o <= RADIUS; o++) sum += tile[l + o] * w[o + RADIUS];
  if (g < n) y[g] = sum;
}"""
PLAIN = """__global__ void k(const float* x, float* y) {
  __shared__ float s[64 + 8]; int t = threadIdx.x; size_t at = (size_t)blockIdx.x * 64;
  for (int e = t; e < 64 + 8; e += 64) s[e] = x[at + e];
  __syncthreads();
  float most = 0;
#pragma unroll
  for (int k = 0; k < 9; k++) most = fmaxf(most, s[t + k]);
  y[at + t] = most;
}"""
KNOWN = {"BLOCK": 64, "RADIUS": 5, "blockDim.x": BLOCK}


def kernel(code: str) -> Kernel:
    found = read(Text("f.cu", 1, code), "k", code.split("\n"))
    assert found is not None
    return found


def several(code: str) -> str | None:
    """A kernel's body with several results a thread."""
    it = kernel(code)
    one = halves(scaled(it.body, BLOCK, {n: v for n, v in KNOWN.items() if n != "blockDim.x"}), it.parameters, KNOWN)
    seen = window(one) if one is not None else None
    return written(one, seen, BLOCK, set(re.findall(r"\w+", code))) if one is not None and seen is not None else None


def made(body: str, blocks: int, n: int) -> np.ndarray:
    draw = np.random.default_rng(3)
    memory = {"x": draw.integers(1, 1000, 2048), "w": draw.integers(1, 9, 16), "y": np.zeros(2048, dtype=np.int64)}
    numbers = {"BLOCK": 64, "RADIUS": 5, "n": n}
    play("{" + body + "}", (blocks, 1), (BLOCK, 1), memory, numbers, Rules(races=True, kinds=KINDS))
    return memory["y"]


def test_the_measured_one() -> None:
    """1.79x in window.eight, which makes eight."""
    (fix,) = [f for f in changes("window.one", "MEM112") if f.kind == "register"]
    assert isinstance(fix, Fix) and fix.parameters == {"results": 4, "grid.x": 16384}
    assert fix.code.startswith("window_one<<<16384, 256>>>(...);")
    text = fix.edits[0].becomes
    assert "__shared__ __align__(16) float s[1024 + 24];" in text and "float s_of[28];" in text
    assert "sum += s_of[part + k];" in text and "make_float4(y_of[0], y_of[1], y_of[2], y_of[3])" in text
    assert fix.proof[0].what == LOADS and fix.proof[0].after == fix.proof[0].before * 7 / (4 * 25)
    assert any(c.by == "values" and c.ran >= 1024 for c in fix.conditions)
    assert not [f for f in changes("window.eight", "MEM112") if f.kind == "register"]
    slow, fast = setting("window.one"), setting("window.eight")
    assert slow is not None and fast is not None
    what = "loads of shared memory narrower than 16 bytes"
    assert left("register", slow, "MEM112") == (what, 25) and left("register", fast, "MEM112") == (what, 0)
    assert left("register", fast, "MEM114") != left("register", fast, "MEM112")


@pytest.mark.parametrize("n", [1024, 1000, 37])
def test_results_are_the_same(n: int) -> None:
    """With a guard and without one; loops that fill the tile, and threads that have an element each."""
    body = several(STENCIL)
    assert body is not None and "if (all) {" in body and "tile_of[part + o + 5]" in body
    assert np.array_equal(made(kernel(STENCIL).body, 16, n), made(body, 4, n))
    plain = several(PLAIN)
    assert plain is not None and "if (all)" not in plain
    assert np.array_equal(made(kernel(PLAIN).body, 16, n), made(plain, 4, n))


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("s[t + k]", "s[t + t + k]"),  # neighbours' windows lie apart
        ("s[t + k]", "s[t - k + 8 + at]"),  # where it begins is not in the text
        ("k < 9", "k < (int)x[0]"),
        ("y[at + t] = most;", "y[at + t] = most; __syncthreads(); s[t] = 0;"),
        ("y[at + t] = most;", "y[at + t] += most;"),
        ("float most = 0;", "float most = 0; s[t] = 1;"),
        ("float most = 0;", "float most = __shfl_down_sync(~0u, s[t], 1);"),
        ("int t = threadIdx.x;", "int t = threadIdx.x; if (t > 60) return;"),
        ("int t = threadIdx.x;", "int t = threadIdx.x; t = 63 - t;"),
        ("for (int k = 0; k < 9; k++) most", "for (int k = 0; k < 9; k++) if (most < 5) break; else most"),
        ("#pragma unroll\n", "#pragma unroll 2\n"),
        ("__shared__ float s", "__shared__ double s"),
        ("float most = 0;", "float most = s_of;"),
    ],
)  # fmt: skip
def test_kernels_that_stay(was: str, becomes: str) -> None:
    assert was in PLAIN
    assert several(PLAIN.replace(was, becomes)) is None


def test_what_text_alone_does_not_show_is_played() -> None:
    """A number that is the block's by chance, and threads that share what they store."""
    for was, becomes in (("most = fmaxf", "most = 64 + fmaxf"), ("y[at + t]", "y[at + t / 2]")):
        code = PLAIN.replace(was, becomes)
        body = several(code)
        if body is not None:
            try:
                assert not np.array_equal(made(kernel(code).body, 16, 0), made(body, 4, 0))
            except Unplayable:
                continue


def test_sums_of_names() -> None:
    known = {"N": 8, "l": {"t": 1, "": 5}}
    assert linear("l + k - 2 * N", known) == {"t": 1, "k": 1, "": -11}
    assert linear("(size_t)t * 4", known) == {"t": 4}
    assert linear("t / 2", known) is None and linear("f(t)", known) is None and linear("t * k", known) is None


def test_loads_of_16_bytes_and_the_rest() -> None:
    it = kernel(PLAIN)
    one = halves(scaled(it.body, BLOCK, {}), it.parameters, KNOWN)
    assert one is not None
    seen = window(one)
    assert seen is not None and (seen.first, seen.last) == (0, 8) and _each(seen) == 3
