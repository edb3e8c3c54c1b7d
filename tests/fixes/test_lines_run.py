"""Changes of lines: the old and the new text, compiled for the host, give the same numbers but for rounding."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kscope.fixes.accuracy import math_functions, powers, reciprocals
from kscope.fixes.accuracy.quotients import _floats, _integers, _several, divided
from kscope.fixes.algebra import roots
from kscope.fixes.algebra.sectors import sorted_out
from kscope.fixes.algebra.steady_values import spans, steady
from kscope.fixes.compute.integer_dots import FUNCTION, _dots
from kscope.fixes.compute.narrow import _spans, _wide_names
from kscope.fixes.given.rewrite import Call
from kscope.fixes.given.text import Span, Text, loops

HEAD = (
    "void {name}(const float* x, const double* z, float* y, double* w, float a, float s, double d, int n, int m,"
    " long long i, long long j, size_t u) {{ threadIdx_x at;"
)
DOT = "(float)p.x * (float)q.x + (float)p.y * (float)q.y + (float)p.z * (float)q.z + (float)p.w * (float)q.w"


def put(code: str, found: Sequence[Span]) -> str:
    for start, end, new in sorted(found, reverse=True):
        code = code[:start] + new + code[end:]
    return code


def quotients(code: str) -> str:
    return "\n".join(divided(x, _floats(code), _several(code), _integers(code))[0] for x in code.split("\n"))


def functions(code: str) -> str:
    lines = code.split("\n")
    return "\n".join(math_functions._Change({x}, lines).of(x) for x in lines)


def halves(code: str) -> str:
    doubles, whole, unsigned = powers._doubles(code), powers._integers(code), powers._unsigned(code)


    def one(call: Call) -> str | None:
        found = powers._halves(call, doubles)
        return powers._of_integers(call, whole, unsigned) or (found[2] if found is not None else None)

    return powers._all(code, one)


def hoisted(code: str) -> str:
    lines = code.split("\n")
    for number in range(1, len(lines) + 1):
        for one in reciprocals.divided(lines, number):
            made = reciprocals.edited(lines, number, one)
            return "\n".join(made.get(n, line) for n, line in enumerate(lines, 1))
    return code


def kept(code: str) -> str:
    (loop,) = loops(code)
    mine = steady(code, loop)
    return put(code, spans(code, loop, mine)) if mine else code


def sorted_angles(code: str) -> str:
    one = sorted_out(code)
    return put(code, one.spans) if one is not None else code


TEXTS: list[tuple[Callable[[str], str], str, bool]] = [
    (quotients, "y[0] = a / static_cast<float>(n);", True),
    (quotients, "y[0] = *x / s; y[1] = (size_t)(a * 3) / s;", True),
    (quotients, "y[0] = x[n / 4] / s * a; y[1] = a / (scalar)n - s;", True),
    (quotients, "int k = (int)a / m; y[k] = a / s;", True),
    (quotients, "y[0] = (a - s) * a / (s + 1.f) / a + n / m;", True),
    (quotients, "y[n / m] = -x[2] / -s + std::max<float>(a, s) / a;", True),
    (quotients, "y[0] = near(a) / m + a / s;", True),
    (quotients, "y[0] = a / s > 1.f ? n / m : a / (float)(n + m);", True),
    (roots.divided, "w[0] = 1.0 / sqrt(d) + 5e-1 / sqrt(d + 1) - n / std::sqrt(d);", True),
    (roots.divided, "double r = sqrt(d); w[0] = a / r * d; w[1] = n / r;", True),
    (roots.divided, "int r = sqrt(d * 9); w[0] = n / r;", False),
    (roots.divided, "double r = sqrt(d); w[0] = a / r; if (a>r) w[1] = 1;", False),
    (functions, "y[0] = a / 3 / 1 / sqrtf(s) + 1 / sqrtf(a) + expf(-a);", True),
    (functions, "y[0] = powf(a, 3) - powf(s, 2.5f) + sinf(a);", True),
    (halves, "w[0] = pow(d, 1.5) + pow(z[1], -0.5) + pow(a, 2.5) + pow(n, 1) / 2;", True),
    (halves, "w[0] = pow(2, m - n) * pow(-1, n + 1) + pow(d, 3);", True),
    (halves, "w[0] = pow(z[n++], 2.0) + n; w[1] = pow(w[n++] + 2, 1.5) + n;", True),
    (hoisted, "for (int k = 0; k < n; k++) y[k] = x[k / m] / s + 1 / s;", True),
    (hoisted, "if (n > 2)\n for (int k = 0; k < n; k++) y[k] = x[k] / s;", False),
    (hoisted, "int before = 1; for (int k = 0; k < n; k++) y[k] = before / a;", True),
    (kept, "for (int k = 0; k < n; k++) y[k] = x[k] * z[m] + sqrtf(x[i]);", True),
    (kept, "for (int k = 0; k < n; k++, m++) y[k] = x[k] * z[m];", False),
    (sorted_angles, "int q = (int)floorf(atan2f(s, a) * 1.2732395f) & 7; w[0] = q;", True),
    (sorted_angles, "float t = atan2f(a, s); if (n > 1) if (t < 0) t += 6.2831855f; w[0] = floorf(t);", False),
]
NARROW = [
    ("w[0] = i / j % u + 1; auto c = i / j; w[1] = c * 4000000000; w[2] = c - 200;", True),
    ("float v = s / j; y[0] = v; w[0] = (i + 1) % (j * m);", True),
    ("w[0] = i / 1e3 + i / 16; w[1] = -1 < i / u;", True),
    ("w[0] = a / u + d / j;", False),
]
DOTS = [(f"y[0] = s + {DOT};", True), (f"y[0] = s * ({DOT});", True), (f"y[0] = s - {DOT};", False)]
BEFORE = """
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
typedef float scalar; struct threadIdx_x { int x = 3; }; struct char4 { signed char x, y, z, w; };
#define __device__
#define __forceinline__ inline
using std::max; using std::sqrt; using std::pow;
static int near(float v) { return (int)v; }
static float __fdividef(float a, float b) { return a / b; }
static float rsqrtf(float v) { return 1 / sqrtf(v); }
static double rsqrt(double v) { return 1 / sqrt(v); }
#define __expf expf
#define __sinf sinf
#define __powf powf
static int __dp4a(int a, int b, int c) {
  char4 u, v; memcpy(&u, &a, 4); memcpy(&v, &b, 4); return u.x * v.x + u.y * v.y + u.z * v.z + u.w * v.w + c;
}
template <class F, class G> static int differ(F old, G now) {
  int wrong = 0;
  for (int t = 0; t < 24; t++) {
    float x[64], y[2][64]; double z[64], w[2][64];
    for (int k = 0; k < 64; k++) {
      x[k] = k * 7 % 13 + 1; z[k] = k * 5 % 11 + 1; y[0][k] = y[1][k] = w[0][k] = w[1][k] = k;
    }
    float a = t % 5 + 1.25f, s = t % 7 + .75f; double d = t % 3 + 2.5; int n = t % 6 + 1, m = t % 4 + 1;
    old(x, z, y[0], w[0], a, s, d, n, m, t + 17, t % 5 + 1, t % 7 + 1);
    now(x, z, y[1], w[1], a, s, d, n, m, t + 17, t % 5 + 1, t % 7 + 1);
    for (int k = 0; k < 64; k++) {
      wrong += std::fabs(y[0][k] - y[1][k]) > 1e-5f * (1 + std::fabs(y[0][k]));
      wrong += std::fabs(w[0][k] - w[1][k]) > 1e-6 * (1 + std::fabs(w[0][k]));
    }
  }
  return wrong;
}
"""


def both(make: Callable[[str], str], statements: str, first: str = "") -> tuple[str, str]:
    """The function as it was and as it becomes."""
    old = f"{HEAD.format(name='NAME')} {first}\n {statements}\n}}"
    found = make(old) if make is not roots.divided else put(old, roots.divided(Text("k.cu", 1, old)))
    return old, found


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_the_new_lines_compute_the_same(tmp_path: Path) -> None:
    texts = [(both(make, text), changes) for make, text, changes in TEXTS]
    texts += [(both(lambda c: put(c, _spans(c, _wide_names(c))), text), changes) for text, changes in NARROW]
    given = "char4 p = {1, -128, 127, 5}, q = {-128, -128, 3, 0};"
    texts += [(both(lambda c: _dots(c, {"p", "q"}), text, given), changes) for text, changes in DOTS]
    assert [old != new for (old, new), _ in texts] == [changes for _, changes in texts]
    source = [BEFORE, math_functions.POWER, powers.POWER, FUNCTION]
    for n, ((old, new), _) in enumerate(texts):
        source += [old.replace("NAME", f"old{n}"), new.replace("NAME", f"now{n}")]
    calls = " ".join(f'printf("%d ", differ(old{n}, now{n}));' for n in range(len(texts)))
    (tmp_path / "all.cpp").write_text("\n".join([*source, f"int main() {{ {calls} }}"]), encoding="utf-8")
    built = subprocess.run(
        ["g++", "-std=c++17", "-O0", "-fno-strict-aliasing", "-o", "all", "all.cpp"], cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([tmp_path / "all"], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0"] * len(texts)
