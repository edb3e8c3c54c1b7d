"""Local arrays that are sorted at run-time indices: a network of registers in their place."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.fixes.local.keys import moved_alone
from kscope.fixes.local.network import exchanges, function, sorts
from kscope.fixes.local.registers import arrays
from kscope.fixes.local.sorting import _proved, _sorts, _spans
from tests.support.with_sources import changes

INSERT = "while (j > 0 && a[j - 1] > k) { a[j] = a[j - 1]; j--; } a[j] = k;"


def rewritten(body: str) -> str | None:
    code = "__global__ void f(const int* x, int* y, int m) {\n" + body + "\n}"
    for array in arrays(code, {"N": 12}):
        for one in _sorts(code, array, {"N": 12}):
            found = _proved(one, {"N": 12})
            spans = _spans(code, one, found[0], {"N": 12}) if found is not None else None
            if spans is not None:
                for start, end, new in sorted(spans, reverse=True):
                    code = code[:start] + new + code[end:]
                return " ".join(code[code.index("{\n") + 2 : -2].split())
    return None


def test_the_capture_whose_keys_are_put_in_one_by_one() -> None:
    fix = changes("sort16.insertion", "MEM105")[0]
    assert [e.line for e in fix.edits] == [8, 9]
    assert fix.edits[0].becomes == (
        "  #pragma unroll\n  for (int i = 0; i < 16; i++) { a[i] = x[i * ON + t]; }\n  sort_up(a);"
    )
    assert fix.edits[1].becomes.split("\n")[0].strip() == "#pragma unroll"
    assert fix.parameters == {"keys": 16, "exchanges": 63}
    assert [c.state for c in fix.conditions] == ["proved", "proved", "assumed"]
    assert fix.price is not None
    assert fix.proof[0].before == 8613632 and fix.code == function(up=True)


@pytest.mark.parametrize("count", [3, 5, 16, 31, 64])
def test_networks_of_any_length(count: int) -> None:
    assert sorts(count)
    for seed in range(50):
        keys = [random.Random(seed).randrange(count) for _ in range(count)]
        made = list(keys)
        for low, high in exchanges(count):
            made[low], made[high] = min(made[low], made[high]), max(made[low], made[high])
        assert made == sorted(keys)


RUN = """
#include <algorithm>
#include <cstdio>
#define __device__
#define __forceinline__ inline
using std::max, std::min;
{up}
{down}
template <int N, class T> int wrong() {{
  int found = 0;
  for (unsigned s = 1; s < 200; s++) {{
    T a[N], b[N];
    for (int i = 0; i < N; i++) a[i] = b[i] = (s * 7919u + i * 104729u) * 2654435761u >> 8 & (s % 3 ? 0xffff : 3);
    sort_up(a); sort_down(b);
    for (int i = 1; i < N; i++) found += a[i - 1] > a[i] || b[i - 1] < b[i] || a[i] != b[N - 1 - i];
  }}
  return found;
}}
int main() {{ std::printf("%d", wrong<3, int>() + wrong<16, unsigned>() + wrong<27, float>() + wrong<64, double>()); }}
"""


def test_the_function_as_it_is_compiled(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "sort.cpp").write_text(RUN.format(up=function(up=True), down=function(up=False)))
    subprocess.run(["g++", "-std=c++17", "-w", "sort.cpp", "-o", "sort"], cwd=tmp_path, check=True, capture_output=True)
    assert subprocess.run(["./sort"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout == "0"


@pytest.mark.parametrize(
    "body",
    [
        "int v[9]; for (int i = 0; i < 9; i++) v[i] = x[i]; for (int i = 1; i < 9; i++) { int key = v[i]; "
        "int at = i - 1; while (at >= 0 && v[at] > key) { v[at + 1] = v[at]; at--; } v[at + 1] = key; } "
        "for (int i = 0; i < 9; i++) y[i] = v[i];",
        "int v[9]; int key, at; for (int i = 0; i < 9; i++) v[i] = x[i]; for (int i = 1; i < 9; i++) { key = v[i]; "
        "at = i; for (; at > 0; at--) { if (v[at - 1] <= key) break; v[at] = v[at - 1]; } v[at] = key; } "
        "for (int i = 0; i < 9; i++) y[i] = v[i];",
        "int v[9]; for (int i = 0; i < 9; i++) v[i] = x[i]; for (int i = 0; i < 9; i++) { int m = i; "
        "for (int q = i + 1; q < 9; q++) if (v[q] < v[m]) m = q; int t = v[i]; v[i] = v[m]; v[m] = t; } "
        "for (int i = 0; i < 9; i++) y[i] = v[i];",
    ],
)  # fmt: skip
def test_other_ways_to_sort_in_place(body: str) -> None:
    assert rewritten(body) == (
        "int v[9]; " + ("int key, at; " if "int key, at" in body else "") + "#pragma unroll "
        "for (int i = 0; i < 9; i++) v[i] = x[i]; sort_up(v); #pragma unroll for (int i = 0; i < 9; i++) y[i] = v[i];"
    )


def test_the_greatest_first_and_a_median() -> None:
    assert rewritten(
        "float a[N]; for (int i = 0; i < N; i++) { int at = i * 64 + m; float k = x[at]; int j = i; "
        "for (; j > 0 && k > a[j - 1]; j--) a[j] = a[j - 1]; a[j] = k; } y[m] = a[N / 2];"
    ) == (
        "float a[N]; #pragma unroll for (int i = 0; i < N; i++) { int at = i * 64 + m; a[i] = x[at]; } "
        "sort_down(a); y[m] = a[N / 2];"
    )


@pytest.mark.parametrize(
    "body",
    [
        # one round too few, or places that are left out
        f"int a[8]; for (int i = 0; i < 7; i++) {{ int k = x[i]; int j = i; {INSERT} }} y[0] = a[3];",
        "int a[8]; for (int i = 0; i < 8; i++) a[i] = x[i]; for (int i = 2; i < 8; i++) { int k = a[i]; int j = i; "
        "while (j > 1 && a[j - 1] > k) { a[j] = a[j - 1]; j--; } a[j] = k; } y[0] = a[3];",
        # what is left in the array, or in its counter, is used
        f"int a[8]; for (int i = 0; i < 8; i++) {{ int k = x[i]; int j = i; {INSERT} }} y[0] = a[x[0] & 7];",
        f"int a[8]; int n = 0; for (int i = 0; i < 8; i++) {{ int k = x[i]; int j = n++; {INSERT} }} y[n] = a[3];",
        f"int a[8]; int n = 0; for (int r = 0; r < m; r++) {{ for (int i = 0; i < 8; i++) {{ int k = x[i]; "
        f"int j = n++; {INSERT} }} }} y[0] = a[3];",
        # keys are more than their order
        f"int a[8]; for (int i = 0; i < 8; i++) {{ int k = x[i]; int j = i; {INSERT.replace('> k', '> (k & 255)')} }} "
        "y[0] = a[3];",
        f"int a[8]; for (int i = 0; i < 8; i++) {{ unsigned k = x[i]; int j = i; {INSERT} }} y[0] = a[3];",
        # something goes with them, or elsewhere
        "int a[8], b[8]; for (int i = 0; i < 8; i++) { int k = x[i]; int j = i; while (j > 0 && a[j - 1] > k) { "
        "a[j] = a[j - 1]; b[j] = b[j - 1]; j--; } a[j] = k; b[j] = i; } y[0] = a[3] + b[3];",
        f"int a[8]; for (int i = 0; i < 8; i++) {{ int k = x[i]; int j = i; {INSERT} y[i] = k; }} y[0] = a[3];",
        f"int a[8]; for (int i = 0; i < 8; i++) {{ int k = x[m++]; int j = i; {INSERT} }} y[0] = a[3];",
        f"int a[8]; int* p = a; for (int i = 0; i < 8; i++) {{ int k = x[i]; int j = i; {INSERT} }} y[0] = p[3];",
        # room for one statement, loops that stay loops
        f"int a[8]; if (m) for (int i = 0; i < 8; i++) {{ int k = x[i]; int j = i; {INSERT} }} y[0] = a[3];",
        f"int a[8]; for (int i = 0; i < 8; i++) {{ int k = x[i]; int j = i; {INSERT} }}\n#pragma unroll 2\n"
        "for (int i = 0; i < 8; i++) y[i] = a[i];",
        # as many as the launch says
        f"int a[8]; for (int i = 0; i < m; i++) {{ int k = x[i]; int j = i; {INSERT} }} y[0] = a[3];",
    ],
)  # fmt: skip
def test_what_is_no_sort_of_bare_keys_stays(body: str) -> None:
    assert rewritten(body) is None


def test_a_pragma_that_asked_for_something_else() -> None:
    loop = f"for (int i = 0; i < 8; i++) {{ int k = x[i]; int j = i; {INSERT} }}"
    assert rewritten(f"int a[8];\n#pragma unroll 1\n{loop}\ny[0] = a[3];") == (
        "int a[8]; #pragma unroll for (int i = 0; i < 8; i++) { a[i] = x[i]; } sort_up(a); y[0] = a[3];"
    )


def test_keys_in_arithmetic() -> None:
    assert moved_alone("{ int a[4]; for (int i = 0; i < 4; i++) a[i] = keys[i]; }", "a", "int", "keys")
    assert not moved_alone("{ int a[4]; for (int i = 0; i < 4; i++) a[i] = keys[i] + 1; }", "a", "int", "keys")
    assert not moved_alone("{ int a[4]; int k = keys[0]; if (k > 3) a[0] = k; }", "a", "int", "keys")
    assert not moved_alone("{ int a[4]; a[keys[0]] = keys[1]; }", "a", "int", "keys")
