"""Sums that each term writes to global memory, kept in a local variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscope.engine.code.fixing import subjects
from kscope.features.patterns.kept_in_memory import kept_in_memory
from kscope.fixes.given.setting import Asked
from kscope.fixes.thread.stored_once import _ADDED, _fix, _region, _spans, _Sum, _type
from tests.support.on_host import wrong
from tests.support.reports import fixture
from tests.support.with_sources import BELOW, changes

HEAD = "__global__ void k(const float* a, const float* b, float* __restrict__ c, int n, int i, int j) {\n  "


def rewritten(line: str, head: str = HEAD) -> str | None:
    text = head + line + "\n}"
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
        "c[i] = 0; for (int q = 0; q < n; q++) { c[i] += a[q]; i <<= 1; }",
        "c[i] = 0; for (int q = 0; q < n; q++) { c[i] += n>c[j] ? 1 : 2; }",
        "c[i] = 0, j = 1; for (int q = 0; q < n; q++) c[i] += a[q];",
        # where nothing is asked for it may be nobody's place
        "for (int q = 0; q < n; q++) if (i < n) c[i] += a[q];",
        "for (int q = 0; q < n; q++) { if (q > 1) { c[i] += a[q]; } }",
        "for (int q = 0; q < n; q++) if (a[q] > 0) c[i] += a[q]; else j++;",
        # another pointer into the array, a pointer that goes on, an address
        "float* p = c; c[i] = 0; for (int q = 0; q < n; q++) c[i] += p[q];",
        "float* o = c + i; float* p = c + j; *o = 0; for (int q = 0; q < n; q++) *o += p[q];",
        "float* const o = c + i; *o = 0; for (int q = 0; q < n; q++) *o += c[q];",
        "float* o; o = c + i; *o = 0; for (int q = 0; q < n; q++) *o += c[q];",
        "float& o = c[j]; c[i] = 0; for (int q = 0; q < n; q++) c[i] += o;",
        "float* o = c + i; *o = 0; for (int q = 0; q < n; q++) *o += a[q]; float y = *o++; *o = y;",
        "c[i] = 0; float* p = &c[i]; for (int q = 0; q < n; q++) { c[i] += a[q]; p[1] = 2; }",
        "long int* w = k; w[i] = 0; for (int q = 0; q < n; q++) w[i] += 7;",  # no type of a sum
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


RUN = [
    "for (int q = 0; q < n; q++) c[i * 4 + j] += a[q] * b[q];",
    "c[i] = 2 * c[i]; for (int q = 0; q < n; q++) c[i] += a[q];",  # made of what was there
    "c[i] = j > 1 ? c[i] : 0; for (int q = 0; q < n; q++) c[i] += a[q];",
    "c[i] = 0; if (n > 3) c[i] += a[3]; else j = 2; c[j] = 1;",
    "c[i] = 0; if (n > 3) { c[i] += a[3]; } else { c[i] += 2; } c[j] = 3;",
    "u[i] = 1; for (int q = 0; q < n; q++) u[i] -= a[q] > 0; c[i] = u[i] / 3;",  # of unsigned numbers
    "x[i] = 0; for (int q = 0; q < n; q++) x[i] -= 1; c[j] = x[i] / 1000;",
    "for (int r = 0; r < 3; r++) { c[r] = 0; for (int q = 0; q < n; q++) c[r] += a[q] * b[r]; c[r] *= 2; }",
    "for (int q = 0; q < n; q++) for (int r = 0; r < 3; r++) { c[j] -= a[q] * b[r]; if (n>c[j]) c[j] *= 2; }",
    "float* o = c + i; *o = 0; for (int q = 0; q < n; q++) *o += a[q]; float y = (*o)++; c[j] = y;",
    "c[i] = 0; do { c[i] += a[n]; } while (--n > 0);",
]


def test_old_and_new_text_compute_the_same(tmp_path: Path) -> None:
    head = HEAD.replace("int n", "unsigned int* u, unsigned long long* x, int n")
    pairs = [(f"{head}{line}\n}}", f"{head}{rewritten(line, head)}\n}}") for line in RUN]
    call = "a, b, out, (unsigned*)out + 20, (unsigned long long*)out + 20, n, 1, 2"
    assert wrong(tmp_path, pairs, name="k", call=call, blocks=(1, 1), shifts="0, 4") == [0] * len(RUN)
