"""The work of several blocks in one: what is told, what is left alone, and that the results are the same."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.fixes.compute.coarser import _TYPES, coarse, written
from kscope.fixes.packed.ends import ended
from kscope.model.contract.fixes import Fix
from tests.support.with_sources import changes

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "fixtures" / "kernels"
MAIN = """
#include "cuda_on_cpu.h"
#include <cstdio>
struct float2 {{ float x, y; }};
static float drawn(int i) {{ return (i * 7919 % 1009) / 64.f - 7; }}
{first}
{second}
int main() {{
  std::vector<float> x(1 << 18), a(1 << 14, -1), b(1 << 14, -2);
  for (size_t i = 0; i < x.size(); i++) x[i] = drawn(i);
  {launches}
  size_t wrong = 0, made = 0;
  for (size_t i = 0; i < a.size(); i++) made += a[i] != -1, wrong += a[i] != (b[i] == -2 ? -1 : b[i]);
  std::printf("%zu %zu\\n", made, wrong);
}}
"""
LINES = """
  launched(dim3(16), dim3(256), [&] { lines_each((float2*)x.data(), (float4*)x.data(), (int*)a.data(), 33); });
  launched(dim3(2), dim3(256), [&] { lines_each_8((float2*)x.data(), (float4*)x.data(), (int*)b.data(), 33); });
"""
LAGS = """
  launched(dim3(2, 16), dim3(256), [&] { autocorr_lag((float4*)x.data(), a.data()); });
  launched(dim3(2, 2), dim3(256), [&] { autocorr_lag_8((float4*)x.data(), b.data()); });
"""


def kernel_of(file: str, name: str) -> str:
    lines = (KERNELS / file).read_text("utf-8").split("\n")
    first = next(n for n, line in enumerate(lines) if "__global__" in line and f"{name}(" in line)
    return "\n".join(lines[first : next(n for n in range(first, len(lines)) if lines[n] == "}") + 1])


def jam(case: str, code: str) -> Fix:
    (fix,) = [f for f in changes(case, code) if f.kind == "jam"]
    return fix


def test_what_all_threads_compute_alike_is_computed_once_for_eight() -> None:
    fix = jam("lines.each", "MEM112")
    assert fix.code == "lines_each<<<1024, 256>>>(...);"  # as the measured version has it
    assert "float slope = (e.w - e.y) / (e.z + e.x);\n  #pragma unroll" in fix.edits[0].becomes
    assert (fix.proof[0].before, fix.proof[0].after) == (33554432, 33554432 / 8)
    assert fix.conditions[0].state == "proved"


def test_blocks_of_another_axis_share_what_does_not_ask_for_it() -> None:
    fix = jam("autocorr.lag_by_lag", "MEM106")
    assert fix.code == "autocorr_lag<<<2048, 256>>>(...);"
    assert "float4 u = p[i];\n  #pragma unroll" in fix.edits[0].becomes
    assert "float4 v = p[i + lag_of[block_n]]" in fix.edits[0].becomes
    assert "__shared__ float part_of[8][8];" in fix.edits[0].becomes
    assert fix.edits[0].becomes.count("__syncthreads();") == 1  # all of them meet once


@pytest.mark.parametrize(
    ("file", "name", "launches", "made", "together"),
    [
        ("far_kernels.cu", "lines_each", LINES, 16 * 256, False),
        ("unseen/r4.cu", "autocorr_lag", LAGS, 32, False),
        ("unseen/r4.cu", "autocorr_lag", LAGS, 32, True),
    ],
)
def test_results_are_the_same_to_the_last_bit(
    file: str, name: str, launches: str, made: int, together: bool, tmp_path: Path
) -> None:
    """Run on the processor, a thread for each of a block."""
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    first = kernel_of(file, name)
    one = coarse(first)
    assert one is not None
    end = ended(one.tail, _TYPES, {}) if together else None
    assert (end is not None) is together
    second = first[: first.index("{")].replace(f"{name}(", f"{name}_8(") + written(first, one, 8, end)
    shutil.copy(ROOT / "tests" / "support" / "cuda_on_cpu.h", tmp_path)
    (tmp_path / "both.cpp").write_text(MAIN.format(first=first, second=second, launches=launches))
    command = ["g++", "-std=c++20", "-O1", "-ffp-contract=off", "-pthread", "both.cpp", "-o", "both"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(["./both"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.split() == [str(made), "0"]


BODY = """__global__ void k(const float* x, const float* w, float* y, int n) {{
  int i = blockIdx.x * 256 + threadIdx.x; float s = 0;
  for (int j = 0; j < {end}; j++) {{ float v = {load}; {step} }}
  {tail}
}}"""
GOOD = {"end": "n", "load": "w[j]", "step": "s += v * i;", "tail": "y[i] = s;"}


def made(**parts: str) -> bool:
    return coarse(BODY.format(**{**GOOD, **parts})) is not None


def test_a_plain_loop_is_understood() -> None:
    assert made()
    assert made(tail="if (i < n) y[i] = s;")


@pytest.mark.parametrize(
    "parts",
    [
        {"load": "x[i * n + j]"},  # nothing that blocks have in common
        {"end": "i"},  # rounds that are others in each block
        {"step": "s += v; y[i] = s;"},  # a store in the rounds
        {"step": "if (v > s) s = v;"},
        {"step": "s += v; w += n;"},  # a parameter that goes on
        {"step": "s += v; __syncthreads();"},
        {"tail": "if (i >= n) return; y[i] = s;"},
        {"tail": "int s = 3; y[i] = s;"},  # a name of two values
        {"tail": "y[i] = s; n = 3;"},
    ],
)  # fmt: skip
def test_what_is_not_understood_is_left(parts: dict[str, str]) -> None:
    assert not made(**parts)


def test_an_early_return_is_left() -> None:
    text = BODY.format(**GOOD)
    assert coarse(text.replace("float s = 0;", "float s = 0; if (i >= n) return;")) is None
    assert re.search("return", text) is None


@pytest.mark.parametrize(
    ("tail", "phases"),
    [
        ("__shared__ float p[8]; p[t] = s; __syncthreads(); if (t == 0) y[0] = p[0] + p[1];", 2),
        ("__shared__ int p[N][2], q; p[t][0] = s; __syncthreads(); q = p[0][0]; __syncthreads(); y[t] = q;", 3),
        ("__shared__ float p[8]; if (t < 8) { p[t] = s; __syncthreads(); } y[0] = p[0];", 0),  # a barrier of some
        ("__shared__ float p[8]; for (int k = 4; k; k /= 2) { if (t < k) p[t] += p[t + k]; __syncthreads(); }", 0),
        ("__shared__ float p[8]; float v = s * 2; p[t] = v; __syncthreads(); y[t] = p[0] - v;", 0),  # is kept over it
        ("__shared__ float p[8]; auto v = s * 2; p[t] = v; __syncthreads(); y[t] = p[0] - v;", 0),
        ("__shared__ float p[UNKNOWN]; p[t] = s; __syncthreads(); y[t] = p[0];", 0),
        ("extern __shared__ float p[]; p[t] = s; __syncthreads(); y[t] = p[0];", 0),
        ("y[t] = s; __syncthreads(); y[t] += 1;", 0),  # nothing is shared
    ],
)
def test_parts_between_barriers_stand_side_by_side(tail: str, phases: int) -> None:
    end = ended(tail, _TYPES, {"N": 4})
    assert (len(end.phases) if end is not None else 0) == phases
    if phases == 3:
        assert end is not None
        assert end.declared(2) == "__shared__ int p_of[2][N][2]; __shared__ int q_of[2];"
        assert end.bytes == 4 * 8 + 4
