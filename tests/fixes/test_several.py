"""The work of several blocks in one, one after the other: what is told, what is left, and that results are the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.fixes.given.text import hidden
from kscope.fixes.work.several import alone, spans
from kscope.model.contract.fixes import Fix
from tests.support.with_sources import changes

ROOT = Path(__file__).resolve().parents[2]
MAIN = """
#include "cuda_on_cpu.h"
#include <cstdio>
{first}
{second}
int main() {{
  std::vector<float> x(6000), a(6000, -99), b(6000, -99);
  for (size_t i = 0; i < x.size(); i++) x[i] = i * 7919 % 1009 / 64.f - 7;
  launched(dim3({grid}), dim3(64), [&] {{ k(x.data(), a.data(), 5555); }});
  launched(dim3({fewer}), dim3(64), [&] {{ k_4(x.data(), b.data(), 5555); }});
  size_t wrong = 0, made = 0;
  for (size_t i = 0; i < a.size(); i++) made += a[i] != -99, wrong += a[i] != b[i];
  std::printf("%zu %zu\\n", made, wrong);
}}
"""
PLAIN = """__global__ void k(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) return;
  const float v = x[i];
  if (v < 0) { y[i] = v * v; return; }
  y[i] = v + blockIdx.x;
}"""
ROWS = """__global__ void k(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int row = blockIdx.x * 64; int i = row;
  i += threadIdx.x;
  if (i < n) { y[i] = x[n - 1 - i]; }
}"""


def several(case: str, code: str) -> Fix:
    (fix,) = [f for f in changes(case, code) if f.kind == "jam"]
    return fix


@pytest.mark.parametrize("code", ["GRD405", "LAT302"])
def test_eight_blocks_become_one(code: str) -> None:
    fix = several("taper.one", code)
    assert fix.code == "taper_one<<<32768, 128>>>(...);"  # as many blocks as the measured version has
    assert (fix.proof[0].before, fix.proof[0].after) == (1 << 18, 1 << 15)
    assert [e.becomes for e in fix.edits][1:] == [
        "  unsigned i = block_n * 128 + threadIdx.x; y[i] = x[i & 0xfffff] * w[i & 65535];", "}}",
    ]  # fmt: skip
    assert fix.edits[0].becomes.endswith("const unsigned block_n = blockIdx.x * 8 + round_n;")
    assert fix.price is not None and {c.state for c in fix.conditions} == {"proved", "assumed", "check"}


def test_the_version_with_eight_is_left() -> None:
    assert not [f for code in ("GRD405", "LAT302") for f in changes("taper.eight", code) if f.kind == "jam"]


def changed(text: str, times: int) -> str:
    axis = alone(text)
    assert axis is not None
    for start, end, new in sorted(spans(text, axis, times), reverse=True):
        text = text[:start] + new + text[end:]
    return text.replace("void k(", f"void k_{times}(")


@pytest.mark.parametrize("first", [PLAIN, ROWS])
def test_results_are_the_same_to_the_last_bit(first: str, tmp_path: Path) -> None:
    """Run on the processor, a thread for each of a block."""
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    shutil.copy(ROOT / "tests" / "support" / "cuda_on_cpu.h", tmp_path)
    text = MAIN.format(first=first, second=changed(first, 4), grid=88, fewer=22)
    (tmp_path / "both.cpp").write_text(text)
    command = ["g++", "-std=c++20", "-O1", "-ffp-contract=off", "-pthread", "both.cpp", "-o", "both"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(["./both"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["5555", "0"]


BODY = """__global__ void k(const float* x, float* y, int n) {{
  int i = blockIdx.x * 256 + threadIdx.x;
  {step}
}}"""


def test_a_thread_alone_is_understood() -> None:
    assert alone(BODY.format(step="if (i < n) y[i] = x[i];")) == "x"


@pytest.mark.parametrize(
    "step",
    [
        "__shared__ float t[256]; t[threadIdx.x] = x[i]; __syncthreads(); y[i] = t[0];",
        "y[i] = __shfl_down_sync(~0u, x[i], 1);",
        "atomicAdd(y, x[i]);",
        "for (; i < n; i += 99) y[i] = x[i];",
        "while (i < n) { y[i] = x[i]; i += 99; }",
        "n -= i; if (n > 0) y[i] = x[i];",  # a parameter that the next round would find changed
        "++n; y[i] = x[i];",
        "x += i; y[i] = *x;",
        "y[i] = x[i] + blockIdx.y;",  # of two axes neither is told
        "y[i] = x[i] / gridDim.x;",
        "switch (i) { case 0: return; default: y[i] = x[i]; }",
        "int round_n = 3; y[i] = x[i] * round_n;",
        "const auto b = blockIdx; y[i] = x[i] + b.x;",
        "*y++ = x[i];",
        "next(x, &n); y[i] = x[i];",
    ],
)
def test_what_is_not_understood_is_left(step: str) -> None:
    assert alone(BODY.format(step=step)) is None


def test_a_parameter_of_parts_that_a_thread_changes() -> None:
    code = BODY.replace("int n", "Size n")
    assert alone(code.format(step="if (i < n.all) y[i] = x[i];")) == "x"
    assert alone(code.format(step="n.all -= 3; if (i < n.all) y[i] = x[i];")) is None


def test_a_macro_that_asks_for_the_block() -> None:
    lines = ["#define LANE (threadIdx.x % 32)", "#define EACH \\", "  blockIdx.y", "#define ALL 3"]
    assert hidden("y[EACH] = 3;", lines) and hidden("y[LANE] = 3;", lines) and not hidden("y[ALL] = EACHES;", lines)


def test_a_kernel_without_a_block_is_left() -> None:
    assert alone("__global__ void k(float* y) { y[threadIdx.x] = 0; }") is None
