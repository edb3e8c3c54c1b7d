"""Sums of products of bytes that are kept as integers: the ways to write them, and what is left alone."""

from __future__ import annotations

import pytest

from kscope.fixes.packed.dots import dots
from kscope.fixes.packed.integer_sums import MOST, _same, integers
from tests.support.with_sources import changes

FOUR = "(float)a.x * (float)b.x + (float)a.y * (float)b.y + (float)a.z * (float)b.z + (float)a.w * (float)b.w"
WARP = "__device__ float total(float v) { for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o); return v; }"


def kernel(
    declared: str = "float s = 0;", step: str = f"s += {FOUR};", end: str = "y[i] = s;", loads: str = "",
    kind: str = "char4",
) -> str:  # fmt: skip
    loads = loads or f"{kind} a = w[i * n + j], b = x[j];"
    head = f"__global__ void k(const {kind}* __restrict__ w, const {kind}* x, float* y, int n) {{"
    return f"{head} int i = threadIdx.x; {declared} for (int j = 0; j < n; j++) {{ {loads} {step} }} {end} }}"


def made(code: str, file: str = WARP) -> str | None:
    kept = integers(code, file)
    if kept is None:
        return None
    for start, stop, new in sorted(kept.spans, reverse=True):
        code = code[:start] + new + code[stop:]
    return code


def test_a_capture_has_the_code_of_the_better_version() -> None:
    (fix,) = [f for f in changes("qdot.to_float", "CMP207") if f.kind == "math_function"]
    assert [e.becomes.strip() for e in fix.edits] == [
        "int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32; int s[4] = {};",
        "for (int i = lane; i < k4; i += 32) { int a = reinterpret_cast<const int*>(w)[(size_t)row * k4 + i];",
        "for (int v = 0; v < 4; v++) { int b = reinterpret_cast<const int*>(x)[v * k4 + i]; "
        "s[v] = __dp4a(a, b, s[v]); } }",
        "for (int v = 0; v < 4; v++) { float t = (float)__reduce_add_sync(~0u, s[v]); if (!lane) y[row * 4 + v] = t; }",
    ]
    assert [c.state for c in fix.conditions] == ["proved", "check"]
    assert str(MOST["int"]) in fix.conditions[1].holds


@pytest.mark.parametrize(
    "step",
    [
        f"s += {FOUR};",
        f"s = s + {FOUR};",
        "s += float(a.x) * b.x; s += float(a.y) * b.y; s += float(a.z) * b.z; s += float(a.w) * b.w;",
        "s += (float)(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w);",
        "s = fmaf((float)a.x, (float)b.x, fmaf((float)a.y, b.y, fmaf(a.z, (float)b.z, fmaf(a.w, b.w, s))));",
        "s += static_cast<float>(b.w) * static_cast<float>(a.w) + a.x * b.x + b.y * a.y + b.z * a.z;",
    ],
)
def test_products_in_many_words(step: str) -> None:
    new = made(kernel(step=step))
    assert new is not None
    assert "int s = 0;" in new
    assert "int a = reinterpret_cast<const int*>(w)[i * n + j], b = reinterpret_cast<const int*>(x)[j];" in new
    assert new.count("__dp4a(") == 1 and ".x" not in new.partition("for")[2]
    assert "y[i] = (float)s;" in new


def test_values_that_others_use_keep_their_type() -> None:
    new = made(kernel(step=f"s += {FOUR}; if (a.x > 3) y[0] = 1;"))
    assert new is not None
    assert "char4 a = w[i * n + j], b = x[j];" in new
    assert "s = __dp4a(*reinterpret_cast<const int*>(&a), *reinterpret_cast<const int*>(&b), s);" in new


def test_bytes_without_a_sign_are_summed_without_one() -> None:
    new = made(kernel(kind="uchar4", declared="float t = 1, s = 0.f;"))
    assert new is not None
    assert "unsigned s = 0; float t = 1;" in new
    assert "unsigned a = reinterpret_cast<const unsigned*>(w)[i * n + j]" in new


def test_two_sums_of_one_declaration() -> None:
    other = FOUR.replace("a.", "c.")
    new = made(kernel(declared="float s = 0, t = 0.f, u;", step=f"char4 c = w[j]; s += {FOUR}; t += {other};",
                      end="y[i] = s / t;"))  # fmt: skip
    assert new is not None
    assert "int s = 0, t = 0; float u;" in new
    assert "y[i] = (float)s / (float)t;" in new


@pytest.mark.parametrize(
    ("end", "new"),
    [
        ("s = 0; y[i] = s;", None),
        ("y[i] = total(s) * 2;", "y[i] = (float)__reduce_add_sync(~0u, s) * 2;"),
        ("for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(0xffffffff, s, o); y[i] = s / 3;",
         "s = __reduce_add_sync(0xffffffff, s); y[i] = (float)s / 3;"),
        ("for (int o = 8; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o); y[i] = s;",  # half a warp each
         "for (int o = 8; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o); y[i] = (float)s;"),
        ("for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o); y[i] = s;",  # the other lanes have less
         "for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o); y[i] = (float)s;"),
        ("y[i] = other(s);", "y[i] = other((float)s);"),
    ],
)  # fmt: skip
def test_a_sum_is_converted_where_it_is_read(end: str, new: str | None) -> None:
    text = made(kernel(end=end))
    assert text is None if new is None else text is not None and new in text


def test_chips_without_the_instruction_exchange() -> None:
    text = made(kernel(end="y[i] = total(s);"), file="")
    assert text is not None and "y[i] = total((float)s);" in text


@pytest.mark.parametrize(
    "parts",
    [
        {"step": f"s += {FOUR.replace('b.w', 'b.z')};"},
        {"step": f"s += {FOUR.replace('+ (float)a.z', '- (float)a.z')};"},
        {"step": f"s += q * ({FOUR});"},  # a factor that may be a fraction
        {"step": f"s += {FOUR}; s *= 0.5f;"},
        {"step": f"s += {FOUR}; s += 0.25f;"},
        {"step": f"if (j) s += {FOUR.split(' + ')[0]}; s += {' + '.join(FOUR.split(' + ')[1:])};"},
        {"declared": "float s = y[i];"},
        {"declared": "__shared__ float s; s = 0;"},
        {"declared": "float s = 0; float* p = &s;"},
        {"declared": "double s = 0;"},
        {"declared": "float s = 0; { float s = 1; }"},
        {"loads": "float4 a = w4[j], b = x4[j];"},
        {"loads": "char4 a = w[j]; uchar4 b = x2[j];"},
    ],
)
def test_what_is_more_than_a_sum_of_products_is_left(parts: dict[str, str]) -> None:
    assert made(kernel(**parts)) is None


def test_a_function_that_changes_its_argument_is_left() -> None:
    assert made(kernel(end="add(s); y[i] = s;"), file="__device__ void add(float& v) { v += 1; }") is None


def test_a_test_without_braces_has_one_statement() -> None:
    two = f"if (c) s += {FOUR}; s += {FOUR};"
    assert [two[slice(*d.span)].count(";") for d in dots(two)] == [1, 1]


def test_sums_of_bytes_are_the_same_as_floats() -> None:
    assert _same() == 256


OTHERS = "t += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;"


@pytest.mark.parametrize(
    ("parts", "file"),
    [
        # Names that are of another type elsewhere: products of floats are no products of bytes.
        ({"end": f"y[i] = s; {{ float4 a = u[i], b = v[i]; float t = 0; {OTHERS} y[i] += t; }}"}, ""),
        ({"declared": f"float s = 0, t = 0; for (int j = 0; j < n; j++) {{ float4 a = u[j], b = a; {OTHERS} }}",
          "end": "y[i] = s + t;"}, ""),
        ({"end": "y[i] = s; auto f = [](int s) { return s / 2; };"}, ""),
        # Names that stand for more than the value that they have there.
        ({"declared": "float s = 0; const float& r = s;", "end": "y[i] = r;"}, ""),
        ({"declared": "float s = 0; auto& r = s;", "end": "y[i] = r;"}, ""),
        ({"end": "auto f = [&s] { return s; }; y[i] = f();"}, ""),
        ({"end": 'asm("add.f32 %0, %0, %0;" : "+f"(s)); y[i] = s;'}, ""),
        ({"end": "add(1.f, s); y[i] = s;"}, "__device__ void add(float v, float& t) { t += v; }"),
        ({"end": "add(s); y[i] = s;"}, "template <class T> __device__ void add(T& t) { t += 1; }"),
        ({"declared": "float s = 0, u = 1;", "end": "swap(u, s); y[i] = s;"}, ""),
    ],
)  # fmt: skip
def test_names_that_are_something_else_too_are_left(parts: dict[str, str], file: str) -> None:
    assert made(kernel(**parts), file) is None
