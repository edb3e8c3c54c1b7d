"""__restrict__ where loads stay behind stores: for which parameters, and where nothing is gained."""

from __future__ import annotations

import pytest

from kscope.fixes.flight.restricted import spans
from kscope.fixes.left import left
from kscope.fixes.thread.first import BEHIND
from tests.support.with_sources import changes
from tools.fixes_pairs import setting


def changed(head: str) -> str:
    code = f"template <class T>\n__global__ void k({head}) {{ }}"
    for start, end, new in sorted(spans(code, "k"), reverse=True):
        code = code[:start] + new + code[end:]
    return code.partition("k(")[2].rpartition(") {")[0]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("const T* a, T *out, int n", "const T* __restrict__ a, T *__restrict__ out, int n"),
        ("float4 const * const a,\n double*out", "float4 const * const __restrict__ a,\n double*__restrict__ out"),
        ("const T* __restrict__ a, T* out", "const T* __restrict__ a, T* __restrict__ out"),
        ("T** rows, Args args, T& one, float (*f)(float)", "T** rows, Args args, T& one, float (*f)(float)"),
        ("std::pair<int, T>* a", "std::pair<int, T>* __restrict__ a"),
        ("int n, float a[]", "int n, float a[]"),
    ],
)
def test_parameters_that_lead_to_elements(was: str, becomes: str) -> None:
    assert changed(was) == becomes


def test_loads_behind_stores_to_another_array() -> None:
    (fix,) = [f for f in changes("streams.between", "LAT302") if f.kind == "qualifier"]
    assert [e.becomes.count("__restrict__") for e in fix.edits] == [2]
    assert (fix.proof[0].before, fix.proof[0].after) == (7, 0)
    assert any(c.state == "check" and "overlaps" in c.holds for c in fix.conditions)


def test_a_version_that_has_it_is_known() -> None:
    slow, fast = (setting(f"streams.{name}") for name in ("between", "first"))
    assert slow is not None and fast is not None
    assert left("qualifier", slow, "LAT302") == (BEHIND, 7) and left("qualifier", fast, "LAT302") == (BEHIND, 0)


def test_where_all_came_first_nothing_is_asked_for() -> None:
    assert not [f for f in changes("streams.first", "LAT302") if f.kind == "qualifier"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("float* t = a; a = b; b = t; a[0] = b[1];", False),  # both lead to both
        ("if (n > 3) b = a; b[0] = a[1];", False),
        ("swap(a, b); a[0] = b[1];", False),
        ("a += n; b = b + n; a[0] = b[1];", True),
        ("float* t = a + n; t[0] = b[1]; *b = 3;", True),
        ("float v = b[n]; a[n] = v; b[n] = a[n];", True),
    ],
)
def test_pointers_that_change_places_are_left(body: str, said: bool) -> None:
    assert bool(spans(f"__global__ void k(float* a, float* b, int n) {{ {body} }}", "k")) is said
