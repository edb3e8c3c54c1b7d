"""An element that is copied byte by byte: one access where it has the launch's size, else the loop as before."""

from __future__ import annotations

import pytest

from kscope.fixes.given.rewrite import Place
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.memory.constants import _alone
from kscope.fixes.memory.vectors import _COPY, _once, _pointers
from tests.support.with_sources import changes
from tools.fixes_pairs import judged


def test_the_change_is_the_measured_version() -> None:
    """2.32x in reorder.words."""
    (fix,) = [f for f in changes("reorder.bytes", "MEM102") if f.kind == "element_access"]
    (edit,) = fix.edits
    assert edit.was.strip() == "for (int k = 0; k < size; k++) to[k] = from[k];"
    assert edit.becomes.strip() == (
        "if (size == 4) *reinterpret_cast<int*>(to) = *reinterpret_cast<const int*>(from); else " + edit.was.strip()
    )
    assert fix.proof[0].after == fix.proof[0].before / 4
    assert fix.proof[0].before == 2 * 4 * 65536  # what is stored as well as what is loaded
    assert judged("reorder.bytes", "reorder.words", "MEM102", fix, 2.32).word == "as good"
    assert [c.state for c in fix.conditions] == ["assumed", "proved", "check", "check"]
    assert fix.price is not None and fix.price.low <= 50.85 / 21.89 <= fix.price.high
    assert not changes("reorder.words", "MEM102") or all(
        f.kind != "element_access" for f in changes("reorder.words", "MEM102")
    )


@pytest.mark.parametrize(
    ("line", "copied"),
    [
        ("for (unsigned int b = 0; b < n; ++b) { out[b] = in[b]; }", True),
        ("for (size_t b = 0; b < n; b++) out[b] = in[b];", True),
        ("for (int b = 0; b < n; b++) { out[b] = in[b]; s += b; }", False),  # more than a copy
        ("for (b = 0; b < n; b++) out[b] = in[b];", False),  # how far it came may be asked for
        ("for (int b = 1; b < n; b++) out[b] = in[b];", False),  # not all of it
        ("for (int b = 0; b < n; b += 2) out[b] = in[b];", False),
        ("for (int b = 0; b < n; b++) out[b] = in[b] + 1;", False),
        ("for (int b = 0; b < n; b++) out[b] = in[n - b];", False),
    ],
)
def test_lines(line: str, copied: bool) -> None:
    match = _COPY.search(line)
    assert (match is not None) == copied
    if match is not None:
        assert _once(match, 8).startswith("if (n == 8) *reinterpret_cast<int2*>(out) = ") and line in _once(match, 8)


TABLE = [
    "__constant__ float w[8][32];", "__global__ void other(float* y) { y[0] = *(float4*)&w[0][0]; }",
    "__global__ void k(const int* x, float* y) {", "  y[0] = w[x[0]][1] + q->w[2] + w[1][x[1]];", "}",
    "__device__ float f(int i) { return w[i][0]; }",
]  # fmt: skip


@pytest.mark.parametrize(
    ("was", "now", "alone"),
    [
        ("", "", True),
        ("+ w[1]", "+ *(float4*)&w[1]", False),  # no longer aligned, and rows are longer
        ("y[0]", "float w_shared = 1; y[0]", False),
        ("float* y)", "float* y, Shape s = {1, 2})", False),  # not the brace of the body
    ],
)
def test_a_table_whose_elements_are_read_can_be_copied(was: str, now: str, alone: bool) -> None:
    lines = [line.replace(was, now) if n in (2, 3) and was else line for n, line in enumerate(TABLE)]
    assert _alone(lines, 3, "w", [4]) is alone
    assert not _alone(lines, 3, "w", [4, 6])  # a function that has no copy


def test_pointers_are_of_the_function_around_a_line() -> None:
    """A kernel's const float* x above a function's const int* x: words of integers are no floats."""
    lines = [
        "__global__ void k(const float* x) {", "  s = x[i] + x[i + 1];", "}", "__device__ int f(const int* x, int i) {",
        "  return x[i] + x[i + 1];", "}",
    ]  # fmt: skip
    asked = Asked(Setting(None, lambda file: lines), None)  # type: ignore[arg-type]
    assert _pointers(asked, Place("k.cu", 2, lines[1])) == {"x": "float"}
    assert _pointers(asked, Place("k.cu", 5, lines[4])) == {}
