"""Blocks of one warp side by side: what becomes of a text, and which ones are left."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.fixes.given.text import Text
from kscope.fixes.shared_sums import abreast

CODE = """template <typename T> __global__ void k(const T* x, T* y, int n) {
  __shared__ T part[32 + 4];
  __shared__ int last;
  const int row = blockIdx.x, lane = threadIdx.x;
  if (lane == 0) last = n;
  part[lane] = x[row * blockDim.x + lane];
  __syncthreads();
  if (last > 3) __syncthreads(); else y[row] = 0;
  y[row * gridDim.y + blockIdx.y] = part[(lane + 1) % 32] + last;
}
template __global__ void k<float>(const float*, float*, int);"""


def becomes(code: str, axis: str = "x") -> str:
    for start, end, new in sorted(abreast.abreast(code, axis, 2), reverse=True):
        code = code[:start] + new + code[end:]
    return code


def test_each_warp_has_its_own() -> None:
    new = becomes(CODE)
    assert "__shared__ T part_of[2][32 + 4]; auto& part = part_of[threadIdx.y];" in new
    assert "__shared__ int last_of[2]; auto& last = last_of[threadIdx.y];" in new
    assert "row = (blockIdx.x * blockDim.y + threadIdx.y), lane" in new
    assert new.count("(blockDim.x <= 32 ? __syncwarp() : __syncthreads());") == 2


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_it_compiles(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(becomes(CODE))
    subprocess.run(["nvcc", "-arch=sm_90", "-c", "-o", "k.o", "k.cu"], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    ("was", "new", "above"),
    [
        ("row = blockIdx.x", "row = blockIdx.x + LAST", "#define LAST (gridDim.x - 1)"),
        ("__syncthreads();\n  if", "MEET;\n  if", "#define MEET __syncthreads()"),
        ("void k(", "void __launch_bounds__(32) k(", ""),  # more threads could not be launched
        ("__global__ void k(", "__launch_bounds__(32)\n__global__ void k(", ""),
    ],
)
def test_what_is_said_elsewhere_keeps_blocks_as_they_are(was: str, new: str, above: str) -> None:
    lines = [above, *CODE.replace(was, new).split("\n")]
    first = next(n for n, line in enumerate(lines, 1) if "__global__" in line)
    assert abreast.fixed(Text("k.cu", first, "\n".join(lines[first - 1 :])), lines)
    assert not abreast.fixed(Text("k.cu", 1, CODE), CODE.split("\n"))


@pytest.mark.parametrize(
    ("was", "new"),
    [
        ("__shared__ int last;", "__shared__ int last; int part_of = 0;"),
        ("lane = threadIdx.x", "lane = threadIdx.x + threadIdx.y"),
        ("row = blockIdx.x", "row = blockIdx.x + gridDim.x"),
        ("row = blockIdx.x", "row = place(blockIdx).x"),
        ("row = blockIdx.x", "row = blockIdx.x + of(threadIdx)"),
        ("int last;", "int last, first;"),
        ("T part[32 + 4]", "T part[]"),
        ("__syncthreads();\n  if", "if (__syncthreads_or(lane == 3)) return;\n  if"),
    ],
)
def test_others_are_left(was: str, new: str) -> None:
    code = CODE.replace("__shared__ T part", "extern __shared__ T part") if new == "T part[]" else CODE
    code = code.replace(was, new)
    assert code != CODE and becomes(code) == code
