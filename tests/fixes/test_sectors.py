"""Angles that are only sorted into eighths of a turn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kscope.fixes.algebra.sectors import sorted_out
from kscope.fixes.algebra.turns import eighths
from tests.support.with_sources import changes

HEAD = "__global__ void k(float* x, float* out, int n, float py, float px) {\n  float dx = x[n], dy = x[n + 1];\n  "


def rewritten(line: str) -> str | None:
    code = HEAD + line + "\n}"
    one = sorted_out(code)
    if one is None:
        return None
    assert one.eighths.ran > 10000
    for start, end, new in sorted(one.spans, reverse=True):
        code = code[:start] + new + code[end:]
    return " ".join(code[len(HEAD) : -2].split())


def test_the_capture_that_asks_which_eighth_an_angle_is_in() -> None:
    fix = changes("slopes.angles", "CMP204")[0]
    assert fix.kind == "math_function" and fix.title.endswith("by comparisons, sqrtf") and fix.price is not None
    text = "\n".join(e.becomes for e in fix.edits)
    assert "sqrtf(a * a + b * b) + 16 * (float)(b >= 0 ? (" in text
    assert not any(word in text for word in ("atan2f", "fmodf", "hypotf", "floorf"))
    assert (fix.conditions[0].state, fix.conditions[0].by) == ("proved", "values")
    assert all(c.state == "check" for c in fix.conditions[1:])


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("float t = atan2f(dy, dx); if (t < 0) t += 6.2831855f; int q = (int)(t * 1.2732395f); out[n] = q;",
         (0, 1, 2, 3, 4, 5, 6, 7)),
        ("float t = atan2f(dy, dx); int q = (int)floorf(t / 0.78539816f) & 7; out[n] = q;", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("float t = atan2f(dy, dx); int q = (int)(t * 0.63661977f + 2.f) & 3; out[n] = q;", (2, 2, 3, 3, 0, 0, 1, 1)),
        ("int q = __float2int_rn(atan2f(dy, dx) * 1.2732395f) & 7; out[n] = q;", (0, 1, 2, 3, 4, 5, 6, 7)),
    ],
)  # fmt: skip
def test_each_direction_has_the_number_of_its_eighth(line: str, values: tuple[int, ...]) -> None:
    one = sorted_out(HEAD + line + "\n}")
    assert one is not None and one.eighths.values == values
    new = rewritten(line)
    assert new is not None and "atan2f" not in new and "t <" not in new and new.endswith("out[n] = q;")


@pytest.mark.parametrize(
    "line",
    [
        "float t = atan2f(dy, dx); out[n] = t; out[1] = floorf(t * 1.2732395f);",  # the angle is kept
        "float t = atan2f(dy, dx); out[n] = floorf(t * 1.9098593f);",  # twelfths
        "float t = atan2f(dy, dx); out[n] = floorf(t * dx);",
        "float t = atan2f(dy, dx); out[n] = floorf(t * 1.2732395f) + t;",
        "float t = atan2f(dy, dx); dy = 3; out[n] = floorf(t * 1.2732395f);",  # not the direction any more
        "float t = atan2f(dy, dx); t *= 2; out[n] = floorf(t * 1.2732395f);",
        "float t = atan2f(dy, dy); out[n] = floorf(t * 1.2732395f);",
        "float t = atan2f(dy, x[n]); out[n] = floorf(t * 1.2732395f);",
        "float t = sinf(dy); out[n] = floorf(t * 1.2732395f);",
        "float t = atan2f(dy, dx); out[n] = floorf(t * 1.28f);",  # ends elsewhere
        "float t = atan2f(dy, dx); int q = (int)(t * 0.63661977f + 2.f); out[n] = q;",  # a fifth to the left
        "float t = atan2f(py, px); px = 3; int q = (int)floorf(t / 0.78539816f) & 7; out[n] = q;",
        "float t = atan2f(dy, dx); if (n > 2) if (t < 0) t += 6.2831855f; out[n] = floorf(t * 1.2732395f);",
        "float t = atan2f(dy, dx); if (n > 2) { if (t < 0) t += 6.2831855f; } out[n] = floorf(t * 1.2732395f);",
        "float t = atan2f(dy, dx); if (t < 0) t += 6.2831855f; else out[1] = 1; out[n] = floorf(t * 1.2732395f);",
        "float t = atan2f(dy, dx); int q = (int)(t * 1.2732395f); if (t < 0) t += 6.2831855f; out[n] = q;",
        "float t = atan2f(dy, dx); out[n] = (int)floorf(t / 0.78539816f) & 7; if (n>t) out[1] = 3;",
    ],
)
def test_angles_that_are_more_than_an_eighth_stay(line: str) -> None:
    assert rewritten(line) is None


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_comparisons_are_the_number_for_every_direction(shift: float) -> None:
    def of(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.floor(np.arctan2(y, x) * np.float32(4 / math.pi) + np.float32(shift)).astype(np.int64) & 7

    one = eighths(of, "y", "x")
    assert one is not None and one.turned == (shift == 0.5)
    words = one.text.replace("fabsf", "abs").replace("f *", " *").replace("||", "or").replace("&&", "and")
    for y, x in ((0, 0), (0, 2), (2, 0), (0, -2), (-2, 0), (3, 3), (3, -3), (-3, -3), (-3, 3)):
        assert _chosen(words, {"y": y, "x": x}) == of(np.float32(y), np.float32(x))
    for n in range(1, 997):
        y, x = np.float32(math.sin(n)), np.float32(math.cos(n))
        assert _chosen(words, {"y": float(y), "x": float(x)}) == of(y, x)


def _chosen(text: str, names: dict[str, float]) -> int:
    """C's `a ? b : c` of numbers."""
    text = text.strip()
    while text.startswith("(") and _close(text) == len(text) - 1:
        text = text[1:-1].strip()
    depth, marks, test = 0, 0, -1
    for n, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and c == "?":
            test, marks = (n if test < 0 else test), marks + 1
        if depth == 0 and c == ":":
            marks -= 1
            if marks == 0:
                yes = eval(text[:test], {"abs": abs}, names)
                return _chosen(text[test + 1 : n] if yes else text[n + 1 :], names)
    return int(text)


def _close(text: str) -> int:
    depth = 0
    for n, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return n
    return -1
