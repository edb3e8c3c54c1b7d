"""Rows that start anywhere, by wide accesses behind their first elements: which loops, and whether results stay."""

from __future__ import annotations

import re

import numpy as np
import pytest

from kscope.fixes.atomics.reading import Kernel, read
from kscope.fixes.given.played import play
from kscope.fixes.given.text import Text, loops
from kscope.fixes.thread.peeled import _base, _once, row, spans
from tests.support.with_sources import changes
from tools.fixes_pairs import judged

LOOP = "for (int k = threadIdx.x; k < n; k += 64) y[at + k] = x[at + k] * c;"


def kernel(loop: str, kind: str = "unsigned char") -> Kernel:
    code = (
        f"__global__ void k(const {kind}* __restrict__ x, {kind}* y, const float* w, int n, int c) {{\n"
        f"  size_t at = (size_t)blockIdx.x * n; int t = threadIdx.x, j = 0;\n  {loop}\n}}"
    )
    found = read(Text("f.cu", 1, code), "k", code.split("\n"))
    assert found is not None
    return found


def peeled(loop: str, kind: str = "unsigned char") -> str:
    """A kernel's text with the loop as three; "" where it stays."""
    it = kernel(loop, kind)
    code = it.text.code
    one = row(it, loops(code)[0], 64)
    for start, end, new in sorted(spans(code, one), reverse=True) if one is not None else ():
        code = code[:start] + new + code[end:]
    return code if one is not None and code != it.text.code else ""


def played(code: str, n: int, apart: int) -> np.ndarray:
    """Bytes whose address is their index; x lies `apart` behind y. Whole accesses are taken apart again."""
    count = 16
    body = re.sub(r"reinterpret_cast<size_t>\(&x\[([^]]*)\]\)", rf"(\1 + {apart})", code[code.index("{") :])
    body = re.sub(r"reinterpret_cast<size_t>\(&y\[([^]]*)\]\)", r"(\1)", body)
    body = re.sub(r"(?m)^\s*(?:const Several<|Several<|\*reinterpret_cast<Several<)[^;]*;$", "", body)
    place = f"at + y_head + group * {count} + element"
    body = body.replace("x_v.at[element]", f"x[{place}]").replace("y_v.at[element]", f"y[{place}]")
    assert "Several" not in body and "reinterpret" not in body
    draw = np.random.default_rng(n)
    memory = {"x": draw.integers(1, 100, 4096), "y": draw.integers(1, 100, 4096), "w": draw.integers(1, 9, 4096)}
    play(body, (5, 1), (64, 1), memory, {"n": n, "c": 3})
    return memory["y"]


def test_the_measured_one() -> None:
    """1.16x in odd.peeled."""
    (fix,) = [f for f in changes("odd.one", "MEM102") if f.kind == "neighbours"]
    (edit,) = fix.edits
    assert edit.becomes.endswith(edit.was.strip().replace("k = threadIdx.x", "k = y_head + y_whole * 8 + threadIdx.x"))
    assert "int y_head = reinterpret_cast<size_t>(&x[at]) % 16 == y_at ? (16 - y_at) % 16 / 2 : n;" in edit.becomes
    assert fix.code.startswith("template <class T, int N> struct alignas(sizeof(T) * N) Several")
    assert fix.proof[0].after < fix.proof[0].before / 7 and fix.price is not None
    assert fix.price.low <= 118.112 / 101.76 <= fix.price.high
    (left,) = [c.holds for c in fix.conditions if c.state == "check"]
    assert left == "x and y do not overlap, unless they are one array"
    assert not [f for f in changes("odd.peeled", "MEM102") if f.kind == "neighbours"]
    assert judged("odd.one", "odd.peeled", "MEM102", fix, 1.16).word in ("as good", "same")


@pytest.mark.parametrize(
    "loop",
    [
        LOOP,
        "for (int k = t; k < n; k += 64) { int v = x[at + k]; v = v * c + k; y[at + k] = v > 50 ? v : 0; }",
        "for (unsigned k = threadIdx.x; k < n; k += blockDim.x) y[k + at] = y[k + at] + x[k + at];",
        "for (int k = t % 32; k < n; k += 32) { y[at + k] = x[at + k] + 1; }",
        "for (int k = threadIdx.x; k < n; k += 64) y[at + k] = y[at + k] * c;",
    ],
)
@pytest.mark.parametrize(("n", "apart"), [(301, 0), (301, 5), (7, 16), (320, 32), (0, 0)])
def test_results_are_the_same(loop: str, n: int, apart: int) -> None:
    new = peeled(loop)
    assert new and np.array_equal(played(kernel(loop).text.code, n, apart), played(new, n, apart))


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("y[at + k] = x[at + k] * c;", "y[at + k] = x[at + k] * w[k];"),  # another array, element by element
        ("y[at + k] = x[at + k] * c;", "y[at + k] = x[at + k + 1];"),  # lies otherwise
        ("y[at + k] = x[at + k] * c;", "y[at + 2 * k] = x[at + 2 * k];"),
        ("y[at + k] = x[at + k] * c;", "y[at + n - k] = x[at + n - k];"),
        ("y[at + k] = x[at + k] * c;", "{ j += x[at + k]; y[at + k] = j; }"),  # a sum in another order
        ("y[at + k] = x[at + k] * c;", "y[at + k] += x[at + k];"),
        ("y[at + k] = x[at + k] * c;", "if (k > 3) y[at + k] = x[at + k];"),
        ("y[at + k] = x[at + k] * c;", "y[at + k] = c > 2 ? x[at + k] : 0;"),
        ("y[at + k] = x[at + k] * c;", "{ int j = at; y[j + k] = x[j + k]; }"),
        ("y[at + k] = x[at + k] * c;", "{ y[at + k] = x[at + k]; __syncthreads(); }"),
        ("y[at + k] = x[at + k] * c;", "y[at + k] = c;"),  # nothing is read
        ("k += 64", "k += 128"),
        ("k = threadIdx.x", "k = threadIdx.x + 1"),
        ("k < n", "k < n - 1"),
        ("for (int k", "#pragma unroll 4\n  for (int k"),
        ("for (int k", "if (c) for (int k"),
        ("for (int k", "int y_head = 0; for (int k"),
    ],
)
def test_loops_that_stay(was: str, becomes: str) -> None:
    assert was in LOOP and not peeled(LOOP.replace(was, becomes, 1))


def test_elements_of_four_bytes_stay() -> None:
    """A lane has as many as an access of 16 bytes soon holds."""
    assert not peeled(LOOP, "float") and peeled(LOOP, "__nv_bfloat16") and not peeled(LOOP, "Own")


def test_places_in_a_row() -> None:
    assert (_base("at + k", "k"), _base("k", "k"), _base("k + (size_t)i * n", "k")) == ("at", "0", "(size_t)i * n")
    others = ("2 * k", "at - k", "(at + k) * 2", "at + k * 2", "k + k", "f(at + k)")
    assert not any(_base(index, "k") for index in others)


def test_rows_that_are_written_out() -> None:
    assert _once(8) == 33 * 8
