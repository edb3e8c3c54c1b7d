"""Rows of different lengths by several lanes: which kernels are such, and what they become."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.fixes.shared_sums import row_lanes

ROWS = """__global__ void k(const int* first, const int* at, const float* of, const float* x, float* y, int many) {
  const int mine = blockIdx.x * blockDim.x + threadIdx.x;
  if (mine >= many) return;
  float sum = 0.f, factor;
  for (int e = first[mine]; e < first[mine + 1]; ++e) {
    factor = of[e];
    const int far = at[e];
    sum += factor * x[far];
  }
  y[mine] = 2 * sum;
}"""
COLUMNS = """__global__ void k(const int2* runs, const float* x, float* y, int many) {
  int run = threadIdx.y + blockIdx.y * blockDim.y;
  if (run < many) {
    float sums[4] = {0};
    for (int i = runs[run].x; i < runs[run].y; i++)
      for (int c = 0; c < 4; c++) sums[c] = fmaf(x[i * 8 + threadIdx.x], x[c], sums[c]);
    for (int c = 0; c < 4; c++) y[(run * 4 + c) * 8 + threadIdx.x] = sums[c];
  }
}"""


def becomes(code: str, lanes: int = 8) -> str:
    found = row_lanes.row(code)
    if found is None:
        return ""
    for start, end, new in sorted(row_lanes._spans(code, found, lanes), reverse=True):
        code = code[:start] + new + code[end:]
    return code


def test_a_row_a_thread() -> None:
    new = becomes(ROWS)
    assert "mine = (blockIdx.x * blockDim.x + threadIdx.x) / 8;" in new
    assert "for (int e = first[mine] + threadIdx.x % 8; e < first[mine + 1]; e += 8) {" in new
    assert "sum += __shfl_xor_sync(row_n, sum, d_n);\n  if (threadIdx.x % 8) return;" in new


def test_a_row_along_y() -> None:
    new = becomes(COLUMNS, 4)
    assert "run = (threadIdx.y + blockIdx.y * blockDim.y) / 4;" in new
    assert "sums[k_n] += __shfl_xor_sync(row_n, sums[k_n], d_n * blockDim.x);" in new


@pytest.mark.parametrize(("code", "lanes"), [(ROWS, 8), (ROWS, 32), (COLUMNS, 4)])
def test_they_compile(code: str, lanes: int, tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    (tmp_path / "k.cu").write_text(becomes(code, lanes))
    subprocess.run(["nvcc", "-arch=sm_90", "-c", "-o", "k.o", "k.cu"], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    ("was", "new"),
    [
        ("sum += factor", "sum = sum * 0.5f + factor"),  # what a round has depends on the one before
        ("factor * x[far]", "sum * x[far]"),
        ("factor = of[e];", "if (of[e] > 0) factor = of[e];"),  # kept from an earlier round
        ("sum += factor * x[far];", "if (x[far] < 0) break; sum += factor;"),
        ("sum += factor * x[far];", "sum += factor * x[far]; y[e] = factor;"),
        ("sum = 0.f", "sum = y[mine]"),  # each lane would bring it
        ("y[mine] = 2 * sum;", "y[mine] = 2 * sum + factor;"),
        ("y[mine] = 2 * sum;", "atomicAdd(y, sum);"),
        ("if (mine >= many) return;", "if (threadIdx.x == 3 || mine >= many) return;"),
        ("if (mine >= many) return;", "y[mine] = 1;"),
        ("if (mine >= many) return;", "__shared__ float table[9];"),
        ("blockIdx.x * blockDim.x", "blockIdx.x * blockDim.x + gridDim.x"),
        ("++e", "e += 2"),
    ],
)
def test_other_kernels_are_left(was: str, new: str) -> None:
    assert was in ROWS and becomes(ROWS.replace(was, new)) == ""


def test_rows_of_one_length_are_left() -> None:
    assert becomes(ROWS.replace("int e = first[mine]; e < first[mine + 1]", "int e = 0; e < many")) == ""


FIRST = "float sum = 0.f, factor;"
ADDED = "sum += factor * x[far];"


@pytest.mark.parametrize(
    ("was", "new"),
    [
        (FIRST, f"{FIRST} sum += x[mine];"),  # each lane would add it
        (FIRST, f"{FIRST} sum = x[mine];"),
        (FIRST, f"{FIRST} begin(&sum, mine);"),
        (ADDED, f"{ADDED} best = max(best, far); sum += best;"),  # a round goes on by what the last one left
    ],
)
def test_sums_and_names_that_begin_otherwise_are_left(was: str, new: str) -> None:
    assert becomes(ROWS) and was in ROWS
    assert not becomes(ROWS.replace(was, new))


def test_a_row_s_first_element_stays_one_expression() -> None:
    new = becomes(ROWS.replace("e = first[mine]", "e = mine ? first[mine] : 0"))
    assert "for (int e = (mine ? first[mine] : 0) + threadIdx.x % 8; e < first[mine + 1]; e += 8) {" in new


@pytest.mark.parametrize(
    "body",
    ["factor = draw(state);", "step(&state); factor = of[e];", "factor = state.next();"],
)
def test_what_a_function_or_method_may_change_is_left(body: str) -> None:
    code = ROWS.replace("factor = of[e];", body)
    assert not becomes(code.replace(FIRST, f"{FIRST} State state = begin(mine);"))
    assert not becomes(code.replace("int many)", "int many, State state)"))
