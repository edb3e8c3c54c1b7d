"""Neighbours on a torus that a comparison finds."""

from __future__ import annotations

import re

import pytest

from kscope.fixes.compute import divisors
from kscope.fixes.compute.wrapped import wraps
from kscope.fixes.given.text import plain
from tests.support.altered import told
from tests.support.with_sources import changes

HEAD = "__global__ void k(const float* a, float* out, int w, int h) {\n"
PLACED = "  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y; if (x >= w || y >= h) return;\n"


def found(*lines: str) -> list[tuple[str, bool]]:
    text = HEAD + "\n".join(lines) + "\n}"
    return [(one.span[2], one.counted) for one in wraps(text, {"w", "h"})]


def test_a_capture_of_spins_compares_and_divides_for_its_places_alone() -> None:
    (fix,) = [f for f in changes("ising.modulo", "CMP205") if f.kind == "divisor"]
    assert fix.title.endswith("neighbours modulo nx, ny, nz by a comparison")
    head, places, neighbours = fix.edits
    assert "Divider nx, Divider ny, int nz" in head.becomes
    assert "z = i / nx / ny;" in places.becomes
    assert "%" not in neighbours.becomes
    assert "xm = (x == 0 ? nx - 1 : x - 1);" in neighbours.becomes
    assert any(c.holds == "0 <= x < nx, 0 <= y < ny, 0 <= z < nz" and c.state == "assumed" for c in fix.conditions)


@pytest.mark.parametrize("lengths", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "text", ["(x + 1) % w", "(x - 1 + w) % w", "(x + w - 1) % w", "(w + x - 1) % w", "(w - 1 + x) % w"]
)
def test_every_place_has_the_neighbour_that_the_remainder_gave(text: str, lengths: int) -> None:
    ((new, counted),) = found(PLACED, f"  out[x] = a[{text}];")
    test, yes, no = re.fullmatch(r"\((.*) \? (.*) : (.*)\)", new).groups()  # type: ignore[union-attr]
    for x in range(lengths):
        names = {"x": x, "w": lengths}
        assert eval(yes if eval(test, names) else no, names) == eval(text, names)
    assert counted


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ([PLACED, "out[x] = a[(y - 1 + h) % h * w + x];"], 1),
        (["int i = f(); int x = i % w;", "out[i] = a[(x + 1) % w];"], 1),  # below w, but perhaps negative
        (["for (int x = 0; x < w; x++) out[x] = a[(x + 1) % w];"], 1),
        (["int x = threadIdx.x; if (x < w) { out[x] = a[(x + 1) % w]; }"], 1),
        (["int x = threadIdx.x; if (x < w) { s = 1; } out[x] = a[(x + 1) % w];"], 0),
        (["int x = f() + (threadIdx.x / 2) % w; out[x] = a[(x + 1) % w];"], 0),  # a remainder and more
        (["int x = (threadIdx.x + 2) * 3 % w; out[x] = a[(x + 1) % w];"], 1),
        (["int x = threadIdx.x; if (h) if (x >= w) return; out[x] = a[(x + 1) % w];"], 0),
        (["int x = threadIdx.x; for (int x = 0; x < w; x++) s += a[x]; out[x] = a[(x + 1) % w];"], 0),
        (["for (int x = 0; x < w; x++) { out[x] = a[(x + 1) % w]; x++; }"], 0),
        ([PLACED, "out[x] = a[-(x + 1) % w];"], 0),  # the sign binds first
        ([PLACED, "out[x] = a[h - (x + 1) % w];"], 1),
        (["int x; if (x >= w) return; x = threadIdx.x; out[x] = a[(x + 1) % w];"], 0),  # another x was tested
        (["int i = f(), x; if (i >= w * h) return; i += 9; x = i / h; out[i] = a[(x + 1) % w];"], 0),
        (["int x = threadIdx.x; out[x] = a[(x + 1) % w];"], 0),  # nothing says that x is below w
        ([PLACED, "x += 5; out[x] = a[(x + 1) % w];"], 0),
        ([PLACED, "for (;;) { out[x] = a[(x + 1) % w]; x = x + 2; }"], 0),
        ([PLACED, "move(&x); out[x] = a[(x + 1) % w];"], 0),
        ([PLACED, "out[x] = a[2 * (x + 1) % w];"], 0),  # the product is taken modulo w
        ([PLACED, "out[x] = a[(x + 1) % h];"], 0),
        ([PLACED, "out[x] = a[(x + 1) % v];"], 0),  # no length
        ([PLACED, "out[x] = a[(x + 2) % w];"], 0),
        ([PLACED, "out[x] = a[(x + 1) % w.size];"], 0),
        (["int i = f(), x = i / h; if (i >= w * h) return; out[i] = a[(x + 1) % w];"], 1),
        (["int i = f(), x = i / h; if (i >= w * w) return; out[i] = a[(x + 1) % w];"], 0),
    ],
)
def test_only_what_is_known_to_lie_within_is_compared(lines: list[str], count: int) -> None:
    assert len(found(*lines)) == count


def test_what_may_be_negative_is_for_the_reader_to_check() -> None:
    ((_, counted),) = found("int i = f(); int x = i % w;", "out[i] = a[(x + 1) % w];")
    assert not counted


def test_a_member_is_no_name_that_the_text_defines() -> None:
    assert plain("blockIdx.y * 4", "int y = i / n;") == "blockIdx.y*4"


DIVISION = ("int_division.slow", "CMP205", divisors.fixes)
FIRST = "int x = j % w"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (FIRST, f"float q = 1.0f / w; {FIRST}"),  # a divider of integers
        (FIRST, f"float q = (float)j / w; {FIRST}"),
        (FIRST, f"--w; {FIRST}"),
        (FIRST, f"w >>= 1; {FIRST}"),
        (FIRST, "int x = w ? j % w : 0"),  # the host would divide by it
        (FIRST, "int x = threadIdx.x % w"),  # two ways to divide: neither is taken
        ("int j = i", "unsigned j = i"),
    ],
)
def test_divisors_of_something_else(was: str, becomes: str) -> None:
    assert told(*DIVISION) and not told(*DIVISION, (was, becomes))
