"""Divisions by roots: which ones become products, and in which texts."""

from __future__ import annotations

import pytest

from kscope.fixes.accuracy import powers
from kscope.fixes.algebra import roots
from kscope.fixes.given.text import Text


def becomes(code: str) -> str:
    spans = roots.divided(Text("f.cu", 1, code))
    for start, end, new in sorted(spans, reverse=True):
        code = code[:start] + new + code[end:]
    return code


@pytest.mark.parametrize(
    ("was", "new"),
    [
        ("double d; y = 1.0 / sqrt(d);", "double d; y = rsqrt(d);"),
        ("float d; y = -a / sqrt(d * d) + 1;", "float d; y = -a * rsqrt(d * d) + 1;"),
        ("double d; y = 5e-1 / sqrt(d);", "double d; y = 5e-1 * rsqrt(d);"),
        ("real d; y = 0.1 / std::sqrt(d);", "real d; y = 0.1 * rsqrt(d);"),
        ("double d; { const double r = sqrt(d + 1); x += a / r; y += b / r; }",
         "double d; { const double r = rsqrt(d + 1); x += a * r; y += b * r; }"),
        ("double d; { double r = sqrt(d); x = a / r; } { double r = sqrt(d); y = r; }",
         "double d; { double r = rsqrt(d); x = a * r; } { double r = sqrt(d); y = r; }"),
    ],
)  # fmt: skip
def test_divisions_by_roots(was: str, new: str) -> None:
    assert becomes(was) == new


@pytest.mark.parametrize(
    "code",
    [
        "double d; { double r = sqrt(d); x = a / r; y = r; }",  # the root itself is asked for
        "double d; { double r = sqrt(d); x = a / r; r = 2; y = b / r; }",
        "double d; { double r = sqrt(d) + 1; x = a / r; }",
        "double d; { double r = sqrt(d); x = a / r[0]; }",
        "double d; { double r = sqrt(d); f(&r); x = a / r; }",
        "int d; y = 1.0 / sqrt(d);",  # no reciprocal root of an integer
        "y = 1.0 / sqrt(given.size);",
        "double d; y = sqrt(d) / a;",
        "double d; { int r = sqrt(d); x = a / r; }",  # a reciprocal root cut off is 0
        "double d; { unsigned long r = sqrt(d); x = a / r; }",
        "double d; { double r = sqrt(d); x = a / r; if (b>r) y = 1; }",  # the root itself is asked for
        "double d; if (double r = sqrt(d); c / r > 1) y = r;",
        "double d; y = 1.0 / sqrt((int)d);",
        "float3 d; y = a / sqrt(d);",  # whose reciprocal root nobody has made
        "double q; z = q * N; y = 1.0 / sqrt(N);",  # a product is no declaration
    ],
)
def test_others_are_left(code: str) -> None:
    assert becomes(code) == code


def test_negative_powers() -> None:
    assert powers._LESS.fullmatch("-1.5") and powers._LESS.fullmatch("(-2)") and not powers._LESS.fullmatch("-x")
