"""Extremes of windows by doubling: the ways to write them, and what is left alone."""

from __future__ import annotations

import pytest
from msgspec import structs

from kscope.fixes.packed.extremes import EXTREMES, _alike, _spans, windowed
from kscope.fixes.rows.function import Function
from tests.support.with_sources import changes

THREADS = 64
PAIRS = "for (int o = 1; o <= reach; o++) { int lo = max(i - o, 0), hi = min(i + o, w - 1); BOTH }"
BOTH = "m = fmaxf(m, fmaxf(x[lo], x[hi]));"


def function(loop: str, kind: str = "float", first: str = "m = x[i]", guard: str = "") -> Function:
    head = f"__global__ void k(const {kind}* x, {kind}* y, int w, int reach) "
    body = f"{{ int i = blockIdx.x * {THREADS} + threadIdx.x; {guard} {kind} {first}; {loop} y[i] = m; }}"
    return Function("k.cu", "k", 1, head + body, len(head), {"x": kind, "y": kind}, ("w", "reach"), {}, None)


def made(fn: Function) -> str | None:
    """The text with doubling, where one of both extremes comes out the same."""
    one = windowed(fn, THREADS)
    if one is None:
        return None
    for name in EXTREMES[one.kind]:
        spans = _spans(fn.code, one, THREADS, name)
        if _alike(fn, one, spans, THREADS, {}) is not None:
            code = fn.code
            for start, stop, new in sorted(spans, reverse=True):
                code = code[:start] + new + code[stop:]
            return code
    return None


def test_a_capture_loads_each_element_once() -> None:
    (fix,) = [f for f in changes("peaks.clipped", "MEM112") if f.kind == "hoist"]
    text = fix.edits[0].becomes
    assert "__shared__ float extreme_of[2][512];" in text
    assert "if ((unsigned)reach <= 128) most = fmaxf(most, fmaxf(extreme_of[turn][threadIdx.x]," in text
    assert text.rstrip().endswith("for (int o = 1; o <= reach; o++) {")  # wider windows stay as they were
    assert fix.conditions[0].state == "proved" and fix.conditions[0].ran > 1000
    assert fix.conditions[1].holds == "every i is below w"
    assert fix.proof[1].before > 50 * fix.proof[1].after


@pytest.mark.parametrize(
    ("loop", "name"),
    [
        (PAIRS.replace("BOTH", BOTH), "fmaxf"),
        (PAIRS.replace("BOTH", BOTH.replace("fmaxf", "fminf")), "fminf"),
        ("for (int d = -reach; d <= reach; ++d) { int j = i + d; if (j >= 0 && j < w) m = fmaxf(m, x[j]); }", "fmaxf"),
        ("for (int d = -reach; d < reach + 1; d++) { float v = x[min(max(i + d, 0), w - 1)]; if (v < m) m = v; }",
         "fminf"),
        ("for (int j = i - reach; j <= i + reach; j++) if (j >= 0 && j < w) m = x[j] > m ? x[j] : m;", "fmaxf"),
    ],
)  # fmt: skip
def test_windows_in_many_words(loop: str, name: str) -> None:
    text = made(function(loop))
    assert text is not None
    assert f"m = {name}(m, {name}(extreme_of[turn][threadIdx.x]" in text


def test_whole_numbers_and_other_first_values() -> None:
    loop = PAIRS.replace("BOTH", BOTH.replace("fmaxf", "max"))
    text = made(function(loop, kind="int"))
    assert text is not None
    assert "__shared__ int extreme_of" in text


def test_a_reach_by_any_name() -> None:
    """No name of the new text hides one of the old."""
    fn = function(PAIRS.replace("BOTH", BOTH).replace("reach", "k"))
    code = fn.code.replace("int reach", "int k")
    assert made(structs.replace(fn, code=code, opened=code.index("{"), numbers=("w", "k"))) is not None


def test_threads_that_leave_load_before() -> None:
    fn = function(PAIRS.replace("BOTH", BOTH), guard="if (i >= w) return;")
    text = made(fn)
    assert text is not None
    assert text.index("__syncthreads") < text.index("return;") < text.index("m = fmaxf(m, fmaxf(extreme_of")
    one = windowed(fn, THREADS)
    assert one is not None and one.within


@pytest.mark.parametrize(
    "loop",
    [
        PAIRS.replace("BOTH", "m = fmaxf(m, x[lo]);"),  # half of the window
        PAIRS.replace("BOTH", "m = m + x[lo] + x[hi];"),  # twice is not once
        PAIRS.replace("o = 1", "o = 2").replace("BOTH", BOTH),
        PAIRS.replace("o++", "o += 2").replace("BOTH", BOTH),
        PAIRS.replace("i - o", "i - 2 * o").replace("BOTH", BOTH),
        PAIRS.replace("BOTH", BOTH + " if (m > x[i]) break;"),
        PAIRS.replace("BOTH", BOTH + " y[lo] = m;"),  # a store in the rounds
        PAIRS.replace("BOTH", "m = fmaxf(m, fmaxf(x[lo], y[hi]));"),  # two arrays
        PAIRS.replace("BOTH", "m = fmaxf(m, fmaxf(x[lo], x[hi]) - o);"),  # a weight that grows
        PAIRS.replace("max(i - o, 0)", "(i - o + w) % w").replace("BOTH", BOTH),
        "for (int d = -reach; d <= reach; d++) { m = fmaxf(m, i + d >= 0 && i + d < w ? x[i + d] : 0.f); }",
        "for (int d = -reach; d <= reach; d++) m = fmaxf(m, i + d >= 0 ? x[min(i + d, w - 1)] : -9.f);",
        PAIRS.replace("w - 1", "w").replace("BOTH", BOTH),
        PAIRS.replace("i - o, 0", "i - o, 1").replace("BOTH", BOTH),
        "if (i % 2) " + PAIRS.replace("BOTH", BOTH),  # threads that do not come to a barrier
        "if (i % 2) { " + PAIRS.replace("BOTH", BOTH) + " }",
    ],
)
def test_anything_else_is_left(loop: str) -> None:
    assert made(function(loop)) is None


def test_indices_without_a_sign_are_left() -> None:
    """What is below zero is large there, and the text that is played does not show it."""
    fn = function(PAIRS.replace("BOTH", BOTH))
    for was, new in (("int i =", "unsigned i ="), ("int reach", "unsigned reach"), ("int w", "unsigned int w")):
        code = fn.code.replace(was, new)
        assert code != fn.code and made(structs.replace(fn, code=code, opened=code.index("{"))) is None


def test_what_is_read_while_it_is_written_is_left() -> None:
    """The array that the results go to: others' elements may be new ones."""
    loop = PAIRS.replace("BOTH", BOTH.replace("x[", "y["))
    assert made(function(loop, first="m = y[i]")) is None


def test_a_sum_of_something_else_is_left() -> None:
    assert made(function(PAIRS.replace("BOTH", BOTH), first="m = x[0]")) is None  # its own element is not in it


EACH = "for (int d = -reach; d <= reach; ++d) { int j = i + d; if (j >= 0 && j < w) BODY }"
TAKEN = "m = fmaxf(m, x[j]);"


@pytest.mark.parametrize(
    ("parts", "body"),
    [
        # Numbers that mean that there is no value, or are a limit: none of what is played is one of them.
        ({"kind": "int"}, "if (x[j] != -9999 && x[j] > m) m = x[j];"),
        ({}, "if (x[j] != -9999.f && x[j] > m) m = x[j];"),
        ({"kind": "int"}, "if (x[j] < 65535 && x[j] > m) m = x[j];"),
        ({}, "m = fmaxf(m, fminf(x[j], 40000.f));"),
        ({}, "if (w < 100000) m = fmaxf(m, x[j]);"),
        # Places that depend on more than the window.
        ({"before": "int lim = reach + 3; "}, "if (d < lim) m = fmaxf(m, x[j]);"),
        # Conversions, which whole numbers do not show.
        ({"first": "q; int m = 0"}, "m = max(m, (int)x[j]);"),
        ({}, "m = fmaxf(m, (int)x[j]);"),
        ({}, "int v = x[j]; m = fmaxf(m, v);"),
        ({}, "int v; v = x[j]; m = fmaxf(m, v);"),
        # What is another one where a block loads its stretch, or where that cannot stand.
        ({"guard": "if (i >= w) return; x += blockIdx.y;"}, TAKEN),
        ({"guard": "if (w > 100000) w = 5; else if (i >= w) return;"}, TAKEN),
    ],
)
def test_what_numbers_that_are_played_do_not_show_is_left(parts: dict[str, str], body: str) -> None:
    loop = parts.get("before", "") + EACH
    fn = function(loop.replace("BODY", body), **{k: v for k, v in parts.items() if k != "before"})
    assert made(function(EACH.replace("BODY", TAKEN))) is not None
    assert made(fn) is None
