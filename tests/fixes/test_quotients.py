"""Divisions of floats by the intrinsic."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kscope.fixes.accuracy import reciprocals
from kscope.fixes.accuracy.quotients import _floats, _integers, _several, divided
from kscope.fixes.accuracy.spots import for_host, lines_of
from tests.support.with_sources import changes

HEADER = "/usr/local/cuda-13.0/targets/x86_64-linux/include/cuda_fp16.hpp"


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("x = a / b;", "x = __fdividef(a, b);"),
        ("return max(range / level, LEAST);", "return max(__fdividef(range, level), LEAST);"),
        ("x = s + (o + i * v - t) * d / e;", "x = s + __fdividef((o + i * v - t) * d, e);"),
        ("y = a / b / c;", "y = __fdividef(__fdividef(a, b), c);"),
        ("y = 2.f * p.x[i + 1] / (s->w * 3.f) + u;", "y = __fdividef(2.f * p.x[i + 1], (s->w * 3.f)) + u;"),
        ("o = -a / -b;", "o = -__fdividef(a, -b);"),
        ("u = f(-x) / (1.f + f(-x));", "u = __fdividef(f(-x), (1.f + f(-x)));"),
        ("d = g((float)(x + 1) / (float)h) - g((float)x / (float)h);",
         "d = g(__fdividef((float)(x + 1), (float)h)) - g(__fdividef((float)x, (float)h));"),
        ("int q = n / 32; float f = 1.f / x;", "int q = n / 32; float f = __fdividef(1.f, x);"),
    ],
)  # fmt: skip
def test_a_division_has_its_operands(line: str, new: str) -> None:
    assert divided(line, {"a"})[0] == new


@pytest.mark.parametrize(
    "line",
    [
        "y = 1.0 / x;",  # of doubles
        "r = a % b / c;",
        "w = f<T>(a) / b;",
        "v /= b;",
        "i = n / m + k / m;",  # two, and nothing says that they are floats
        "if (a) / b;",
    ],
)
def test_what_may_be_something_else_stays(line: str) -> None:
    assert divided(line) == (line, 0)


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("y = a / static_cast<float>(n);", "y = __fdividef(a, static_cast<float>(n));"),
        ("y = a / std::max<float>(s, 1e-3f);", "y = __fdividef(a, std::max<float>(s, 1e-3f));"),
        ("y = a / (scalar_t)n * s;", "y = __fdividef(a, (scalar_t)n) * s;"),
        ("y = (size_t)a / s;", "y = __fdividef((size_t)a, s);"),  # cut off before it is divided
        ("y = *p / s;", "y = __fdividef(*p, s);"),
        ("return *p / s;", "return __fdividef(*p, s);"),
        ("y[threadIdx.x / 32] = a / s;", "y[threadIdx.x / 32] = __fdividef(a, s);"),  # x is a name of floats, too
        ("int b = (int)x / w; y = x / s;", "int b = (int)x / w; y = __fdividef(x, s);"),
        ("k = __float2int_rn(x) / n + a / s;", "k = __float2int_rn(x) / n + __fdividef(a, s);"),
        ("k = b / sizeof(float); y = a / s;", "k = b / sizeof(float); y = __fdividef(a, s);"),
        ("k = near(x) / n + a / s;", "k = near(x) / n + __fdividef(a, s);"),
        ("y = SCALED(x) + n / 4;", "y = SCALED(x) + n / 4;"),  # the division of floats is in the macro
        ("y = half_of(x)[n / m];", "y = half_of(x)[n / m];"),
        ("y = g(x) + k / n;", "y = g(x) + k / n;"),
        ("y = a / s++;", "y = a / s++;"),
        ("y = ++k / s;", "y = ++k / s;"),
        ("y = h / h;", "y = h / h;"),  # of halves, whose products with floats do not compile
        ("constexpr float third = 1.f / 3;", "constexpr float third = 1.f / 3;"),
    ],
)  # fmt: skip
def test_operands_are_what_they_are(line: str, new: str) -> None:
    text = "const float* x, float a, float s, int w, int n, int k) { const __half h = 1;"
    assert divided(line, _floats(text), _several(text), _integers(text))[0] == new


def test_types_of_the_file_are_no_numbers() -> None:
    lines = ["struct Color {", "typedef struct { float x; } Ray;"]
    assert _several("Ray r, float s) { Color c = 1;", lines) == {"r", "c"}


def test_functions_of_the_host_have_no_intrinsics() -> None:
    lines = ["#define BOTH __host__ __device__", "BOTH float f(float x) {", "  return 1 / x;", "}",
             "__global__ void g(float* x) {", "  x[0] = 1 / x[1];", "}", "__host__ __device__", "float h(float x) {",
             "  return 1 / x;", "}"]  # fmt: skip
    assert [n for n in range(1, 12) if for_host(lines, n)] == [2, 3, 4, 8, 9, 10, 11]


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("n = n / l;", 0),  # an operator of the library's
        ("n = at[k] / l;", 0),
        ("n = make_float3(x, y, z) / l;", 0),
        ("d = f(n) / l;", 0),  # may be one
        ("d = n.x / l;", 1),
        ("d = at[k].y / n.z;", 1),
        ("d = dot(n, n) / l;", 1),
    ],
)
def test_vectors_are_no_operands(line: str, count: int) -> None:
    """A public kernel's `n = n / l` of float3 did not compile with the intrinsic."""
    several = _several("float4* at, float s) { float3 n = cross(a, b); const float l = length(n); int2 p; unsigned w;")
    assert several == {"at", "n", "p"}
    assert divided(line, {"l"}, several)[1] == count


HEAD = "__global__ void k(float* x, float* y, int n, float s, int w) {"


@pytest.mark.parametrize(
    ("was", "new"),
    [
        (["  for (int k = 0; k < n; k++) y[k] = x[k] / s;"],
         ["  float inverse_s = 1.f / s; for (int k = 0; k < n; k++) y[k] = x[k] * inverse_s;"]),
        (["  for (int k = 0; k < n; k++)", "    y[k] = x[k / w] / s + 1 / s;"],
         ["  float inverse_s = 1.f / s;\n  for (int k = 0; k < n; k++)",
          "    y[k] = x[k / w] * inverse_s + 1 * inverse_s;"]),
        (["  #pragma unroll", "  for (int k = 0; k < 4; k++) y[k] = x[k] / s;"],
         ["  float inverse_s = 1.f / s;\n  #pragma unroll", "  for (int k = 0; k < 4; k++) y[k] = x[k] * inverse_s;"]),
        (["  int before; for (int k = 0; k < n; k++) y[k] = x[k] / s;"],
         ["  int before; float inverse_s = 1.f / s; for (int k = 0; k < n; k++) y[k] = x[k] * inverse_s;"]),
        (["  float inverse_s; for (int k = 0; k < n; k++) y[k] = 1 / s;"],
         ["  float inverse_s; float s_inverse = 1.f / s; for (int k = 0; k < n; k++) y[k] = 1 * s_inverse;"]),
        (["  for (int k = 0; k < n; k++) y[k] = /* no */ s * x[k] / s;"],
         ["  float inverse_s = 1.f / s; for (int k = 0; k < n; k++) y[k] = /* no */ s * x[k] * inverse_s;"]),
    ],
)  # fmt: skip
def test_a_reciprocal_before_the_loop(was: list[str], new: list[str]) -> None:
    lines = [HEAD, *was]
    (one,) = reciprocals.divided(lines, len(lines))
    made = reciprocals.edited(lines, len(lines), one)
    assert [made.get(n, line) for n, line in enumerate(lines, 1)][1:] == new


@pytest.mark.parametrize(
    "lines",
    [
        ["  if (n > 2) for (int k = 0; k < n; k++) y[k] = x[k] / s;"],  # two statements where there is one
        ["  if (n > 2)", "    for (int k = 0; k < n; k++) y[k] = x[k] / s;"],
        ["  for (int k = 0; k < n; k++) { float v = x[k / w]; y[k] = v; }"],  # of integers
        ["  for (float t = 1; t < n; t += 1) y[0] += 1 / t;"],
        ["  for (int k = 0; k < n; k++) { float t = x[k]; y[k] = 1 / t; }"],
        ["  for (int k = 0; k < n; k++) { y[k] = x[k] / s; s += 1; }"],
        ["  float* p = &s; for (int k = 0; k < n; k++) { *p += 1; y[k] = x[k] / s; }"],
        ["  { float w = 1; } for (int k = 0; k < n; k++) y[k] = x[k / w];"],  # which of the two
    ],
)
def test_no_reciprocal_before_the_loop(lines: list[str]) -> None:
    assert reciprocals.divided([HEAD, *lines], len(lines) + 1) == []


def test_a_capture_that_divides_by_a_value_of_each_lane() -> None:
    (fix,) = changes("softmax128.block", "CMP204")
    assert fix.edits[0].becomes.endswith("__float2half(__fdividef(e, s));")
    assert fix.proof[0].before > 20 * fix.proof[0].after > 0
    assert [c.state for c in fix.conditions] == ["check"]


def test_lines_that_another_change_has_are_not_changed_twice() -> None:
    assert [f.title for f in changes("potential.ieee", "CMP204")] == ["rsqrtf"]


def test_a_line_that_calls_what_divides_stays() -> None:
    inner, outer = ["float f(float a, float b) {", "  return a / b;", "}"], ["  x = f(n / 4, y);"]
    texts = {"inner.cu": inner, "outer.cu": outer, HEADER: inner}
    sites = [("inner.cu", 2), ("outer.cu", 1)]
    where = SimpleNamespace(sites=lambda i: sites, lines=texts.__getitem__)
    assert [(p.file, p.number) for p in lines_of(where, 0)] == sites  # type: ignore[arg-type]
    sites[0] = (HEADER, 2)
    assert [(p.file, p.number) for p in lines_of(where, 0)] == sites[1:]  # type: ignore[arg-type]
