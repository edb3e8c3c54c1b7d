"""Kernels without barriers on the host: an old and a new text, compiled by g++ and run thread by thread, leave the same
numbers behind."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

_BEFORE = """
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
using std::max; using std::min; using std::fma;
#define __global__ static
#define __device__ static
#define __restrict__
struct Three { unsigned x, y, z; };
static Three threadIdx, blockIdx, blockDim, gridDim;
template <class T> static T __ldg(const T* p) { return *p; }
template <class F> static void run(F f, int blocks, int threads) {
  gridDim = {(unsigned)blocks, 1, 1}; blockDim = {(unsigned)threads, 1, 1};
  for (int b = 0; b < blocks; b++) for (int t = 0; t < threads; t++) {
    blockIdx = {(unsigned)b, 0, 0}; threadIdx = {(unsigned)t, 0, 0}; f();
  }
}
"""
_DIFFER = """
template <class F, class G> static int differ(F old, G now) {
  int wrong = 0;
  for (int n : {1, 3, 4, 37, 64, 131, 520}) for (int shift : {@shifts@}) for (int m : {0, 3}) {
    alignas(64) static T a[2048], b[2048], was[2048], is[2048];
    for (int i = 0; i < 2048; i++) {
      a[i] = T(i * 37 % 19 - 9); b[i] = T(i * 11 % 23 - 7); was[i] = is[i] = T(i * 7 % 13 - 5);
    }
    { T* out = was + shift; run([&] { old(@call@); }, @blocks@, 16); }
    { T* out = is + shift; run([&] { now(@call@); }, @now_blocks@, 16); }
    wrong += memcmp(was, is, sizeof was) != 0;
  }
  return wrong;
}
"""


def wrong(
    folder: Path, pairs: Sequence[tuple[str, str]], *, name: str, call: str, above: str = "", kind: str = "float",
    blocks: tuple[int, int] = (40, 40), shifts: str = "0, 1, 4",
) -> list[int]:  # fmt: skip
    """In how many of the trials an old and a new text come to other numbers. name: of the kernels; call: what they are
    given, of a, b, out (from `shifts` on), n and m; blocks: of 16 threads, for the old text and for the new one."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ here")
    said = {"call": call, "blocks": str(blocks[0]), "now_blocks": str(blocks[1]), "shifts": shifts}
    differ = _DIFFER
    for word, value in said.items():
        differ = differ.replace(f"@{word}@", value)
    source = [_BEFORE, above, f"typedef {kind} T;", differ]
    for number, (old, new) in enumerate(pairs):
        source += [text.replace(f"{name}(", f"{to}{number}(") for text, to in ((old, "old"), (new, "now"))]
    every = " ".join(f'printf("%d ", differ(old{n}, now{n}));' for n in range(len(pairs)))
    (folder / "all.cpp").write_text("\n".join([*source, f"int main() {{ {every} }}"]), encoding="utf-8")
    built = subprocess.run(
        ["g++", "-std=c++17", "-O1", "-w", "-ftrivial-auto-var-init=pattern", "-o", "all", "all.cpp"], cwd=folder,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "unrecognized" in built.stderr:
        pytest.skip("an older g++")
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([folder / "all"], capture_output=True, text=True, check=True)
    return [int(word) for word in ran.stdout.split()]
