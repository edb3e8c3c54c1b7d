"""Kernels' texts played by the interpreter, and compiled by g++ and run on the host: what both leave."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from msgspec import Struct

from kscope.fixes.given.called import functions
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.kinds import FLOATS
from kscope.fixes.given.played import Rules, play

CELLS, BLOCKS, THREADS = 256, 2, 32
_HEADER = Path(__file__).with_name("cuda_on_cpu.h")
_BEFORE = """
#include "cuda_on_cpu.h"
#include <cmath>
#include <cstdint>
#include <cstdio>
#undef __shared__
#define __shared__ static
#define __restrict__
#define __syncwarp __syncthreads
#define INT_MAX 2147483647
using std::max; using std::min; using std::fma;
static double handed[64];
template <class T> static T from(T v, unsigned lane) {
  handed[thread_number] = (double)v; __syncthreads();
  T found = (T)handed[lane]; __syncthreads(); return found;
}
template <class T> static T __shfl_sync(unsigned, T v, int lane, int width = 32) {
  return from(v, thread_number - thread_number % width + lane % width);
}
template <class T> static T __shfl_down_sync(unsigned, T v, int by, int width = 32) {
  return from(v, thread_number % width + by < (unsigned)width ? thread_number + by : thread_number);
}
template <class T> static T __shfl_up_sync(unsigned, T v, int by, int width = 32) {
  return from(v, thread_number % width >= (unsigned)by ? thread_number - by : thread_number);
}
template <class T> static T __shfl_xor_sync(unsigned, T v, int by) { return from(v, thread_number ^ (unsigned)by); }
static inline unsigned __ballot_sync(unsigned, int v) {
  unsigned out = 0; for (unsigned i = 0; i < 32; i++) out |= (unsigned)(from(v, i) != 0) << i;
  return out;
}
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline unsigned atomicAdd(unsigned* p, unsigned v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
static inline int atomicMax(int* p, int v) {
  int was = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (was < v && !__atomic_compare_exchange_n(p, &was, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  return was;
}
struct int2 { int x, y; }; struct float2 { float x, y; };
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
template <class F> static void serial(F f) {
  gridDim = dim3(2); blockDim = dim3(32);
  for (unsigned b = 0; b < 2; b++) for (unsigned t = 0; t < 32; t++) {
    blockIdx = dim3(b, 0, 0); threadIdx = dim3(t, 0, 0); f();
  }
}
"""
_MAIN = """
  {{ static {x} x[256]; static {y} y[256];
    for (int i = 0; i < 256; i++) {{ x[i] = ({x})({first}); y[i] = 0; }}
    {run}[&] {{ k{n}(x, y, ({kind})7, 3); }});
    for (int i = 0; i < 256; i++) printf("{format} ", ({wide})y[i]); printf("\\n"); }}
"""


_FRACTION = re.compile(r"\b(?:float|double)|\d\.\d*|\bf(?:abs|max|min)f")


class Kernel(Struct, frozen=True):
    """A body of a kernel of x, y, n (7, of the type that `n` says) and m (an int, 3). above: functions of its file."""

    body: str
    x: str = "int"
    y: str = "int"
    n: str = "int"
    above: str = ""

    @property
    def real(self) -> bool:
        fractions = _FRACTION.search(self.above + self.body) is not None
        return fractions or any(kind in FLOATS for kind in (self.x, self.y, self.n))

    @property
    def first(self) -> str:
        """What x holds, in C."""
        signed = "i * 37 % 19 - 9" if not self.x.startswith(("u", "size_t")) else "i * 37 % 19"
        return f"({signed}) * 0.75" if self.x in FLOATS else signed

    def together(self) -> bool:
        return any(word in self.body for word in ("__sync", "_sync("))


def kernels() -> list[Kernel]:
    """Those of beside.txt."""
    out = []
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("//"):
            types, above, body = re.split(" ?@ ?", line, maxsplit=2)
            body = re.sub("^I ", "int i = blockIdx.x * 32 + threadIdx.x; ", body)
            x, y, n = types.split(", ")
            out.append(Kernel(body, x, y, n, above))
    return out


def run(folder: Path, kernels: Sequence[Kernel]) -> list[list[float]]:
    """What each leaves in y, compiled by g++."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ here")
    source, main = [_BEFORE], ""
    for n, one in enumerate(kernels):
        above = f"namespace a{n} {{ {one.above}\n__global__ void k{n}({one.x}* x, {one.y}* y, {one.n} n, int m)"
        source.append(f"{above} {{\n{one.body}\n}} }} using a{n}::k{n};")
        real = one.y in FLOATS
        main += _MAIN.format(
            x=one.x, y=one.y, first=one.first, kind=one.n, n=n, format="%.17g" if real else "%lld",
            wide="double" if real else "long long",
            run="launched(dim3(2), dim3(32), " if one.together() else "serial(",
        )  # fmt: skip
    (folder / "all.cpp").write_text("\n".join([*source, f"int main() {{ {main} }}"]), encoding="utf-8")
    (folder / "cuda_on_cpu.h").write_text(_HEADER.read_text(encoding="utf-8"), encoding="utf-8")
    compile_it = ["g++", "-std=c++20", "-O0", "-w", "-fwrapv", "-pthread", "-o", "all", "all.cpp"]
    built = subprocess.run(compile_it, cwd=folder, capture_output=True, text=True, check=False)
    if "unrecognized" in built.stderr:
        pytest.skip("an older g++")
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([folder / "all"], capture_output=True, text=True, check=True)
    return [[float(word) for word in line.split()] for line in ran.stdout.splitlines()]


def played(one: Kernel, *, real: bool | None = None) -> list[float] | None:
    """What it leaves in y where it is played; None where that is refused. real: whether fractions are what they are."""
    i = np.arange(CELLS)
    x = (i * 37 % 19 - 9 * (not one.x.startswith(("u", "size_t")))).astype(np.int64)
    memory = {
        "x": x * 0.75 if one.x in FLOATS else x,
        "y": np.zeros(CELLS, dtype=np.float64 if one.y in FLOATS else np.int64),
    }
    kinds = {"x": one.x, "y": one.y, "n": one.n, "m": "int"}
    rules = Rules(literals="real" if (one.real if real is None else real) else "drawn", kinds=kinds,
                  functions=functions(one.above.split("\n"), one.body))  # fmt: skip
    try:
        play(f"{{{one.body}}}", (BLOCKS, 1), (THREADS, 1), memory, {"n": 7, "m": 3}, rules)
    except Unplayable:
        return None
    left: list[float] = memory["y"].astype(float).tolist()
    return left
