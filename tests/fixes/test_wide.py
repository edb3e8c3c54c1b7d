"""Neighbours of a flat index whose place is told by divisions, several a thread."""

from __future__ import annotations

import pytest

from kscope.fixes.algebra.wide import _same, by_lines, widened
from kscope.fixes.rows.function import Function, _read
from tests.support.with_sources import changes

HEAD = "__global__ void k(const float* x, const int* at, float* y, const double* w, double* z, int n, int c, int h) {"
FLAT = "int i = blockIdx.x * 128 + threadIdx.x; "


def kernel(*lines: str) -> Function:
    made = _read("k.cu", [HEAD, *lines, "}"], "k", 1, [], None)
    assert made is not None
    return made


def rewritten(*lines: str) -> str | None:
    fn = kernel(*lines)
    one = widened(fn)
    if one is None or _same(fn, one, 128, {}) is None:
        return None
    text = fn.code
    for start, end, new in sorted(one.spans, reverse=True):
        text = text[:start] + new + text[end:]
    return " ".join(text[len(HEAD) :].split())


@pytest.mark.parametrize(("case", "name"), [("voxels.one", "c"), ("swap_heads.division", "D")])
def test_captures_that_divide_for_each_element(case: str, name: str) -> None:
    fix = changes(case, "CMP205")[0]
    assert fix.kind == "vector_access" and "* 4" in fix.edits[0].becomes
    assert "= *(const float4*)&x[" in fix.edits[1].becomes
    assert fix.conditions[0].state == "proved" and fix.conditions[0].by == "values" and fix.conditions[0].ran > 500
    assert (fix.conditions[1].holds, fix.conditions[1].state) == (f"{name} is a multiple of 4", "check")
    assert fix.proof[0].before == 4 * fix.proof[0].after and fix.price is not None


def test_what_becomes_of_an_element_stands_in_a_loop_over_the_group() -> None:
    new = rewritten(FLAT + "if (i >= n * h) return;", "int row = i / h, col = i - row * h;",
                    "float v = x[i] * at[row];", "y[row * h + col] += v + col;")  # fmt: skip
    assert new == (
        "int i = (blockIdx.x * 128 + threadIdx.x) * 4; if (i >= n * h) return; int row = i / h, col = i - row * h; "
        "float x_of[4]; float y_of[4]; *(float4*)x_of = *(const float4*)&x[i]; "
        "*(float4*)y_of = *(const float4*)&y[row * h + col]; #pragma unroll "
        "for (int element_n = 0; element_n < 4; element_n++) { float v = x_of[element_n] * at[row]; "
        "y_of[element_n] += v + (col + element_n); } *(float4*)&y[row * h + col] = *(float4*)y_of; }"
    )


def test_doubles_are_two_a_thread_and_known_sizes_need_no_condition() -> None:
    fn = kernel("int i = threadIdx.x + blockIdx.x * 128;", "if (i < n * c) z[at[i / c] * c + i % c] = w[i];")
    one = widened(fn)
    assert one is not None and (one.size, one.multiples, one.ends) == (2, ("c",), ())
    fn = kernel(FLAT, "if (i < n) { int q = i % 64, p = i / 64 % h; y[at[p] * 64 + q] = x[i]; }")
    one = widened(fn)
    assert one is None  # no division by a number of the launch for a group
    fn = kernel(FLAT, "if (i < n) { int q = i % 64, p = i / (64 * h); y[at[p] * 64 + q] = x[i]; }")
    one = widened(fn)
    assert one is not None and one.multiples == () and one.ends == ("n",)


@pytest.mark.parametrize(
    "lines",
    [
        "if (i < n * c) { int v = i / c, q = i % c; y[q * n + v] = x[i]; }",  # neighbours lie apart
        "if (i < n * c) { int v = i / c, q = i % c; y[i] = x[v * c + q + 1]; }",  # no vector is aligned there
        "if (i < n * c) { int v = i / c, q = i % c; y[v] = x[i]; }",  # one place for all
        "if (i < n * c) { int v = i / c, q = i % c; y[v * c + q] = y[i]; }",  # what is stored is read elsewhere
        "if (i < n * c) { int v = (i + 1) / c; y[i] = x[i] + v; }",  # a group is in two rows
        "if (i < n * c) { int v = i / c, q = i % c; y[i] = x[i] + v; __syncthreads(); }",
        "if (i < n * c) { int v = i / c, q = i % c; if (q > 3) y[i] = x[i] + v; }",  # not all of a group
        "if (i < n * c && i % c > 2) { int v = i / c; y[i] = x[i] + v; }",
        "if (i < n * c) { int v = i / c; y[i] = x[i] + v; } y[0] = 1;",  # something stands behind it
        "if (i < n * c) { int v = i / c; y[i] = x[i] + v + threadIdx.x; }",  # another index of the thread
        "if (i < n * c) { int v = i / c; y[i] = x[i] + v; i++; }",
        "if (i < n * c) y[i] = x[i];",  # nothing is divided
    ],
)
def test_groups_that_are_no_vectors_stay(lines: str) -> None:
    assert rewritten(FLAT, lines) is None


def test_a_span_over_several_lines_is_one_a_line() -> None:
    assert by_lines("abc\nde\nfg", [(1, 8, "X")]) == [(1, 3, "X"), (4, 6, ""), (7, 8, "")]
