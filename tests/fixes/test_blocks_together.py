"""The work of several blocks in one with their loads first: what is told, what is left, that results are the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.fixes.flight.blocks import Body, bodies, spans
from kscope.fixes.flight.written import code_above

ROOT = Path(__file__).resolve().parents[2]
HEAD = "__global__ void k(const float* x, const int* at, float* y, int n)"
GUARDED = """ {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i >= n) { return; }
  int j; float v;
  if (i % 3) { v = x[i]; }
  else { j = at[i]; v = x[j]; }
  j = i / 2;
  float w = x[j];
  if (v < 0) { y[i] = v * v; return; }
  y[i] = v + w + blockIdx.x;
}"""
PLANES = """ {
  int col = threadIdx.x, row = blockIdx.y;
  int place = (blockIdx.x * gridDim.y + row) * 64 + col;
  if (place < n)
  {
    float v = row == 0 ? x[col] : x[place];
    y[place] += v * y[place];
  }
}"""
MAIN = """
#include "cuda_on_cpu.h"
#include <cstdio>
{above}
{first}
{second}
int main() {{
  const int size = 6000;
  std::vector<float> x(size), a(size, -99), b(size, -99); std::vector<int> at(size);
  for (int i = 0; i < size; i++) x[i] = i * 7919 % 1009 / 64.f - 7, at[i] = i * 31 % 997;
  launched(dim3(8, 11), dim3(64), [&] {{ k(x.data(), at.data(), a.data(), 5555); }});
  launched(dim3(2, 11), dim3(64), [&] {{ k_4(x.data(), at.data(), b.data(), 5555); }});
  size_t wrong = 0, made = 0;
  for (int i = 0; i < size; i++) made += a[i] != -99, wrong += a[i] != b[i];
  std::printf("%d %zu\\n", made > 400, wrong);
}}
"""


def found(body: str) -> list[Body]:
    code = HEAD + body
    return bodies(code, "k", code.split("\n"))


def changed(body: str) -> tuple[str, str]:
    code, one = HEAD + body, found(body)[0]
    for start, end, new in sorted(spans(code, one, 4), reverse=True):
        code = code[:start] + new + code[end:]
    return code, code_above(one.held)


@pytest.mark.parametrize("body", [GUARDED, PLANES], ids=["guarded", "planes"])
def test_results_are_the_same_to_the_last_bit(body: str, tmp_path: Path) -> None:
    """Run on the processor, a thread for each of a block."""
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    shutil.copy(ROOT / "tests" / "support" / "cuda_on_cpu.h", tmp_path)
    second, above = changed(body)
    text = MAIN.format(above=above, first=HEAD + body, second=second.replace("void k(", "void k_4("))
    (tmp_path / "both.cpp").write_text(text)
    command = ["g++", "-std=c++20", "-O1", "-ffp-contract=off", "-pthread", "both.cpp", "-o", "both"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert not done.returncode, done.stderr[:2000]
    done = subprocess.run(["./both"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "0"]


def held(body: str) -> list[tuple[str, int, str]]:
    return [(h.text, h.level, " && ".join(t.text for t in h.test)) for one in found(body)[:1] for h in one.held]


def test_what_goes_first() -> None:
    assert held(GUARDED) == [
        ("x[i]", 0, "!(i >= n) && i % 3"), ("at[i]", 0, "!(i >= n) && !(i % 3)"),
        ("x[j]", 1, "!(i >= n) && !(i % 3)"), ("x[j]", 0, "!(i >= n)"),
    ]  # fmt: skip
    assert [h[0] for h in held(PLANES)] == ["row == 0 ? x[col] : x[place]", "y[place]"]
    assert [one.axis for one in found(PLANES)] == ["x"]  # the other axis' size is in the index


def test_a_load_behind_a_store_asks_for_arrays_apart() -> None:
    body = " {{ int i = blockIdx.x * 64 + threadIdx.x; {} }}"
    assert [one.behind for one in found(body.format("y[i] = x[i];"))] == [False]
    assert [one.behind for one in found(body.format("y[i] = x[i]; y[i + n] = x[i + n];"))] == [True]
    assert [one.behind for one in found(body.format("put(y, 3); float v = x[i]; y[i] = v;"))] == [True]
    assert held(body.format("y[i] = 3; y[i] = y[i ^ 1];")) == []  # its own thread wrote it


@pytest.mark.parametrize(
    "step",
    [
        "__shared__ float t[256]; t[threadIdx.x] = x[i]; __syncthreads(); y[i] = t[0];",
        "y[i] = __shfl_down_sync(~0u, x[i], 1);",
        "atomicAdd(y, x[i]);",
        "for (; i < n; i += 99) y[i] = x[i];",
        "n -= i; if (n > 0) y[i] = x[i];",
        "x += i; y[i] = x[0];",
        "n.all -= 3; if (i < n.all) y[i] = x[i];",
        "y[i] = x[i] / gridDim.x;",
        "switch (i) { case 0: return; default: y[i] = x[i]; }",
        "int round_n = 3; y[i] = x[i] * round_n;",
        "next(i); y[i] = x[i];",  # it may take it by reference
        "y[i] = i < n ? x[i] : 0;",
        "if (y[i] > 3) i = n; y[i] = x[i];",
        "place(blockIdx); y[i] = x[i];",
        "int j(i / 2); y[i] = x[j];",
    ],
)
def test_what_is_not_understood_is_left(step: str) -> None:
    found = held(f" {{ int i = blockIdx.x * 64 + threadIdx.x; {step} }}")
    assert [h for h in found if h[0] in ("x[i]", "x[j]")] == []


def test_elements_that_are_given_by_reference_stay() -> None:
    body = " { int i = blockIdx.x * 64 + threadIdx.x; if (i < n) apply(x[i], y[i]); }"
    assert held(body) == [("x[i]", 0, "i < n")]  # x leads to what is constant


@pytest.mark.parametrize(
    ("body", "guard"),
    [
        ("if (i < n) y[i] = x[i];", "if (i < n)"),
        ("if (i >= n || j >= 7) { return; } y[i] = x[i];", "if (i >= n || j >= 7)"),
        ("if (i >= n && j >= 7) return; y[i] = x[i];", ""),  # with a j below, what is behind n works
        ("if (i < n || j < 7) y[i] = x[i];", ""),
        ("if (n < i) y[i] = x[i];", ""),
        ("if (n - i < 7) y[i] = x[i];", ""),
        ("if (i % 8 < n) y[i] = x[i];", ""),
        ("y[0] = 1; if (i < n) y[i] = x[i];", ""),
        ("if (i < n) { y[i] = x[i]; } y[i] = 3;", ""),
        ("if (j >= n) return; y[i] = x[i];", ""),  # not by the block's place
        ("if (i < n * (int)blockIdx.x) y[i] = x[i];", ""),
    ],
)
def test_blocks_behind_the_last_have_nothing_to_do(body: str, guard: str) -> None:
    (one,) = found(f" {{ int i = blockIdx.x * 64 + threadIdx.x, j = threadIdx.y; {body} }}")
    assert one.guard == guard
