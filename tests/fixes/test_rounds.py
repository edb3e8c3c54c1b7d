"""Rounds of long loops that few threads sum up, shared out over blocks: which texts may, and that sums are the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.fixes.atomics import merged, reading, rounds, summed
from kscope.fixes.given.text import Text
from kscope.model.kernel import Launch
from tests.support.with_sources import changes

ROOT = Path(__file__).resolve().parents[2]
PULL = "__device__ float2 pull(float2 p, float4 s) { return make_float2(s.x - p.x, s.y - p.y); }\n"
FORCE = """__global__ void k(const float2* p, const float4* s, float2* __restrict__ f, int m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 q = p[i], a = make_float2(0.f, 0.f);
  #pragma unroll 4
  for (int k = 0; k < m; k++) {
    float2 w = pull(q, s[k]);
    float d = fmaxf(w.x, 0), e;
    e = d * 2;
    if (e > 0) a.x += w.x;
    a.y += w.y;
  }
  f[i] = a;
}"""


def found(code: str, above: str = PULL) -> summed.Summed | None:
    text = Text("f.cu", 1 + above.count("\n"), code)
    kernel = reading.read(text, "k", (above + code).split("\n"))
    return summed.found_in(kernel) if kernel is not None else None


def shared_out(code: str, above: str = PULL) -> str:
    one = found(code, above)
    assert one is not None
    for start, end, new in sorted(rounds._spans(one, "y"), reverse=True):
        code = code[:start] + new + code[end:]
    return code


def test_the_measured_one() -> None:
    fix = next(f for f in changes("force.alone", "GRD401") if f.kind == "lane_mapping")
    assert fix.parameters == {"grid.y": 128} and "force_alone<<<dim3(4, 128), 256>>>(...);" in fix.code
    assert "cudaMemsetAsync(f, 0, bytes" in fix.code
    assert [e.becomes for e in fix.edits][1:] == [
        "  if (k_first < k_end) { atomicAdd(&f[i].x, a.x); atomicAdd(&f[i].y, a.y); }"
    ]
    assert "for (int k = k_first; k < k_end; k++) {" in fix.edits[0].becomes
    assert (fix.proof[0].before, fix.proof[0].after) == (32, 4096) and fix.price is not None
    assert {c.by for c in fix.conditions if c.state == "proved"} == {"values", "code"}
    assert any("zero before" in c.holds and c.state == "check" for c in fix.conditions)


@pytest.mark.parametrize("case", ["force.shared", "evolve.large", "argmax.row_blocks"])
def test_sums_of_several_threads_and_steps_that_follow_each_other_are_left(case: str) -> None:
    assert not [f for f in changes(case, "GRD401") if f.title.startswith("each sum in")]


def test_bounds_stand_before_the_pragma() -> None:
    new = shared_out(FORCE).split("\n")
    at = new.index("  #pragma unroll 4")
    assert new[at - 1] == "  const int k_first = (int)blockIdx.y * k_each, k_end = min(k_first + k_each, m);"
    assert new[at + 1] == "  for (int k = k_first; k < k_end; k++) {"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("float2 w =", "w ="),  # carried from round to round
        ("a.y += w.y", "a.y = w.y"),
        ("a.y += w.y", "a.y *= w.y"),
        ("a.y += w.y", "a.y += w.y * a.x"),
        ("a.y += w.y", "q.x += a.y; a.y += w.y"),
        ("a.y += w.y", "q.x += 1; a.y += w.y"),
        ("a.y += w.y", "if (w.y > 9) break; a.y += w.y"),
        ("a.y += w.y", "f[k] = w; a.y += w.y"),
        ("a.y += w.y", "*at = w.y; a.y += w.y"),
        ("a.y += w.y", "at->x = w.y; a.y += w.y"),
        ("a.y += w.y", "(*at).x = w.y; a.y += w.y"),
        ("a.y += w.y", "a.y += step(&w)"),
        ("a.y += w.y", "a.y += rng.next()"),
        ("a.y += w.y", "a.y += pull<2>(q, w)"),
        ("a.y += w.y", "a.y += unknown(w)"),
        ("a.y += w.y", "m--; a.y += w.y"),
        ("a.y += w.y", "k++; a.y += w.y"),
        ("a.y += w.y", "__syncwarp(); a.y += w.y"),
        ("k < m", "k < length(m)"),
        ("k++", "k += n"),
        ("k < m", "k < m * 1.5f"),
        ("int m", "float m"),
        ("float d =", "{ float2 q = w; q.x *= 2; a.x += q.x; } q.y += 1; float d ="),  # two of one name
        ("int k = 0", "float k = 0"),
        ("make_float2(0.f, 0.f)", "make_float2(1.f, 0.f)"),
        ("make_float2(0.f, 0.f)", "q"),
        ("#pragma unroll 4", "while (q.x < 3)"),
        ("f[i] = a", "f[i] = q"),
        ("f[i] = a", "f[i] += a"),
        ("f[i] = a", "f[(int)a.x] = a"),
        ("f[i] = a", "if (i > 3) f[i] = a"),
        ("f[i] = a", "f[i] = a; f[i + 1] = a"),
        ("f[i] = a", "f[i] = make_float2(sqrtf(a.x), a.y)"),
        ("float2* __restrict__ f", "double2* __restrict__ f"),
    ],
)
def test_loops_that_stay_whole(was: str, becomes: str) -> None:
    assert was in FORCE and found(FORCE) is not None
    assert found(FORCE.replace(was, becomes)) is None


@pytest.mark.parametrize(
    "above",
    [
        PULL.replace("float2 p,", "float2& p,"),
        PULL.replace("float2 p,", "float2* p,"),
        PULL.replace("{ return", "{ static int n; return"),
        PULL.replace("s.x -", "other(s.x) -"),
        "",
    ],
)
def test_what_a_round_calls_must_leave_what_it_is_given(above: str) -> None:
    assert found(FORCE, above) is None


@pytest.mark.parametrize(
    ("value", "right"),
    [
        ("s", True), ("s * scale", True), ("scale * s", True), ("s / scale", True), ("s * s", False), ("s + 1", False),
        ("scale / s", False), ("-s", False), ("expf(s)", False),
    ],
)  # fmt: skip
def test_what_is_stored_of_a_sum(value: str, right: bool) -> None:
    code = """__global__ void k(const float* x, float* y, float scale, int n) {
  float s = 0;
  for (int j = threadIdx.x; j < n; j += 32) { s += x[j]; }
  y[blockIdx.x] = VALUE;
}"""
    assert (found(code.replace("VALUE", value)) is not None) is right
    whole = code.replace("float s", "int s").replace("float* y", "int* y").replace("VALUE", value)
    assert (found(whole) is not None) is (value == "s")  # of whole numbers parts of a product are cut off each


def test_axes_that_are_taken() -> None:
    one = found(FORCE.replace("blockIdx.x *", "blockIdx.y * 7 + blockIdx.x *"))
    assert one is not None and one.asks("y") and not one.asks("z")
    asked = found(FORCE, PULL.replace("s.x -", "gridDim.z -"))
    assert asked is not None and asked.asks("z") and not asked.asks("y")


@pytest.mark.parametrize("parts", [2, 7, 128])
def test_parts_are_the_rounds(parts: int) -> None:
    assert rounds._played(parts) > 100_000


MAIN = """
#include "cuda_on_cpu.h"
#include <cstdio>
using std::min;
%s
int main() {
  std::vector<int> x(6000);
  for (size_t i = 0; i < x.size(); i++) x[i] = int(i * 7919 %% 1009) - 300;
  for (int m : {0, 1, 31, 32, 1000}) for (int parts : {1, 4, 33}) {
    std::vector<int> a(100), b(100), c(100), d(100);
    launched(dim3(3), dim3(32), [&] { k(x.data(), a.data(), c.data(), m, 90); });
    launched(dim3(3, parts), dim3(32), [&] { k_parts(x.data(), b.data(), d.data(), m, 90); });
    if (a != b || c != d) return 1;
  }
  std::puts("same");
}
"""
SUMS = """__global__ void k(const int* x, int* y, int* z, int m, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    int s = 0, even = 0;
    for (int j = FIRST; j < m; STEP) {
      int v = x[j * 5 + i];
      for (int u = 0; u < 2; u++) s += v * u;
      if (j % 2 == 0) even -= v;
    }
    y[i] = s; z[i] = even;
  }
}"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.parametrize(("first", "step"), [("0", "j++"), ("threadIdx.x % 3 - 2 + 2", "j += 3"), ("i", "++j")])
def test_sums_are_the_same(first: str, step: str, tmp_path: Path) -> None:
    """Run on the processor: empty sums, fewer rounds than parts, bounds that threads do not share."""
    code = SUMS.replace("FIRST", first).replace("STEP", step)
    new = shared_out(code).replace("void k(", "void k_parts(")
    shutil.copy(ROOT / "tests" / "support" / "cuda_on_cpu.h", tmp_path)
    (tmp_path / "both.cpp").write_text(MAIN % f"{code}\n{new}", encoding="utf-8")
    command = ["g++", "-std=c++20", "-O1", "-pthread", "-w", "both.cpp", "-o", "both"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(["./both"], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "same\n"


ROWS = """template <bool SPLIT> __global__ void k(const float* __restrict__ x, unsigned* out, int each, int n) {
  int t = threadIdx.x; const float* row = x + (size_t)blockIdx.y * n + (size_t)blockIdx.x * each; unsigned best = 0;
  for (int i = t; i < each; i += 256) { if (row[i] > 3) best = blockIdx.x * each + i; }
  best = block_max(best);
  if (t == 0) { if (SPLIT) atomicMax(&out[blockIdx.y], best); else out[blockIdx.y] = best; }
}"""


def meeting(code: str, along: int = 1) -> merged.Merged | None:
    kernel = reading.read(Text("f.cu", 1, code), "k", code.split("\n"))
    launch = Launch((along, 8, 1), (256, 1, 1), (1, 1, 1), 32, 0, 0, 0.1)
    return merged._meeting(kernel, "SPLIT", "true", launch) if kernel is not None else None


def test_the_other_instance_is_the_measured_one() -> None:
    fix = next(f for f in changes("argmax.row_blocks", "GRD401") if "meet" in f.title)
    assert "argmax_rows<true><<<dim3(32, 8), 1024>>>(..., each / 32);" in fix.code  # as argmax.split32 was launched
    assert fix.parameters == {"instance": "true", "grid.x": 32} and not fix.edits and merged._played()


def test_blocks_that_meet_where_one_stored() -> None:
    assert meeting(ROWS) == merged.Merged("true", "out", "each", "x")
    assert meeting(ROWS, along=4) is None  # several take a row already


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("int i = t", "int i = t + 1"),  # would be left out of every part
        ("i += 256", "i += 512"),
        ("row[i]", "row[i + 1]"),
        ("row[i]", "row[each - i]"),
        ("blockIdx.x * each + i", "i"),  # the place within the part, not within the row
        ("blockIdx.x * each + i", "blockIdx.x"),
        ("if (t == 0)", "if (t == blockIdx.x)"),
        ("if (t == 0)", "if (t == each)"),
        ("if (t == 0)", "if (row)"),
        ("else out[blockIdx.y] = best", "else out[blockIdx.y] = best + 1"),
        ("else out[blockIdx.y]", "else out[0]"),
        ("&out[blockIdx.y]", "&out[blockIdx.x]"),
        ("atomicMax", "atomicMin"),  # zero is no start for it
        ("unsigned* out", "int* out"),
        ("  if (t", "  if (SPLIT) best++;\n  if (t"),
        ("int each", "float each"),
    ],
)
def test_rows_that_stay_with_their_block(was: str, becomes: str) -> None:
    assert was in ROWS
    assert meeting(ROWS.replace(was, becomes)) is None
