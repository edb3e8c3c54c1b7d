"""Sums that each term writes to global memory, kept in a local variable."""

from __future__ import annotations

import pytest

from kscope.engine.code.fixing import subjects
from kscope.features.patterns.kept_in_memory import kept_in_memory
from kscope.fixes.given.setting import Asked
from kscope.fixes.thread.stored_once import _ADDED, _fix, _region, _spans, _Sum, _type
from tests.support.reports import fixture
from tests.support.with_sources import BELOW, changes

HEAD = "__global__ void k(const float* a, const float* b, float* __restrict__ c, int n, int i, int j) {\n  "


def rewritten(line: str) -> str | None:
    text = HEAD + line + "\n}"
    match = _ADDED.search(text)
    one = _region(text, match) if match is not None else None
    kind = _type(text, one.name) if one is not None else None
    if one is None or kind is None:
        return None
    for start, end, new in sorted(_spans(text, one, kind), reverse=True):
        text = text[:start] + new + text[end:]
    return text.split("\n")[1].strip()


def test_the_capture_whose_corners_are_written_one_by_one() -> None:
    (fix,) = changes("corners.in_memory", "MEM114")
    assert [e.line for e in fix.edits] == [56, 57, 58]
    assert fix.edits[0].becomes.strip() == "float o_sum = 0;"
    assert "*o +=" not in "".join(e.becomes for e in fix.edits)
    assert fix.edits[2].becomes.endswith("*o = o_sum;")
    assert [c.state for c in fix.conditions] == ["assumed", "proved", "check"]
    assert fix.proof[0].before == 1572864  # 8192 warps, 24 channels, 8 of their 9 stores


def test_a_loop_and_the_value_in_front_of_it() -> None:
    assert rewritten("for (int q = 0; q < n; q++) c[i * n + j] += a[i * n + q] * b[q * n + j];") == (
        "float c_sum = c[i * n + j]; for (int q = 0; q < n; q++) c_sum += a[i * n + q] * b[q * n + j]; "
        "c[i * n + j] = c_sum;"
    )
    assert rewritten("c[i] = 0; for (int q = 0; q < n; q++) { c[ i ] += a[q]; }") == (
        "float c_sum = 0; for (int q = 0; q < n; q++) { c_sum += a[q]; } c[i] = c_sum;"
    )


@pytest.mark.parametrize(
    "line",
    [
        "for (int q = 0; q < n; q++) c[q] += a[q];",  # another place in each round
        "for (int q = 0; q < n; q++) { c[i] += a[q]; i++; }",
        "for (int q = 0; q < n; q++) c[i] += c[q];",  # the array is read elsewhere
        "for (int q = 0; q < n; q++) { c[i] += a[q]; if (a[q] > 2) return; }",
        "for (int q = 0; q < n; q++) { c[i] += a[q]; __syncthreads(); }",
        "if (n) c[i] = 0; for (int q = 0; q < n; q++) { c[i] += a[q]; } c[i] *= 2; b = c + i; b[1] += c[i];",
        "if (n) for (int q = 0; q < n; q++) c[i] += a[q];",  # the loop is the if's statement
        "c[i] += a[i];",  # one term, no loop
        "for (int q = 0; q < n; q++) d[i] += a[q];",  # no pointer whose type is told
    ],
)
def test_what_others_may_see_or_reach_stays_in_memory(line: str) -> None:
    assert rewritten(line) is None


def test_a_place_that_a_loop_may_leave_alone_is_nobody_elses() -> None:
    (subject,) = subjects(str(fixture("corners.in_memory")), None, BELOW)
    asked = Asked(subject.setting, next(f for f in subject.findings if f.code == "MEM114"))
    kept = [k for k in kept_in_memory(subject.setting.code) if k.stores]
    alone = [
        any(c.holds.startswith("no other thread") and c.state == "check" for c in fix.conditions)
        for fix in (_fix(asked, _Sum("c[i]", "c", 0, 9, opened), [], kept) for opened in (True, False))
    ]
    assert alone == [False, True]  # a value that is put there anyway changes nothing for others


def test_a_pointer_into_an_array_that_is_read_between() -> None:
    assert rewritten("float* o = c + i; *o = 0; for (int q = 0; q < n; q++) *o += c[q];") is None
    assert rewritten("float* o = c + i; *o = 0; for (int q = 0; q < n; q++) *o += a[q];") == (
        "float* o = c + i; float o_sum = 0; for (int q = 0; q < n; q++) o_sum += a[q]; *o = o_sum;"
    )
