"""Rows with columns by anything but a product: which kernels are that and nothing else."""

from __future__ import annotations

import re

import pytest

from kscope.fixes.compute import crossed, product
from tests.support.altered import told

CODE = """__global__ void f(const float* __restrict__ a, const float* b, float* y, int m, int d) {
  int j = blockIdx.x * 32 + threadIdx.x % 32, i = blockIdx.y * 8 + threadIdx.x / 32; float s = 1e30f;
  for (int k = 0; k < d; k++) s = fminf(s, a[(size_t)i * d + k] + 2 * b[(size_t)k * m + j]);
  y[(size_t)i * m + j] = s;
}"""


def test_smallest_sums() -> None:
    one = crossed.crossed(CODE)
    assert one is not None
    assert (one.a, one.b, one.c, one.d, one.m, one.first) == ("a", "b", "y", "d", "m", "1e30f")
    assert one.step == "sum[i][j] = fminf(sum[i][j], u[i] + 2 * v[j]);"
    assert (one.rows, one.columns) == (("y", 8, 32), ("x", 32, 32))
    assert not one.product
    assert crossed._dealt(one, (256, 1, 1)) and not crossed._dealt(one, (128, 1, 1))
    assert all(crossed._played(tile, each) for tile, each, _ in crossed.SHAPES)


def test_the_other_order_and_own_axes() -> None:
    code = CODE.replace("a[(size_t)i * d + k] + 2 * b[(size_t)k * m + j]", "b[k * m + j] - a[i * d + k]")
    code = code.replace("threadIdx.x % 32", "threadIdx.x").replace("threadIdx.x / 32", "threadIdx.y")
    one = crossed.crossed(code)
    assert one is not None and one.step == "sum[i][j] = fminf(sum[i][j], v[j] - u[i]);"
    assert crossed._dealt(one, (32, 8, 1)) and not crossed._dealt(one, (8, 32, 1))


@pytest.mark.parametrize(
    ("kind", "first", "was", "becomes"),
    [
        ("int", "INT_MAX", "s = min(s, a + b)", "sum[i][j] = min(sum[i][j], u[i] + v[j]);"),
        ("int", "-1", "s = max(min(b, a), s)", "sum[i][j] = max(sum[i][j], min(v[j], u[i]));"),
        ("unsigned int", "0", "s |= a & b", "sum[i][j] |= u[i] & v[j];"),
        ("float", "0", "s += fabsf(a - b)", "sum[i][j] += fabsf(u[i] - v[j]);"),
    ],
)
def test_other_types_and_operations(kind: str, first: str, was: str, becomes: str) -> None:
    step = re.sub(r"\bb\b", "b[k * m + j]", re.sub(r"\ba\b", "a[i * d + k]", was))
    text = CODE.replace("float", kind).replace("1e30f", first)
    text = text.replace("s = fminf(s, a[(size_t)i * d + k] + 2 * b[(size_t)k * m + j])", step)
    one = crossed.crossed(text)
    assert one is not None and (one.kind, one.first, one.step) == (kind, first, becomes)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("= 1e30f", "= i"),  # another start for each
        ("float s", "int s"),
        ("+ 2 * b", "+ u * b"),
        ("(size_t)k * m + j", "(size_t)j * m + k"),  # rows with rows
        ("(size_t)i * m + j] = s", "(size_t)j * m + i] = s"),
        ("] = s;", "] = s * 2;"),
        ("s = fminf(s,", "s = fmaf(s, 2,"),
        ("+ 2 * b", "+ m * b"),  # something else of the kernel's
        ("+ 2 * b", "+ s * b"),
        ("+ 2 * b", "+ g(2) * b"),
        ("k < d", "k < m"),
        ("int k = 0", "int k = 1"),
        ("for (int k", "if (i > 3) return; for (int k"),
        ("const float* b", "const half* b"),
        ("blockIdx.y * 8", "blockIdx.y * n"),
    ],
)
def test_anything_else_is_left_alone(was: str, becomes: str) -> None:
    assert crossed.crossed(CODE.replace(was, becomes)) is None


def test_square_products_are_told_once() -> None:
    was = "s = fminf(s, a[(size_t)i * d + k] + 2 * b[(size_t)k * m + j])"
    text = CODE.replace(was, "s += a[i * d + k] * b[k * d + j]")
    one = crossed.crossed(text.replace("i * m + j", "i * d + j"))
    assert one is not None and one.product


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("  y[(size_t)i", "  s = sqrtf(s);\n  y[(size_t)i"),
        ("  y[(size_t)i", "  s *= 3; y[(size_t)i"),
        ("] = s;", "] = s; y[3] += s;"),
        ("] = s;", "] = s; y[i] = s * 2;"),
        ("float s = 1e30f;", "float s = 1e30f; y[i] = 3;"),
        ("float s = 1e30f;", "float s = 1e30f; s -= 3;"),
        ("float s = 1e30f;", "float s = 1e30f; put(j);"),
    ],
)
def test_kernels_that_do_more(was: str, becomes: str) -> None:
    assert was in CODE and crossed.crossed(CODE) is not None
    assert crossed.crossed(CODE.replace(was, becomes)) is None


FLOATS = ("gemm_f32.naive", "MEM112", product.fixes)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("float sum = 0", "double sum = 0"),
        ("float sum = 0", "int sum = 0"),
        ("float sum = 0", "float sum = A[0]"),
        ("sum += A[(size_t)row * N + k] *", "sum += (int)A[(size_t)row * N + k] *"),
        ("sum += A[(size_t)row * N + k] *", "sum += floorf(A[(size_t)row * N + k]) *"),
        ("= sum;", "= (int)sum;"),
        ("= sum;", "= fmaxf(sum, 0);"),
        ("= sum;", "= sum; C[0] = 3;"),
        ("k < N; k++", "k <= row; k++"),
    ],
)
def test_products_that_are_no_plain_ones(was: str, becomes: str) -> None:
    assert told(*FLOATS) and not told(*FLOATS, (was, becomes))
