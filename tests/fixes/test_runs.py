"""Rows that are added to places of an index: those of one place are summed up by their block."""

from __future__ import annotations

import pytest

from kscope.fixes.atomics.reading import Kernel, read
from kscope.fixes.given.text import Text
from kscope.fixes.order.runs import rows, same, written
from tests.support.with_sources import changes

HEAD = (
    "__global__ void add(const int64_t* __restrict__ where, const int* __restrict__ two, const float* x, float* y, "
    "int width) {\n"
)
FILE = ["constexpr int WIDE = 70;", "__device__ float half_of(float v) { return v * 0.5f; }"]
COLUMNS = """  const int row = blockIdx.x;
  const int64_t to = where[row];
  for (int c = threadIdx.x; c < width; c += blockDim.x) {
    float v = half_of(x[row * width + c]);
    atomicAdd(&y[to * width + c], v * 3);
  }
}"""
GUARDED = """  int c = threadIdx.x;
  if (c >= width) return;
  atomicAdd(y + two[blockIdx.x * 2 + 1] * WIDE + c, x[blockIdx.x * WIDE + c]);
}"""


def kernel(body: str) -> Kernel:
    code = HEAD + body
    one = read(Text("a.cu", 3, code), "add", [*FILE, *code.split("\n")])
    assert one is not None
    return one


def test_the_capture_of_an_embeddings_gradient() -> None:
    *_, fix = changes("embed_grad.scatter", "MEM109")
    first, *rest = fix.edits
    assert all(not e.becomes for e in rest)
    assert "value_n[round_n] = g[(size_t)block_n * ED + threadIdx.x];" in first.becomes
    assert "atomicAdd(&out[(size_t)key_n[round_n] * ED + threadIdx.x], sum_n);" in first.becomes
    assert fix.code == "embed_grad_scatter<<<1024, 256>>>(...);"
    assert fix.conditions[0].state == "proved" and fix.conditions[0].ran > 1000
    assert sum(c.state == "check" for c in fix.conditions) == 3
    assert not changes("embed_grad.runs", "MEM109")


@pytest.mark.parametrize(("body", "key"), [(COLUMNS, "int64_t"), (GUARDED, "int")], ids="cg")
@pytest.mark.parametrize("count", [32, 16])
def test_variants_come_out_the_same(body: str, key: str, count: int) -> None:
    whole = kernel(body)
    one = rows(whole)
    assert one is not None and one.whole == key
    new = written(one, count)
    assert f"__shared__ {key} key_n[{count}];" in new
    assert same(whole, one, new, 64, count) > 100
    if count == 32:
        return
    for old, wrong in (
        ("sum_n = 0;\n    ", "\n"),
        ("round_n < threadIdx.x)", "round_n > 99)"),  # rows of one index lose each other
        (f"blockIdx.x * {count} + row_n[round_n]", f"blockIdx.x * {count} + round_n"),
        (f"round_n == {count - 1} || ", ""),
    ):
        assert old in new and same(whole, one, new.replace(old, wrong), 64, count) == 0, old


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("where[row]", "where[row + threadIdx.x]"),  # another place for each thread
        ("where[row]", "where[0]"),  # no rows of an index
        ("* 3);", "* 3); y[c] = 0;"),
        ("float v =", "__syncthreads(); float v ="),
        ("x[row * width + c]", "y[row * width + c]"),
        ("x[row * width + c]", "x[row * width + c] + blockIdx.y"),
        ("const int row = blockIdx.x;", "const int row = blockIdx.x; if (two[row]) return;"),
        ("float v =", "if (two[row]) continue; float v ="),
        ("where[row];", "where[row]; if (to < 0) return;"),
        ("c < width", "c < width - blockIdx.x"),
    ],
)
def test_what_is_left(old: str, new: str) -> None:
    assert old in COLUMNS and rows(kernel(COLUMNS.replace(old, new))) is None


def test_an_index_that_the_kernel_may_write_stays() -> None:
    assert rows(kernel(GUARDED.replace("c >= width", "c >= width || two[blockIdx.x]"))) is None
    text = HEAD.replace("const int* __restrict__ two", "int* two") + GUARDED
    one = read(Text("a.cu", 3, text), "add", FILE)
    assert one is not None and rows(one) is None
