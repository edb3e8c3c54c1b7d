"""Elements of unrolled loops, four by one load: in which index the counter stands for an element of a group."""

from __future__ import annotations

import pytest

from kscope.fixes.given.text import Text
from kscope.fixes.memory.elements import by_fours


def rewritten(line: str, outer: str = "for (int r = 0; r < n; r++) {", loop: str = "int c = 0; c < 8; c++") -> str:
    """What becomes of a line in an unrolled loop in another one."""
    lines = ["__global__ void k(const float* x, int n, int m) {", outer, "#pragma unroll", f"for ({loop})", line, "} }"]
    return by_fours(Text("k.cu", 1, "\n".join(lines)), 5, line, {"x"}, {"WIDE": 16, "ODD": 3})


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("s += x[m + c];", "s += element4(&x[m], c);"),
        ("s += x[r * WIDE + c] * n;", "s += element4(&x[r * WIDE], c) * n;"),
        ("s += x[(m + 2 * r) * 2 * WIDE + m + c];", "s += element4(&x[(m + 2 * r) * 2 * WIDE + m], c);"),
        ("s += m>x[m + c];", "s += m>element4(&x[m], c);"),
    ],
)
def test_groups_of_four(was: str, becomes: str) -> None:
    assert rewritten(was) == becomes


@pytest.mark.parametrize(
    "line",
    [
        "s += x[m + r + c];",  # a window that goes on by one: loads of its rounds lie in groups, its own do not
        "s += x[r * ODD + c];",
        "s += x[r * n + c];",
        "s += x[m << 1 + c];",  # no sum with the counter
        "s += x[m & 3 + c];",
        "s += x[n > 2 ? m : n + c];",
        "x[m + c] <<= 1;",
        "s += *(& x[m + c]);",
        "s += x[m + c + c];",
    ],
)
def test_what_stays(line: str) -> None:
    assert rewritten(line) == line


def test_loops_whose_counter_is_no_place_in_a_group() -> None:
    line = "s += x[m + c];"
    assert rewritten(line, loop="int c = 4; c < 8; c++") != line
    for loop in ("int c = 2; c < 10; c++", "int c = n; c < n + 8; c++", "int c = 0; c < 8; c += 2"):
        assert rewritten(line, loop=loop) == line
    assert rewritten("s += x[at + c];", outer="int at = m + 5; for (int r = 0; r < n; r++) {") != "s += x[at + c];"
    for within in ("int at = m + r;", "at += 1;", "x++;"):
        outer = f"int at = m; for (int r = 0; r < n; r++) {{ {within}"
        assert rewritten("s += x[at + c];", outer=outer) == "s += x[at + c];"
