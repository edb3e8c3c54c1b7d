"""Sums of products of bytes: the old and the new text of a dozen and more kernels, compiled for the host and run thread
by thread, give the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.fixes.packed.integer_sums import integers

HEAD = "__global__ void k(const char4* __restrict__ w, const char4* x, float* y, int n) { int i = threadIdx.x; "
DOT = "(float)a.x * (float)b.x + (float)a.y * (float)b.y + (float)a.z * (float)b.z + (float)a.w * (float)b.w"
ROUND = "for (int j = 0; j < n; j++) { char4 a = w[i * n + j], b = x[j]; "
SUM = f"float s = 0; {ROUND}s += {DOT}; }} "
TEXTS = [
    f"{SUM}y[i] = s / n;",
    f"{SUM}y[i] = i ? s / 2 : -s / 4; y[i + 8] = 1 - s * 0.3f; y[i + 16] += s / 3;",
    f"{SUM}float of[2] = {{s, s / 2}}; y[i] = of[0] - of[1] / 3 + (s == 0);",
    f"float s = 0, t = 0; {ROUND}s += {DOT}; if (j % 2) t += {DOT}; }} y[i] = s / (t + 0.5f);",
    f"float s = 0, m = -1e9f; {ROUND}s += {DOT}; m = s > m ? s : m; }} y[i] = m;",
    f"float t = 0; {ROUND}float s = 0; s += {DOT}; t += s * 0.5f; }} y[i] = t;",
    f"float s[3] = {{0}}; {ROUND}s[j % 3] += {DOT}; }} y[i] = s[0] / 3 - s[1] / 7 + s[2];",
    f"float s = 0; {ROUND}char4 c = x[j + 1]; s += {DOT} + {DOT.replace('a.', 'c.')}; }} y[i] = s;",
    f"float s = 0; {ROUND}s += {DOT}; if (s > 1000) {{ y[i] = s / 2; return; }} }} y[i] = s;",
    f"float s = 0; {ROUND}a.x = 1; s += {DOT}; }} y[i] = s;",
    f"float s = 0; char4 a = w[i], b = x[0]; for (int j = 0; j < n; j++) {{ s += {DOT}; a = w[j]; }} y[i] = s;",
    f"float s = 0; const char4* p = x; for (int j = 0; j < n; j++) {{ char4 a = *p++, b = a; s += {DOT}; }} y[i] = s;",
    f"float s = 0, t = 0; {ROUND}s += {DOT}; t += a.x; }} y[i] = s - t;",
]  # fmt: skip
BEFORE = """
#include <cstdio>
#include <cstring>
#include <initializer_list>
#define __global__ static
struct Three { unsigned x, y, z; };
static Three threadIdx;
struct char4 { signed char x, y, z, w; };
static int __dp4a(int a, int b, int c) {
  signed char p[4], q[4]; memcpy(p, &a, 4); memcpy(q, &b, 4);
  for (int n = 0; n < 4; n++) c += p[n] * q[n];
  return c;
}
template <class F, class G> static int differ(F old, G now) {
  int wrong = 0;
  static char4 w[400], x[400];
  for (int i = 0; i < 1600; i++) ((signed char*)w)[i] = i * 37 % 251, ((signed char*)x)[i] = i * 11 % 253;
  for (int n : {0, 1, 3, 9, 20}) for (unsigned t = 0; t < 8; t++) {
    threadIdx.x = t;
    float was[64] = {}, is[64] = {};
    old(w, x, was, n); now(w, x, is, n);
    wrong += memcmp(was, is, sizeof was) != 0;
  }
  return wrong;
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_sums_come_to_the_same(tmp_path: Path) -> None:
    source, calls = [BEFORE], []
    for number, text in enumerate(TEXTS):
        old = new = f"{HEAD}{text} }}"
        kept = integers(old, "")
        assert kept is not None
        for start, end, put in sorted(kept.spans, reverse=True):
            new = new[:start] + put + new[end:]
        assert "__dp4a" in new
        source += [old.replace("void k(", f"void k{number}("), new.replace("void k(", f"void now{number}(")]
        calls.append(f'printf("%d ", differ(k{number}, now{number}));')
    (tmp_path / "all.cpp").write_text("\n".join([*source, f"int main() {{ {' '.join(calls)} }}"]), encoding="utf-8")
    command = ["g++", "-std=c++17", "-O0", "-w", "-ffp-contract=off", "-fno-strict-aliasing", "-o", "all", "all.cpp"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([tmp_path / "all"], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0"] * len(TEXTS)
