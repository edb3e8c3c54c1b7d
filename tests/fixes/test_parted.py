"""Loops that few blocks share: which ones more blocks may share, and what becomes of them."""

from __future__ import annotations

import pytest

from kscope.fixes.shared_sums import parted

TABLE = """__global__ void k(const Item* items, unsigned* out, int many, int bins) {
  extern __shared__ unsigned bin_of[];
  for (int q = blockIdx.x; q < 5; q += gridDim.x) {
    for (int i = threadIdx.x; i < bins; i += blockDim.x) bin_of[i] = 0u;
    __syncthreads();
    const int end = items[q].size;
    for (int i = threadIdx.x; i < end; i += blockDim.x) {
      const int at = items[q].of(i);
      if (at >= 0) atomicAdd(&bin_of[at], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < bins; i += blockDim.x) atomicAdd(out + i, bin_of[i]);
    __syncthreads();
  }
}"""
ROWS = """__global__ void k(const float* x, float* y, int n) {
  const int tid = threadIdx.x;
  const float* row = x + blockIdx.x * n;
  for (int i = tid; i < n; i += blockDim.x) { float v = row[i]; v *= 2; y[blockIdx.x * n + i] = v; }
}"""


def becomes(code: str) -> str:
    found = parted.parted(code)
    if found is None:
        return ""
    for start, end, new in sorted(parted._spans(code, found), reverse=True):
        code = code[:start] + new + code[end:]
    return code


def test_counts_of_a_block() -> None:
    new = becomes(TABLE)
    assert "int i = blockIdx.y * blockDim.x + threadIdx.x; i < end; i += gridDim.y * blockDim.x) {" in new
    assert "if (bin_of[i]) atomicAdd(out + i, bin_of[i]);" in new
    assert new.count("gridDim.y") == 1 and new.count("int i = threadIdx.x") == 2
    found = parted.parted(TABLE)
    assert found is not None and found.whole and (found.table, len(found.shared)) == ("bin_of", 1)


def test_floats_are_said_to_be_such() -> None:
    found = parted.parted(TABLE.replace("unsigned bin_of", "float bin_of"))
    assert found is not None and not found.whole


def test_rows_of_a_block() -> None:
    assert "int i = blockIdx.y * blockDim.x + threadIdx.x; i < n; i += gridDim.y * blockDim.x) {" in becomes(ROWS)


@pytest.mark.parametrize(
    ("was", "new"),
    [
        ("atomicAdd(out + i, bin_of[i])", "out[i] = bin_of[i]"),  # stored: the blocks' parts are not added
        ("atomicAdd(&bin_of[at], 1u)", "bin_of[at] = 1"),
        ("atomicAdd(&bin_of[at], 1u)", "if (!atomicAdd(&bin_of[at], 1u)) atomicAdd(out, 1u)"),
        ("if (at >= 0)", "if (at >= 0 && bin_of[at] < 9)"),  # a part knows of its own counts alone
        ("= 0u", "= 1u"),
        ("const int end", "out[q] = 0; const int end"),
        ("items[q].size", "items[q + blockIdx.y].size"),
        ("const int at = items[q].of(i);", "at = items[q].of(i) + at;"),
        ("extern __shared__ unsigned bin_of[];", "extern __shared__ unsigned bin_of[]; __shared__ int more[4];"),
    ],
)
def test_other_sums_are_left(was: str, new: str) -> None:
    assert was in TABLE and becomes(TABLE.replace(was, new)) == ""


@pytest.mark.parametrize(
    ("was", "new"),
    [
        ("const int tid", "float last = 0; const int tid"),
        ("float v = row[i];", "float v = row[i]; __syncthreads();"),
        ("float v = row[i];", "if (row[i] < 0) break; float v = row[i];"),
        ("i += blockDim.x", "i += 256"),
    ],
)
def test_other_rows_are_left(was: str, new: str) -> None:
    code = ROWS.replace(was, new)
    code = code.replace("v *= 2;", "last += v; v *= last;") if "last" in new else code
    assert becomes(code) == ""


def test_an_array_of_the_thread() -> None:
    code = ROWS.replace("const int tid", "float last[2]; const int tid").replace("v *= 2;", "last[0] = v;")
    assert becomes(code) == ""
