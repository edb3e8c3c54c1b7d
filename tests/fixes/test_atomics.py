"""Atomics that a block combines first: what is printed, for which texts, and that results are the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.fixes.atomics import combined, helpers, places, reading, targets
from kscope.fixes.given.text import Span, Text
from tests.support.with_sources import changes

ROOT = Path(__file__).resolve().parents[2]


def kernel(code: str, above: str = "") -> reading.Kernel | None:
    return reading.read(Text("f.cu", 1 + above.count("\n"), code), "k", (above + code).split("\n"))


def with_spans(code: str, spans: list[Span]) -> str:
    for start, end, new in sorted(spans, reverse=True):
        code = code[:start] + new + code[end:]
    return code


def unused(code: str, above: str = "") -> str:
    """The kernel with its atomics combined; "" where it is left."""
    one = kernel(code, above)
    if one is None:
        return ""
    found, guards = targets.atomics_of(one), reading.returning(one)
    if not found or guards is None or not all(combined.unused(one, a.call) for a in found):
        return ""
    spans = combined._spans(one, found, guards)
    return with_spans(code, spans) if spans else ""


def asked(code: str) -> str:
    """The kernel whose block asks once; "" where it is left."""
    one = kernel(code)
    if one is None:
        return ""
    found, guards = targets.atomics_of(one), reading.returning(one)
    spans = places._spans(one, found[0], guards) if len(found) == 1 and guards is not None else []
    return with_spans(code, spans) if spans else ""


def test_the_largest_of_each_block() -> None:
    (fix,) = changes("best.each", "MEM109")
    (edit,) = fix.edits
    assert edit.becomes.endswith("block_max(best + blockIdx.x % 4, key_of(x[i], i));")
    assert fix.code == helpers.combining("atomicMax", "unsigned long long", flat=True, again=False)
    assert fix.above == 26 and (fix.proof[0].before, fix.proof[0].after) == (1 << 21, 8192)
    assert {c.by for c in fix.conditions if c.state == "proved"} == {"values", "code", "launch"}


def test_places_of_each_block() -> None:
    (fix,) = changes("tickets.each", "MEM109")
    (edit,) = fix.edits
    assert edit.becomes.endswith("at[i] = block_places(next, length_of(x[i]));")
    assert fix.proof[0].after == 16384 and fix.price is not None


@pytest.mark.parametrize("case", ["best.warp", "tickets.block"])
def test_the_better_versions_are_left(case: str) -> None:
    assert not changes(case, "MEM109")


SUM = """__global__ void k(const int* __restrict__ x, int* __restrict__ out, int n) {
  const int b = blockIdx.x % 2;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&out[b], x[i]);
}"""
RETURNED = """__global__ void k(const int* __restrict__ x, int* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = x[i];
  if (v < 0) { return; }
  atomicMax(out + 1, v);
  if (v > 3) { v += 1; atomicAdd(out, v); }
}"""
LOOP = """__global__ void k(const int* __restrict__ x, int* __restrict__ out, int n) {
  #pragma unroll 4
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    if (x[i] & 1) atomicMin(&out[2], x[i]);
    else { atomicAdd(&out[0],
                     x[i]); }
  }
}"""
PLACES = """__global__ void k(const int* __restrict__ x, int* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] > 0) {
    int v = x[i];
    const int at = atomicAdd(out, 1);
    out_list[at] = v;
  }
}"""
PLACES_RETURNED = """__global__ void k(const int* __restrict__ x, int* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = x[i];
  out_list[atomicAdd(out, 1)] = v;
}"""
MAIN = """
#include "cuda_on_cpu.h"
#include <cstdio>
static int* out_list;
static int atomicMax(int* at, int v) {
  int old = *at;
  while (v > old && !__atomic_compare_exchange_n(at, &old, v, 0, 0, 0)) {}
  return old;
}
static int atomicMin(int* at, int v) {
  int old = *at;
  while (v < old && !__atomic_compare_exchange_n(at, &old, v, 0, 0, 0)) {}
  return old;
}
using std::max; using std::min;
static void block_sum(int* at, int v) { __syncthreads(); if (v) atomicAdd(at, v); }
static void block_max(int* at, int v) { __syncthreads(); atomicMax(at, v); }
static void block_min(int* at, int v) { __syncthreads(); atomicMin(at, v); }
static int block_places(int* at, int v) {
  __syncthreads();
  return atomicAdd(at, v);
}
%s
int main() {
  std::vector<int> x(3000);
  for (size_t i = 0; i < x.size(); i++) x[i] = int(i * 7919 %% 1009) - 300;
  std::vector<std::vector<int>> got;
  for (int changed = 0; changed < 2; changed++) {
    std::vector<int> out(4), list(4000, -1);
    out_list = list.data();
    auto* kernel = changed ? k_block : k;
    launched(dim3(12), dim3(64), [&] { kernel(x.data(), out.data(), 700); });
    std::sort(list.begin(), list.end());
    out.insert(out.end(), list.begin(), list.end());
    got.push_back(out);
  }
  std::printf("%%d %%d\\n", got[0] == got[1], got[0][0] + got[0][1]);
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("code", [SUM, RETURNED, LOOP, PLACES, PLACES_RETURNED])
def test_all_threads_come_to_the_helper_with_what_they_had(code: str, tmp_path: Path) -> None:
    """Run on the processor, where a thread that does not come to a barrier is waited for without end."""
    new = (unused(code) or asked(code)).replace("void k(", "void k_block(")
    assert "block_" in new
    shutil.copy(ROOT / "tests" / "support" / "cuda_on_cpu.h", tmp_path)
    (tmp_path / "both.cpp").write_text(MAIN % f"{code}\n{new}", encoding="utf-8")
    command = ["g++", "-std=c++20", "-O1", "-pthread", "-w", "both.cpp", "-o", "both"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(["./both"], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60)
    same, sums = done.stdout.split()
    assert same == "1" and sums != "0"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("&out[b]", "&out[i]"),
        ("&out[b]", "&out[x[0]]"),
        ("blockIdx.x % 2", "threadIdx.x % 2"),
        ("blockIdx.x % 2;", "blockIdx.x % 2; b += i;"),
        ("blockIdx.x % 2", "blockIdx.x % m"),  # whatever m is
        ("if (i < n)", "if (i < n) x = x + 1, "),
        ("  if (i", "  if (i == 5) { if (n > 3) return; }\n  if (i"),
        ("  if (i", "  __threadfence();\n  if (i"),
        ("  if (i", '  asm volatile("");\n  if (i'),
        ("  if (i", "  CHECK(i);\n  if (i"),
        ("int* __restrict__ out", "T* __restrict__ out"),
        ("int* __restrict__ out", "short* __restrict__ out"),
        ("atomicAdd(&out[b]", "out[1] = atomicAdd(&out[b]"),
        ("x[i]);", "x[i]); n = out[0];"),
        ("x[i]);", "x[i]), 0;"),
        ("atomicAdd", "atomicAdd_block"),
        ("const int b", "int out_mine = 0; const int b"),
        ("if (i < n) atomicAdd(&out[b], x[i]);",
         "auto f = [&](int v) { atomicAdd(&out[b], v); };\n  if (i < n) f(x[i]);"),
        ("if (i < n)", "if (i < n) for (int b : {0, 1})"),  # another b
        ("if (i < n) atomicAdd(&out[b], x[i])", "if (i < n) { int b(3); atomicAdd(&out[b], x[i]); }"),
        ("if (i < n) atomicAdd(&out[b], x[i])", "if (i < n) { int n(3); atomicAdd(&out[n], x[i]); }"),
    ],
)
def test_what_is_not_the_same_for_the_block_is_left(was: str, becomes: str) -> None:
    assert was in SUM and unused(SUM)
    assert not unused(SUM.replace(was, becomes))


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("if (v < 0) { return; }", "__syncthreads();"),  # a barrier that not all came to
        ("  atomicMax(out + 1, v);", "  atomicMax(out + v, v);"),
        ("  int i", "  atomicAdd(out + 2, n);\n  int i"),  # before the return: all of the block's
    ],
)
def test_returns_before_an_atomic(was: str, becomes: str) -> None:
    assert was in RETURNED and not unused(RETURNED.replace(was, becomes))


def test_numbers_that_the_file_names() -> None:
    code = SUM.replace("&out[b]", "&out[SLOT + blockIdx.x % SLOTS]")
    assert not unused(code)
    assert unused(code, "constexpr int SLOT = 1, SLOTS = 2;\n\n")
    assert unused(code, "#define SLOT 1\n#define SLOTS (2)\n")
    assert not unused(code, "#define SLOT threadIdx.x\n#define SLOTS 2\n")
    assert unused(SUM.replace("&out[b]", "&total"), "__device__ int total;\n")


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("atomicAdd(out, 1)", "atomicAdd(out, v)"),  # made in the branch
        ("int v = x[i];", "int v = x[i]; if (v > 7)"),
        ("int v = x[i];", "int v = x[i]; for (int j = 0; j < v; j++) {"),
        ("atomicAdd(out, 1)", "v > 3 ? atomicAdd(out, 1) : 0"),
        ("atomicAdd(out, 1)", "n ? 2 : atomicAdd(out, 1)"),
        ("  }\n}", "  } else out_list[0] = 1;\n}"),
        ("i < n &&", "(n = 3) &&"),
        ("if (i < n", "while (i < n"),
        ("  if (", "  if (i > 5) return;\n  if ("),
    ],
)
def test_places_that_stay_where_they_are_asked_for(was: str, becomes: str) -> None:
    assert was in PLACES and asked(PLACES)
    code = PLACES.replace(was, becomes)
    assert not asked(code + "}" * (code.count("{") - code.count("}")))


@pytest.mark.parametrize("what", ["clamp(v);", "swap(v, n);", "int& w = v; w = 3;", "int* w = &v; *w = 3;"])
def test_what_a_thread_asks_for_may_be_changed_on_the_way(what: str) -> None:
    code = PLACES.replace("    int v = x[i];\n", "").replace("out, 1", "out, v")
    code = code.replace("  if (", "  int v = x[i];\n  if (")
    assert "out_here ? v : 0" in asked(code)
    assert "out_here ? v : 0" in asked(code.replace("const int at", "int w = max(v, 3); const int at"))
    assert not asked(code.replace("const int at", f"{what} const int at"))


def test_a_return_and_what_a_thread_asks_for() -> None:
    assert not asked(PLACES_RETURNED.replace("out, 1", "out, v"))
    assert "count_" not in asked(PLACES_RETURNED) and "if (!out_here) return;" in asked(PLACES_RETURNED)
    assert not asked(PLACES_RETURNED.replace("int v", "__syncthreads(); int v"))


@pytest.mark.parametrize("function", sorted(helpers.OPERATIONS))
@pytest.mark.parametrize("flat", [True, False])
def test_what_blocks_combine(function: str, flat: bool) -> None:
    text = helpers.combining(function, "unsigned", flat=flat, again=not flat)
    assert helpers.combined(function, text) == 3 * (32 + 96 + 256 + 1024)
    assert not helpers.combined(function, text.replace("d = 16", "d = 8"))
    assert not helpers.combined(function, text.replace("thread < warps ? ", ""))  # of what nobody wrote


@pytest.mark.parametrize("flat", [True, False])
def test_places_lie_side_by_side(flat: bool) -> None:
    text = helpers.placing("unsigned", flat=flat, idle=flat)
    assert helpers.placed(text) == 3 * (32 + 96 + 256 + 1024)
    for was, becomes in (("sum - mine", "sum"), ("all - own", "all"), ("d < 32", "d < 16"), ("lane >= d", "lane > d")):
        assert was in text and not helpers.placed(text.replace(was, becomes))
