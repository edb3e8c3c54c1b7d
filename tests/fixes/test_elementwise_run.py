"""Elements side by side: the old and the new text, compiled for the host and run thread by thread, give the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.fixes.memory.neighbours import SEVERAL
from kscope.fixes.thread.elementwise import ALIGNED
from tests.fixes.test_elementwise import INDEX, kernel, rewritten

LOOP = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)"
TEXTS = [
    (INDEX, "  if (i < n) out[i] = a[i] + b[i];"),
    (INDEX, "  if (i < n) out[i] = out[i] * a[i];"),
    (INDEX, "  if (i < n) out[i] = fma(out[i], a[i], b[i]);"),
    (INDEX, "  if (i < n) { out[i] = a[i]; out[i] = out[i] + b[i]; }"),
    (INDEX, "  if (i >= n) return;", "  float x = out[i];", "  out[i] = x * b[i] + x;"),
    (INDEX, "  if (i < n) { if (a[i] > 0) out[i] = 4; else out[i] = out[i] - 1; }"),
    (INDEX, "  if (i < n) { if (a[i] > 0) { out[i] = n; } else { out[i] = 2; } }"),
    (LOOP + " out[i] = out[i] / (a[i] + 3);",),
    (LOOP + " out[i] -= a[i];",),
    (LOOP + " { float x = b[i]; out[i] = x > 0 ? x : a[0]; }",),
    (LOOP + " { out[i] = max(out[i], a[i]); }",),
]
ON_THE_HOST = """
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>
using std::max; using std::fma;
#define __global__ static
#define __device__ static
struct Three { unsigned x, y, z; };
static Three threadIdx, blockIdx, blockDim, gridDim;
"""
MAIN = """
template <class F> static void run(F f, int blocks, int threads) {
  gridDim = {(unsigned)blocks, 1, 1}; blockDim = {(unsigned)threads, 1, 1};
  for (int b = 0; b < blocks; b++) for (int t = 0; t < threads; t++) {
    blockIdx = {(unsigned)b, 0, 0}; threadIdx = {(unsigned)t, 0, 0}; f();
  }
}
template <class F, class G> static int differ(F old, G now) {
  int wrong = 0;
  for (int n : {1, 3, 4, 37, 64, 131}) for (int shift : {0, 1, 4}) {
    alignas(64) static float a[256], b[256], was[256], is[256];
    for (int i = 0; i < 256; i++) { a[i] = i * 37 % 19 - 9; b[i] = i * 11 % 23 - 7; was[i] = is[i] = i * 7 % 13 - 5; }
    run([&] { old(a, b, was + shift, n); }, 10, 16);
    run([&] { now(a, b, is + shift, n); }, 10, 16);
    wrong += memcmp(was, is, sizeof was) != 0;
  }
  return wrong;
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_the_new_text_computes_the_same(tmp_path: Path) -> None:
    source = [ON_THE_HOST, SEVERAL, ALIGNED, MAIN]
    calls = []
    for number, lines in enumerate(TEXTS):
        old = kernel(*lines)
        source += [old.replace("scale(", f"old{number}("), rewritten(old).replace("scale(", f"now{number}(")]
        calls.append(f'printf("%d ", differ(old{number}, now{number}));')
    source.append("int main() { " + " ".join(calls) + " }")
    (tmp_path / "all.cpp").write_text("\n".join(source), encoding="utf-8")
    built = subprocess.run(
        ["g++", "-std=c++17", "-O1", "-ftrivial-auto-var-init=pattern", "-o", "all", "all.cpp"], cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "unrecognized" in built.stderr:
        pytest.skip("an older g++")
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([tmp_path / "all"], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0"] * len(TEXTS)
