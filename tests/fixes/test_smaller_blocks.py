"""Blocks that can be made smaller without another thread in any place."""

from __future__ import annotations

import pytest

from kscope.fixes.shared_sums import smaller

CODE = """__global__ void k(const int2* runs, int many, float* out) {
  int run = blockIdx.y * blockDim.y + threadIdx.y, part = threadIdx.x;
  if (run >= many) return;
  float sum = 0;
  for (int i = runs[run].x; i < runs[run].y; i++) sum += in[i * 8 + part];
  out[run * 8 + part] = sum;
}"""


def test_rows_of_a_block() -> None:
    assert smaller.counted(CODE, "y")
    turned = "threadIdx.y + blockIdx.y * blockDim.y"
    assert smaller.counted(CODE.replace("blockIdx.y * blockDim.y + threadIdx.y", turned), "y")


@pytest.mark.parametrize(
    ("was", "new"),
    [
        ("blockIdx.y * blockDim.y", "blockIdx.y * 128"),
        ("blockIdx.y * blockDim.y", "blockIdx.y * blockDim.x"),
        ("float sum = 0", "float sum = blockIdx.y"),
        ("float sum = 0", "float sum = threadIdx.y"),
        ("float sum = 0", "float sum = gridDim.y"),
        ("float sum = 0", "__shared__ float all[8]; float sum = 0"),
        ("out[run * 8", "__syncwarp(); out[run * 8"),
        ("float sum = 0", "const int own = threadIdx.y; float sum = own"),
    ],
)
def test_what_asks_for_the_block(was: str, new: str) -> None:
    assert was in CODE and not smaller.counted(CODE.replace(was, new), "y")


def test_loops_over_the_grid_by_a_macro() -> None:
    code = "__global__ void k(int n, float* x) { CUDA_1D_KERNEL_LOOP(i, n) { x[i] *= 2; } }"
    assert smaller.counted(code, "x") and not smaller.counted(code, "y")
    assert not smaller.counted(code.replace("x[i] *= 2", "x[i] = blockIdx.x"), "x")
    assert not smaller.counted(code.replace("CUDA_1D_KERNEL_LOOP", "MY_LOOP"), "x")
