"""Records through shared memory: which kernels keep each thread to its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.fixes.memory import staged, turned
from tests.support.examples import FEWER

CODE = """__global__ void f(const float* __restrict__ x, float* y) {
  int m = blockIdx.x * 64 + threadIdx.x; float s = 0;
  for (int j = 0; j < 8; j++) s += x[m * 16 + j];
  for (int j = 0; j < 16; j++) y[m * N + j] = s;
}"""
KNOWN = {"N": 16}


def test_records_of_a_thread() -> None:
    found = staged._arrays(CODE, KNOWN)
    assert [(a.name, a.words, a.written) for a in found] == [("x", 16, False), ("y", 16, True)]
    assert staged._pitch(found[0]) == 17 and staged._together(CODE, found)
    once = CODE.replace("for (int j = 0; j < 16; j++) y[m * N + j] = s;", "")
    assert staged._arrays(once, KNOWN) == [], "y is not used as a record"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("x[m * 16 + j]", "x[j * 16 + m]"),  # lanes side by side already
        ("x[m * 16 + j]", "x[m * 16 + j + m]"),
        ("x[m * 16 + j]", "x[m * n + j]"),  # no number
        ("x[m * 16 + j]", "*(x + m * 16 + j)"),
        ("float s = 0;", "float s = 0; if (m > 99) return;"),  # some would not come to the barrier
        ("float s = 0;", "float s = 0; __shared__ int q;"),
        ("= s;", "+= s;"),
        ("y[m * N + j] = s;", "{ y[m * N + j] = s; s += y[m * N + j]; }"),  # read and written
        ("const float* __restrict__ x", "const float* __restrict__ x, double* z"),
        ("threadIdx.x; float s = 0;", "threadIdx.x, first = x[m * 16]; float s = 0;"),  # read where m is made
    ],
)
def test_anything_else_is_left_alone(was: str, becomes: str) -> None:
    assert staged._arrays(CODE.replace(was, becomes), KNOWN) == []


def test_words_without_a_sign() -> None:
    (x, y) = staged._arrays(CODE.replace("const float*", "const unsigned int*"), KNOWN)
    assert (x.kind, y.kind) == ("unsigned int", "float")


def test_tiles_are_two_where_reads_follow_writes() -> None:
    turned = CODE.replace("s += x[m * 16 + j]", "s += 1").replace("] = s;", "] = x[m * 16 + j];")
    found = staged._arrays(turned, KNOWN)
    assert len(found) == 2 and not staged._together(turned, found)
    assert staged._first(CODE, staged._arrays(CODE, KNOWN)) and not staged._first(turned, found)


@FEWER
@given(st.sampled_from(turned.ACROSS), st.sampled_from(turned.APART), st.integers(0, 2**31))
def test_another_order_has_the_same_elements(a: int, b: int, n: int) -> None:
    both = a * b
    assert turned.turned(n, a, b) // both == n // both
    if n % a < a - 1:
        assert turned.turned(n + 1, a, b) == turned.turned(n, a, b) + b
    assert turned._played(a, b, 3 * both) == both
    assert turned._played(a, b, 3 * both + a) == 0
