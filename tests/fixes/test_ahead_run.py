"""Loads of several rounds first: the old and the new text of two dozen loops, compiled for the host and run thread by
thread, give the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscope.fixes.flight.rounds import rounds
from kscope.fixes.flight.written import code_above, spans
from tests.support.on_host import wrong

HEAD = "__global__ void k(const int* x, const int* at, int* y, int n, int m) {\n  int s = 0;\n  "
UP = "for (int i = threadIdx.x; i < n; i++) "
LOOPS = [
    f"{UP}{{ if (i % 3 == 1) s += x[i]; else s -= at[i]; y[i] = s; }}",
    "for (int i = n - 1; i >= 0; i--) { s = s * 2 + x[i]; y[i] = s; }",
    "for (int i = n - 1; i > 0; i -= 2) { s = s * 2 + x[i] + x[i - 1]; y[i] = s; }",
    "for (unsigned i = threadIdx.x; i < n; i += 7) { s += x[i]; y[i] = s; }",
    "int i = threadIdx.x; while (i < n) { s += x[i]; y[i] = s; i += 5; }",
    "for (int i = 0, j = n - 1; i < j; i++, j--) { s += x[i] * x[j]; y[i] = s; }",
    "const int* p = x; for (int i = 0; i < n; i++) { s += *p; y[i] = s; p++; }",
    "for (int r = 0; r < 3; r++) { s = 0; for (int i = 0; i < n; i++) { s += x[i] * r; y[i] += s; } }",
    "int b = 0; for (int r = 0; r < n; r++) { int e = at[r]; s += x[b] + e; b = r / 2; y[r] = s; }",
    f"{UP}{{ int v = i > 0 ? x[i - 1] : 0; s += v; y[i] = s; }}",
    f"{UP}{{ if (i + 1 < n) s += x[i + 1]; y[i] = s; }}",
    f"{UP}{{ int j = i + 1; if (j >= n) continue; s += x[j]; y[i] = s; }}",
    f"{UP}{{ int v = 0; if (i + 1 < n) v = x[i + 1]; s += v; y[i] = s; }}",
    f"{UP}{{ s += x[i]; y[i] = s; s += y[i]; }}",
    "for (int i = threadIdx.x; i < n; i += 4) { y[i] = y[i] * 2 + x[i]; }",
    "for (int i = 0; i != n - n % 2; i += 2) { s += x[i] + x[i + 1]; y[i] = s; }",
    "for (int i = 0, j = 0; i < n && j < m; i++, j += 2) { s += x[i]; y[i] = s; }",
    f"{UP}{{ int a = i, b = n - 1 - i; s += x[a] - x[b]; y[i] = s; }}",
    f"{UP}{{ int a = at[i]; if (a >= 0) {{ s += x[a]; }} y[i] = s; }}",
    f"{UP}{{ int a = at[i]; int v = a >= 0 ? x[a] : 1; s += v; y[i] = s; }}",
    f"{UP}{{ const int a = at[i]; const bool is = a >= 0; if (is) s += x[a]; y[i] = s; }}",
    f"{UP}{{ int a = at[i]; if (a < 0) a = 0; s += x[a]; y[i] = s; }}",
    "int j = 0; for (int i = 0; i < n; i++) { s += x[j]; y[i] = s; j = j + 3 < n ? j + 3 : 0; }",
    f"{UP}{{ int* q = y + i; s += x[i]; *q = s; s += y[i]; }}",
    "int *a = y, *b = y + n; for (int i = 0; i < n; i++) { int v = a[i]; b[i] = v + x[i]; int* t = a; a = b; b = t; }",
    "for (int i = 0; i < n; i++) if (i % 2) y[i] = s += x[i]; else y[i] = x[0];",
    "const int* p = x; for (int i = 0; i < n; i++) { s += *p; y[i] = s; p = i + 1 < n ? p + 1 : p; }",
    f"{UP}{{ if (i > 1) {{ int j = i - 2; if (j % 2) s += x[j]; else {{ s -= x[j + 1]; }} }} y[i] = s; }}",
    "for (int i = -1; i <= n; i++) { if (i < 0 || i >= n) continue; s += x[i]; y[i] = s; }",
    "int r = n / 2, b = r ? at[r - 1] : 0; b = b < 0 ? 0 : b; for (int i = b; i < n; ++i) s += x[i]; y[r] = s;",
    "int* q = y; for (int i = 1; i < n; i++) { s += y[i - 1]; q[i] = s; }",
    "const int* q = y; for (int i = 1; i < n; i++) { s += q[i - 1]; y[i] = s; }",
]


@pytest.mark.parametrize("times", [2, 4])
def test_loops_come_to_the_same(times: int, tmp_path: Path) -> None:
    pairs, above = [], set[str]()
    for loop in LOOPS:
        old = f"{HEAD}{loop}\n}}"
        for one in rounds(old, "k", old.split("\n")):
            new = old
            for start, end, put in sorted(spans(old, one, times), reverse=True):
                new = new[:start] + put + new[end:]
            above.add(code_above(one.held))
            pairs.append((old, new))
    assert len(pairs) > 20
    found = wrong(tmp_path, pairs, name="k", call="a, b, out, n, m", kind="int", blocks=(2, 2), above="\n".join(above))
    assert found == [0] * len(pairs)
