"""Functions behind a pointer that are called by name."""

from __future__ import annotations

import pytest

from kscope.fixes.algebra.called import handed, named
from kscope.fixes.given.text import Text
from tests.support.with_sources import changes

FILE = """using Step = float (*)(float, const float *);
__device__ float half_of(float v, const float* p) { return v * p[0]; }
__device__ float twice(float v, float const w) { return v * 2 + w; }
__device__ __forceinline__ float more(float x, const float *q) { return x + q[1]; }
template <typename Op> __device__ void all(float* y, Op op, int n) { y[n] = op(y[n], y); }
__device__ Step table[2] = {half_of, more};
__device__ void none(float* y, Step op, int n) { y[n] = op(y[n], y); }
"""


def rewritten(kernel: str, file: str = FILE) -> str | None:
    one = handed(file + kernel, Text("", file.count("\n") + 1, kernel), "k")
    spans = named(file + kernel, kernel, "k", one) if one is not None else []
    for start, end, new in sorted(spans, reverse=True):
        kernel = kernel[:start] + new + kernel[end:]
    return kernel if spans else None


def test_the_capture_whose_potential_is_behind_a_pointer() -> None:
    (fix,) = changes("potential.pointer", "MEM105")
    assert fix.kind == "register" and fix.price is not None
    edit = fix.edits[0].becomes.split("\n")
    assert edit[0].startswith("__device__ __noinline__ void cells_pointer_by_pointer(float* __restrict__ out, const")
    assert edit[0].endswith("Potential f) { cells(out, params, f); }")
    assert edit[2] == "  if (f == point_mass) cells(out, params, [](auto... a) { return point_mass(a...); });"
    assert edit[3:] == ["  else cells_pointer_by_pointer(out, params, f);", "}"]
    assert [c.state for c in fix.conditions] == ["assumed", "check", "check"]
    assert (fix.proof[0].before, fix.proof[0].after) == (262144, 0)


def test_each_function_whose_address_is_taken_is_a_way_of_its_own() -> None:
    new = rewritten("__global__ void k(float* y, Step s, int n) { all(y, s, n); }")
    assert new == (
        "__device__ __noinline__ void k_by_pointer(float* y, Step s, int n) { all(y, s, n); }\n"
        "__global__ void k(float* y, Step s, int n) {\n"
        "  if (s == half_of) all(y, [](auto... a) { return half_of(a...); }, n);\n"
        "  else if (s == more) all(y, [](auto... a) { return more(a...); }, n);\n"
        "  else k_by_pointer(y, s, n);\n}"
    )


def test_a_kernel_that_calls_itself_becomes_a_function_of_what_it_calls() -> None:
    kernel = "__global__ void k(float* y, float (*go)(float, const float*), int n) {\n  if (n > 3) return;\n" \
             "  y[n] = go(y[n], y);\n}"  # fmt: skip
    assert rewritten(kernel) == (
        "template <class Called> __device__ __forceinline__ void k_of(float* y, Called go, int n) "
        "{\n  if (n > 3) return;\n  y[n] = go(y[n], y);\n}\n"
        "__device__ __noinline__ void k_by_pointer(float* y, float (*go)(float, const float*), int n) "
        "{ k_of(y, go, n); }\n"
        "__global__ void k(float* y, float (*go)(float, const float*), int n) {\n"
        "  if (go == half_of) k_of(y, [](auto... a) { return half_of(a...); }, n);\n"
        "  else if (go == more) k_of(y, [](auto... a) { return more(a...); }, n);\n"
        "  else k_by_pointer(y, go, n);\n}"
    )


@pytest.mark.parametrize(
    "kernel",
    [
        "__global__ void k(float* y, Step s, int k_by_pointer) { all(y, s, k_by_pointer); }",
        "__global__ void k(float* y, Step s, int n) { none(y, s, n); }",  # takes a pointer and nothing else
        "__global__ void k(float* y, Step s, Step t, int n) { y[n] = s(t(y[0], y), y); }",  # two of them
        "__global__ void k(float* y, float (*s)(float, float), int n) { y[n] = s(y[n], 1); }",  # nobody takes twice's
        "__global__ void k(float* y, double (*s)(float, const float*), int n) { y[n] = s(y[n], y); }",
        "__global__ void k(float* y, Step s, int n) { __shared__ float t[32]; y[n] = s(t[n], y); }",
        "__global__ void k(float* y, Step s, int n) { keep(s); y[n] = s(y[n], y); }",  # it goes elsewhere, too
        "__global__ void k(float* y, Other s, int n) { y[n] = s(y[n], y); }",
        "__global__ void k(float* y, int n) { y[n] = half_of(y[n], y); }",
    ],
)
def test_pointers_whose_functions_are_not_told_stay(kernel: str) -> None:
    assert rewritten(kernel) is None


def test_a_function_that_has_two_bodies_is_none_that_is_known() -> None:
    kernel = "__global__ void k(float* y, Step s, int n) { all(y, s, n); }"
    twice = FILE + "__device__ float more(float x, const float* q) { return x; }\n"
    new = rewritten(kernel, twice)
    assert new is not None and "more" not in new
