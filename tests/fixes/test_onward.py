"""Searches that go on where the round before has ended."""

from __future__ import annotations

import re

import pytest
from msgspec import structs

from kscope.fixes.algebra.onward import _spans, played
from kscope.fixes.algebra.search import searches
from kscope.fixes.given.text import Text
from tests.support.with_sources import changes

HEAD = "__global__ void k(const int* b, const float* t, float* out, int n, int m, int off, float dt) {\n  "
LOOP = "for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) { "


def rewritten(line: str) -> str | None:
    code = HEAD + line + "\n}"
    for one in searches(code):
        text = code
        assert played(one) > 50
        for start, end, new in sorted(_spans(Text("", 1, code), one), reverse=True):
            text = text[:start] + new + text[end:]
        return " ".join(text.split("\n", 1)[1].rsplit("\n", 1)[0].split())
    return None


def test_the_capture_whose_bins_are_searched_from_the_first_one_on() -> None:
    (fix,) = changes("bins.anew", "MEM118")
    assert [(e.line, e.becomes.strip()[:20]) for e in fix.edits] == [(39, "int k = 0; for (int "), (40, "")]
    assert [c.state for c in fix.conditions] == ["proved", "assumed", "proved", "check"]
    assert fix.conditions[0].by == "values" and fix.price is not None


@pytest.mark.parametrize(
    ("inside", "moved"),
    [
        ("int q = 0; while (q < m && b[q + 1] <= i) q++; out[i] = q; }", "int q = 0;"),
        ("int q = 0, v = 3; for (; q < m; ++q) { if (b[q] >= i / 4 || t[q] < 0) break; } out[i] = q; }", "int q = 0;"),
        ("for (int q = 1; q < m; q++) if (i + off < b[q]) { out[i] = t[q]; break; } }", "int q = 1;"),
        ("float at = i * dt; int q = 0; while (q < m - 1 && t[q + 1] <= at) q += 1; out[i] = t[q]; }", "int q = 0;"),
        ("unsigned q = off; while (__ldg(&b[q]) < i) { q++; } out[i] = q; }", "unsigned q = off;"),
    ],
)
def test_the_start_goes_in_front_of_the_loop(inside: str, moved: str) -> None:
    new = rewritten(LOOP + inside)
    assert new is not None and new.startswith(f"{moved} for (int i = ")
    assert re.search(r"\bq = [\dof]", new.partition("{")[2]) is None


def test_a_start_that_was_declared_before_and_a_name_that_is_anothers() -> None:
    assert rewritten("int q; " + LOOP + "for (q = 0; q < m; q++) if (b[q] > i) break; out[i] = q; }") == (
        "int q; q = 0; " + LOOP + "for (; q < m; q++) if (b[q] > i) break; out[i] = q; }"
    )
    assert rewritten("if (n) " + LOOP + "int q = 0; while (b[q] < i) q++; out[i] = q; } int q = 9; out[0] = q;") == (
        "if (n) { int q = 0; " + LOOP + "while (b[q] < i) q++; out[i] = q; } } int q = 9; out[0] = q;"
    )


@pytest.mark.parametrize(
    "text",
    [
        LOOP + "int q = 0; while (q < m && b[q] <= out[i]) q++; out[i] = q; }",  # what is looked for is data
        LOOP + "int q = 0; while (q < m && b[q] <= i % 64) q++; out[i] = q; }",  # falls again
        LOOP + "int q = 0; while (q < m && b[q] <= off - i) q++; out[i] = q; }",  # falls
        LOOP + "int q = 0; while (q < m && b[q] > i) q++; out[i] = q; }",  # ends earlier for a larger one
        LOOP + "int q = 0; while (q < m && b[q] != i) q++; out[i] = q; }",
        LOOP + "int q = 0; while (q < m && t[q] <= i) q++; t[q] = 1; }",  # what is searched changes
        LOOP + "int q = 0; while (q < m && b[q] <= i) q++; fill(b, i); }",  # perhaps it does
        LOOP + "int q = 0; while (q < m && b[q] <= i) q++; q--; out[i] = q; }",  # ends elsewhere
        LOOP + "int q = 0; if (t[i] > 0) while (b[q] <= i) q++; out[i] = q; }",  # the start counts without a search
        LOOP + "int q = 0; if (t[i] > 0) { while (b[q] <= i) q++; } out[i] = q; }",
        LOOP + "int q = i / 2; while (b[q] <= i) q++; out[i] = q; }",  # starts elsewhere in each round
        LOOP + "int q = 0; while (q < m && b[q] <= i) q++; m--; out[i] = q; }",  # so does its bound
        LOOP + "int q = 0; while (q < m && b[q] <= i) { q++; out[q] = i; } }",  # each step does something
        LOOP + "int q = 0; while (q < m && b[q * i] <= i) q++; out[i] = q; }",
        LOOP + "int q = 0; while (q < m && b[q] <= i) q++; i += 3; out[i] = q; }",
        "for (int i = n; i > 0; i -= 128) { int q = 0; while (q < m && b[q] <= i) q++; out[i] = q; }",
        "int q; out[1] = q; " + LOOP + "for (q = 0; q < m; q++) if (b[q] > i) break; out[i] = q; }",
    ],
)
def test_searches_that_would_end_elsewhere_stay(text: str) -> None:
    assert rewritten(text) is None


def test_what_is_played_finds_a_search_that_may_not_go_on() -> None:
    (one,) = searches(HEAD + LOOP + "int q = 0; while (b[q] < i) q++; out[i] = q; }\n}")
    assert played(one) > 50
    assert played(structs.replace(one, goes=("(b[q] < (i % 64))",))) == 0
