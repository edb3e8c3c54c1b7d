"""Sums over neighbours along a row, several results a thread: what is understood, and that the results are the same."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec import structs

from kscope.fixes.packed.along_rows import _alike, _lengths
from kscope.fixes.packed.taps import Taps, taps, written
from kscope.fixes.rows.function import Function
from tests.support.with_sources import changes

ROWS = "for (int a = 0; a < 3; a++) "
TAP = "int yy = r + a - 1, xx = c + b - 1;"
INSIDE = "yy >= 0 && yy < 64 && xx >= 0 && xx < 64"
HEAD = "int c = threadIdx.x, r = blockIdx.x * 2 + threadIdx.y; float s = 0;"
SUM = "s += __half2float(x[yy * 64 + xx]) * __half2float(w[a * 3 + b]);"
ROUND = f"for (int b = 0; b < 3; b++) {{ {TAP} if ({INSIDE}) {SUM} }}"
STORE = "y[r * 64 + c] = __float2half(s);"


def function(head: str = HEAD, loop: str = ROWS + ROUND, store: str = STORE, kind: str = "__half") -> Function:
    top = f"__global__ void k(const {kind}* x, const {kind}* w, {kind}* y, int n) "
    code, kinds = f"{top}{{ {head} {loop} {store} }}", dict.fromkeys("xwy", kind)
    return Function("k.cu", "k", 1, code, len(top), kinds, ("n",), {}, None)


def understood(fn: Function) -> Taps | None:
    return taps(fn.code, fn.pointers, {"R": 2})


def same(fn: Function, block: tuple[int, int] = (64, 2), grid: int = 32) -> bool:
    one = understood(fn)
    assert one is not None
    launch = SimpleNamespace(block=(*block, 1), grid=(grid, 1, 1), threads=block[0] * block[1])
    return _alike(SimpleNamespace(launch=launch), fn, one, {"R": 2}) is not None  # type: ignore[arg-type]


def test_a_capture_loads_a_row_by_one_access() -> None:
    (fix,) = [f for f in changes("dwconv.one", "MEM102") if f.kind == "neighbours"]
    text = fix.edits[0].becomes
    assert fix.code.endswith("dwconv_one<<<dim3(7, 2048), dim3(112, 2)>>>(...), 8 results a thread")
    assert "Several<__half, 8> line_of = *reinterpret_cast<const Several<__half, 8>*>(&x[yy * DW + xx]);" in text
    assert "sums_of[result_n] += values_of[b + result_n] * __half2float(w[a * 3 + b]);" in text
    assert "(blockIdx.x * 8 + thread_of / 28) * 2 + (thread_of % 28 / 14)" in text
    assert all(e.becomes == "" for e in fix.edits[1:])
    assert fix.conditions[0].state == "proved" and fix.conditions[0].ran > 10000  # all blocks of a plane were played
    assert any(c.holds == "weights are finite" and c.state == "check" for c in fix.conditions)
    assert fix.proof[0].before == 8 * fix.proof[0].after


def test_halves_take_eight() -> None:
    one = understood(function())
    assert one is not None and (one.count, one.shift, one.taps) == (8, 1, 3)
    assert same(function())


def test_floats_take_four() -> None:
    fn = function(kind="float", loop=ROWS + ROUND.replace("__half2float", ""), store="y[r * 64 + c] = s;")
    one = understood(fn)
    assert one is not None and one.count == 4 and one.shift == 1
    assert same(fn)


def test_a_row_alone_with_padding_in_front() -> None:
    head = "int i = blockIdx.x * 128 + threadIdx.x; float sum = 0.f;"
    loop = "for (int k = 0; k < 2 * R + 1; ++k) sum += __half2float(x[i + k]) * __half2float(w[k]);"
    fn = function(head, loop, "y[i] = __float2half(sum * 2.f + 1.f);")
    one = understood(fn)
    assert one is not None and (one.taps, one.shift, one.test) == (5, 0, "")
    assert same(fn, (128, 1), 16)
    assert "[8]" in written(one, (128, 1), played=False) and "[11]" in written(one, (128, 1), played=False)


def test_threads_that_leave_in_whole_groups() -> None:
    loop = ROWS + ROUND.replace("64", "n")
    head = HEAD.replace("blockIdx.x", "blockIdx.y").replace("c =", "c = blockIdx.x * 64 +")
    fn = function(head + " if (c >= n || r >= 64) return;", loop, STORE.replace("64", "n"))
    assert same(fn)


def test_rows_that_are_not_multiples_are_refused() -> None:
    """The wide access of the second row would not start at a multiple of its size."""
    fn = function(loop=(ROWS + ROUND).replace("* 64", "* 63"))
    assert not same(fn)


def test_groups_that_do_not_all_take_part_are_refused() -> None:
    """Groups that are whole, but of which the last is outside."""
    fn = function(loop=(ROWS + ROUND).replace("xx < 64", "xx < 56"))
    assert not same(fn)


@pytest.mark.parametrize(
    "parts",
    [
        {"loop": ROWS + ROUND.replace("xx = c + b - 1", "xx = c + 2 * b - 1")},  # every second column
        {"loop": ROWS + ROUND.replace("xx = c + b - 1", "xx = 2 * c + b - 1")},  # windows that do not overlap so
        {"loop": ROWS + ROUND.replace("w[a * 3 + b]", "w[a * 3 + b + c]")},  # weights of their own
        {"loop": ROWS + ROUND.replace("w[a * 3 + b]", "w[a * 3 + b + xx]")},
        {"loop": ROWS + ROUND.replace("x[yy", "y[yy")},  # what it stores to
        {"loop": ROWS + ROUND.replace("s +=", "s -=")},
        {"loop": ROWS + ROUND.replace("if (yy", "if (xx == 3) break; if (yy")},
        {"loop": ROWS + ROUND.replace("b < 3", "b < n")},  # as many as the launch says
        {"loop": ROWS + ROUND.replace("xx < 64", "xx < 60")},  # groups that are no whole ones
        {"loop": ROWS + ROUND.replace("xx < 64", "yy * 64 + xx < 999")},
        {"loop": ROWS + ROUND.replace("xx >= 0 &&", "xx >= 0 ||")},
        {"loop": ROWS + "{ " + ROUND + " s *= 2; }"},
        {"loop": "for (int a = 0; a < c; a++) " + ROUND},
        {"loop": ROWS + ROUND.replace("r + a", "blockIdx.x + a")},
        {"loop": ROWS + ROUND.replace("a * 3 + b", "yy * 3 + b")},
        {"head": HEAD + " if (c >= 60) return;"},
        {"head": HEAD + " if (c > n) return;"},
        {"head": HEAD + " if (c == 8 && r == 3) return;"},
        {"head": HEAD + " if (c < n) { w += 3; }"},
        {"head": HEAD.replace("blockIdx.x", "(gridDim.x - blockIdx.x)")},
        {"store": STORE.replace("(s)", "(s * c)")},
        {"store": STORE.replace("+ c]", "+ 2 * c]")},
        {"store": "if (c < n) " + STORE},
        {"store": STORE + " w += 1;"},
        {"head": HEAD.replace("s = 0", "s = 1")},
        {"head": HEAD.replace("float s = 0;", "int d = c / 2; float s = 0;")},  # another number of the thread
        {"loop": "s += 1; " + ROWS + ROUND},
        {"loop": ROWS + "{ s *= 2; " + ROUND + " }"},
    ],
)
def test_other_kernels_are_left(parts: dict[str, str]) -> None:
    assert understood(function(**parts)) is None


def test_a_barrier_in_front_is_left() -> None:
    assert understood(function(head=HEAD + " __syncthreads();")) is None


QUOTIENT = "s += x[yy * 64 + xx] * w[a * 3 + b] / 16;"


def test_products_and_quotients_of_whole_numbers_stay_some() -> None:
    """As fractions they would be others, which whole numbers that are played do not show."""
    fn = function(kind="int", loop=ROWS + ROUND.replace(SUM, QUOTIENT), store="y[r * 64 + c] = s;")
    one = understood(fn)
    assert one is not None and same(fn)
    text = written(one, (64, 2), played=False)
    assert "int values_of[6];" in text and ": (int)0;" in text and "= (int)0;" in text
    loop = ROWS + ROUND.replace(SUM, QUOTIENT.replace("x[", "(float)x["))
    converted = function(kind="int", loop=loop, store="y[r * 64 + c] = s;")
    one = understood(converted)
    assert one is not None and "float values_of[6];" in written(one, (64, 2), played=False)


def test_numbers_that_have_to_be_multiples_are_named() -> None:
    """A pitch, and where an array is read from, but not how many rows there are."""
    head = HEAD.replace("blockIdx.x", "blockIdx.y").replace("c =", "c = blockIdx.x * 64 +")
    loop = (ROWS + ROUND).replace("* 64", "* n").replace("xx < 64", "xx < n").replace("yy < 64", "yy < rows")
    fn = function(f"{head} if (c >= n || r >= rows) return;", loop.replace("x[", "x[from + "), STORE.replace("64", "n"))
    fn = structs.replace(fn, numbers=("n", "rows", "from"))
    one = understood(fn)
    launch = SimpleNamespace(block=(64, 2, 1), grid=(32, 1, 1), threads=128)
    setting = SimpleNamespace(launch=launch)
    assert one is not None and _lengths(setting, fn, one, {}) == ["n", "from"]  # type: ignore[arg-type]
