"""Rows joined with columns by other operations than a sum of products: which a kernel makes, and the one printed."""

from __future__ import annotations

import re

import numpy as np
import pytest

from kscope.engine.findings.mended import setting_of
from kscope.fixes.compute import joined, product
from kscope.fixes.compute.crossed import HEAD, hides
from kscope.fixes.compute.semirings import Semiring, semiring
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.given.text import Text, kernel_text
from kscope.model.contract.fixes import Fix
from tests.support.with_sources import changes, diagnosed
from tools.fixes_built import lines_of
from tools.fixes_pairs import facts, judged

ONE = """__global__ void f(const T* __restrict__ x, const T* __restrict__ y, T* z, int n) {
  int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 32 + threadIdx.y; T s = START;
  if (i >= n || j >= n) return;
  for (int k = 0; k < n; k++) { T u = x[i * n + k], v = y[k * n + j]; STEP; }
  z[i * n + j] = s;
}"""
OPERATIONS = [
    ("int", "INT_MAX", "s = min(s, u + v)", "2147483647", "sum[i][j] = min(sum[i][j], u[i] + v[j]);"),
    ("int", "1000000000", "if (u + v < s) s = u + v", "1000000000", "sum[i][j] = min(sum[i][j], u[i] + v[j]);"),
    ("int", "INT_MIN", "s = max(s, u + v)", "-2147483647 - 1", "sum[i][j] = max(sum[i][j], u[i] + v[j]);"),
    ("int", "0", "s = max(s, min(u, v))", "0", "sum[i][j] = max(sum[i][j], min(u[i], v[j]));"),
    ("int", "0", "s |= u & v", "0", "sum[i][j] |= u[i] & v[j];"),
    ("int", "0", "s ^= v & u", "0", "sum[i][j] ^= u[i] & v[j];"),
    ("int", "0", "s = s || (u && v)", "0", "sum[i][j] |= (u[i] && v[j]);"),
    ("int", "0", "s += u * v", "0", "sum[i][j] += u[i] * v[j];"),
    ("int", "0", "s += max(u, v) - min(u, v)", "0", "sum[i][j] += abs(u[i] - v[j]);"),
    ("int", "0", "s += v > u ? u : v", "0", "sum[i][j] += min(u[i], v[j]);"),
    ("unsigned int", "4000000000u", "s = min(s, u + v)", "4000000000u",
     "sum[i][j] = min(sum[i][j], u[i] + v[j]);"),
    ("float", "1e30f", "s = fminf(s, u + v)", "1e+30f", "sum[i][j] = fminf(sum[i][j], u[i] + v[j]);"),
    ("float", "FLT_MAX", "s = fminf(s, fmaxf(u, v))", "3.4028235e+38f",
     "sum[i][j] = fminf(sum[i][j], fmaxf(u[i], v[j]));"),
    ("float", "-INFINITY", "s = fmaxf(s, u + v)", "__int_as_float(0xff800000)",
     "sum[i][j] = fmaxf(sum[i][j], u[i] + v[j]);"),
    ("float", "0", "s = fmaxf(s, u * v)", "0.0f", "sum[i][j] = fmaxf(sum[i][j], u[i] * v[j]);"),
    ("float", "0.25f", "s = fmaxf(s, u * v)", "0.25f", "sum[i][j] = fmaxf(sum[i][j], u[i] * v[j]);"),
    ("float", "0", "s += fabsf(u - v)", "0.0f", "sum[i][j] += fabsf(u[i] - v[j]);"),
    ("float", "0", "float d = v - u; s = fmaf(d, d, s)", "0.0f",
     "sum[i][j] += (u[i] - v[j]) * (u[i] - v[j]);"),
    ("float", "1e9f", "s = fminf(s, v - u)", "1e+09f", "sum[i][j] = fminf(sum[i][j], v[j] - u[i]);"),
]  # fmt: skip


def given() -> tuple[Setting, Text]:
    setting = setting_of(facts("paths.one"), lines_of)
    text = kernel_text(setting)
    assert text is not None
    return setting, text


def made(code: str) -> Semiring | None:
    setting, text = given()
    head = HEAD.search(code)
    assert head is not None
    return semiring(setting, Text(text.file, text.first, code), head["parameters"])


def kernel(kind: str = "int", start: str = "INT_MAX", step: str = "s = min(s, u + v)") -> str:
    return re.sub(r"\bT\b", kind, ONE).replace("START", start).replace("STEP", step)


@pytest.mark.parametrize(("kind", "start", "step", "first", "becomes"), OPERATIONS)
def test_operations_are_told(kind: str, start: str, step: str, first: str, becomes: str) -> None:
    one = made(kernel(kind, start, step))
    assert one is not None
    assert (one.a, one.b, one.c, one.n, one.kind) == ("x", "y", "z", "n", kind)
    assert (one.first, one.step) == (first, becomes)


def test_the_other_order_of_factors_and_a_start_that_is_a_pair() -> None:
    one = made(kernel().replace("u = x[i * n + k], v = y[k * n + j]", "u = x[k * n + j], v = y[i * n + k]"))
    assert one is not None and (one.a, one.b) == ("y", "x")
    text = kernel(start="x[i * n] + y[j]").replace("if (i >= n || j >= n) return;", "")
    one = made(text.replace("int k = 0", "int k = 1"))
    assert one is not None and one.first == "2147483647"  # no whole number is larger


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("s = min(s, u + v)", "s = min(s, u + 2 * v)"),
        ("s = min(s, u + v)", "s = min(s, u)"),
        ("s = min(s, u + v)", "s |= u"),
        ("s = min(s, u + v)", "s = min(s, u + v + k)"),
        ("s = min(s, u + v)", "if (u != INT_MAX) s = min(s, u + v)"),  # a way that is none
        ("s = min(s, u + v)", "if (u != 77777) s = min(s, u + v)"),
        ("s = min(s, u + v)", "if (v) s = min(s, u + v)"),
        ("s = min(s, u + v)", "if (u > -50) s = min(s, u + v)"),
        ("s = min(s, u + v)", "long long w = u; s = min(s, w + v)"),
        ("INT_MAX", "i"),
        ("INT_MAX", "z[i * n + j]"),
        ("= s;", "= s + 1;"),
        ("= s;", "= min(s, z[i * n + j]);"),
        ("k < n", "k < n - 1"),
        ("int k = 0", "int k = 1"),
        ("k * n + j", "j * n + k"),
        ("i >= n ||", "i > 3 ||"),
        ("s = min(s, u + v)", "s = min(s, g(u, v))"),
        ("T* z", "T* z, int* w"),
    ],
)
def test_anything_else_is_left_alone(was: str, becomes: str) -> None:
    text = kernel()
    was = was.replace("T* z", "int* z")
    assert was in text
    assert made(text.replace(was, becomes.replace("T* z", "int* z"))) is None


def test_fractions_that_are_cut_off_and_other_widths() -> None:
    right = kernel("float", "1e30f", "s = fminf(s, u + v)")
    assert made(right) is not None
    assert made(right.replace("float u =", "int u =").replace(", v =", "; float v =")) is None
    assert made(right.replace("float s", "double s")) is None
    assert made(kernel(step="float w = u; s = min(s, w + v)")) is None
    assert made(kernel("float", "0", "s += u * v")) is not None  # compute.product's where it may be printed


def proposal() -> Fix:
    (fix,) = (f for f in changes("paths.one", "MEM112") if f.kind == "tile")
    return fix


def test_the_capture_gets_the_measured_tiles() -> None:
    fix = proposal()
    assert fix.parameters == {"tile": 64, "depth": 16, "sums": 16, "block.x": 256, "grid.x": 16, "grid.y": 16}
    assert "sum[i][j] = min(sum[i][j], u[i] + v[j]);" in fix.code and "= 2147483647;" in fix.code
    assert [c.by for c in fix.conditions[:2]] == ["values", "values"]
    assert [p.after for p in fix.proof] == [0.0312, 0.5]
    assert judged("paths.one", "paths.tile", "MEM112", fix, 2.0).word == "as good"


def test_what_is_printed_makes_the_same() -> None:
    """The kernel's text and the one that is printed, each played in the shape of its launch."""
    n, fix = 128, proposal()
    _, text = given()
    a, b = (np.random.default_rng(s).integers(-1000, 1000, n * n) for s in (1, 2))
    results = []
    for code, grid, block in ((text.code, (4, 4), (32, 32)), (fix.code, (2, 2), (256, 1))):
        c = np.zeros(n * n, dtype=np.int64)
        body = code[code.index("{") : code.rindex("}") + 1]
        play(body, grid, block, {"a": a, "b": b, "c": c}, {"n": n}, Rules(races=True))
        results.append(c)
    assert (results[0] == results[1]).all() and results[0].any()


def test_tiles_that_save_nothing_are_not_proposed() -> None:
    finding = next(f for f in diagnosed("paths.one").findings if f.code == "MEM112")
    setting = setting_of(facts("paths.tile"), lines_of)
    assert joined.fixes(Asked(setting, finding)) == []
    assert not changes("paths.tile", "MEM112")


def test_numbers_that_are_none_are_asked_about() -> None:
    for step, asked in (("s = fminf(s, u + v)", False), ("if (u + v < s) s = u + v", True)):
        text = kernel("float", "1e30f", step)
        one = made(text)
        assert one is not None
        assert any("NaN" in c.holds for c in joined._conditions(one, text, 64)) is asked


def test_tiles_hide_no_parameter() -> None:
    assert hides("const int* a, const int* row, int n") and hides("int n", "k") and not hides("const int* a, int n")
    assert product._tiles("A", "B", "C", "N") == ("a", "b") and product._tiles("a", "b", "c", "n")[0] == "a_tile"
