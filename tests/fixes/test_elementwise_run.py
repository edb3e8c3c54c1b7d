"""Elements side by side: the old and the new text, compiled for the host and run thread by thread, give the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscope.fixes.memory.neighbours import SEVERAL
from kscope.fixes.thread.elements import elements
from kscope.fixes.thread.elementwise import ALIGNED, spans
from tests.fixes.test_elementwise import INDEX, kernel, rewritten
from tests.support.on_host import wrong

HEAD = "const float* a, const float* b, float* out, int n, int m, float s"
LOOP = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)"
ABOVE = """
template <class V> static void two(V x, V& y) { y += x; }
static float once(float x) { return x - 1; }
"""
TEXTS = [
    (INDEX, "  if (i < n) out[i] = a[i] + b[i];"),
    (INDEX, "  if (i < n) out[i] = out[i] * a[i];"),
    (INDEX, "  if (i < n) out[i] = fma(out[i], a[i], b[i]);"),
    (INDEX, "  if (i < n) { out[i] = a[i]; out[i] = out[i] + b[i]; }"),
    (INDEX, "  if (i >= n) return;", "  float x = out[i];", "  out[i] = x * b[i] + x;"),
    (INDEX, "  if (i < n) { if (a[i] > 0) out[i] = 4; else out[i] = out[i] - 1; }"),
    (INDEX, "  if (i < n) { if (a[i] > 0) { out[i] = n; } else { out[i] = 2; } }"),
    (LOOP + " out[i] = out[i] / (a[i] + 13);",),
    (LOOP + " out[i] -= a[i];",),
    (LOOP + " { float x = b[i]; out[i] = x > 0 ? x : a[0]; }",),
    (LOOP + " { out[i] = max(out[i], a[i]); }",),
    # names behind a greater-than sign
    (INDEX, "  if (i < n) out[i] = a[i] * (m>i) + (200>>i);"),
    (INDEX, "  if (i < n) { out[i] = a[i]; float y = 0>out[i]; out[i] = y; }"),
    # indices that jump, and that change after they are made
    (INDEX, "  if (i < n) out[i] = a[i] + b[i % 250];"),
    (LOOP + " { int j = i / 250 * 3 + i; out[i] = a[i] + b[j]; }",),
    (INDEX, "  if (i < n) { int j = i; j += 1; out[i] = a[j]; }"),
    (INDEX, "  if (i < n) { int j = i; if (j > 3) j = 3; out[i] = a[j] + b[i]; }"),
    (INDEX, "  if (i < n) { int j; j = i; if (j > 3) j = 3; out[i] = a[j] + b[i]; }"),
    (INDEX, "  if (i < n) { const int j = i; float i2 = a[j]; out[j] = i2 + i; }"),
    # what is asked
    (INDEX, "  if (i < n) { if (m > 2) out[i] = a[i]; }"),
    (INDEX, "  if (i < n) { if (m > 2) { out[i] = a[i]; } out[i] += 1; }"),
    (INDEX, "  if (i < n) { if (a[i] > 0) out[i] = 1; else if (a[i] < -3) out[i] = 2; else out[i] = 3; }"),
    (INDEX, "  if (i < n) { float x; if (a[i] > 0) x = out[i]; else x = 1; out[i] = x; }"),
    (INDEX, "  if (i < n) { float x = (out[i] = a[i]) + out[i]; out[i] = x; }"),
    (INDEX, "  if (i < n) { float x = a[i]; if (x > 0) out[i] = x, x = 2; out[i] = x; }"),
    # other bounds, types and ways to write
    (INDEX, "  if (i < n - m) out[i] = a[i + m];"),
    (INDEX, "  if (i >= n || m < 0) return;", "  out[i]++;"),
    ("  const size_t i = threadIdx.x + (size_t)blockIdx.x * blockDim.x;", "  if (i >= n) { return; }",
     "  out[i] *= a[i];"),
    (LOOP + " { float t = out[i]; out[i] = a[i] * t; t = out[i]; out[i] = t + i; }",),
    ("  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) if (blockIdx.x == 0) out[i] += a[i];",),
    # functions that may change what they are given
    (INDEX, "  if (i < n) two(a[i], out[i]);"),
    (INDEX, "  if (i < n) two<float>(max(a[i], b[i]), out[i]);"),
    (INDEX, "  if (i < n) out[i] = once(a[i]) + static_cast<int>(b[i]);"),
    (f"  for (int r = 0; r < m; r++) {{ {LOOP} out[r * n + i] = a[r * n + i] * b[i]; }}",),
]


def test_the_new_text_computes_the_same(tmp_path: Path) -> None:
    old = [kernel(*lines, head=HEAD) for lines in TEXTS]
    pairs = [(text, rewritten(text)) for text in old]
    found = wrong(tmp_path, pairs, name="scale", call="a, b, out, n, m, 1", above=f"{SEVERAL}\n{ALIGNED}\n{ABOVE}")
    assert [TEXTS[n][-1] for n, bad in enumerate(found) if bad] == []


@pytest.mark.parametrize(
    "lines",
    [
        (INDEX, "  if (i < n) { if (a[i] > 0) out[i] = 1; else { if (a[i] < -3) out[i] = 2; } }"),  # not for all
        # what has been summed up so far is another sum for other elements
        (LOOP + " { s += a[i]; out[i] = s; }",),
        (LOOP + " { out[i] = a[i] * s; s = max(s, b[i]); }",),
        # what an element leaves behind in a thread
        ("  float2 acc = {0, 0};", INDEX, "  if (i < n) { acc.x += a[i]; out[i] = acc.x; }"),
        ("  Draws draws(n);", LOOP + " out[i] = a[i] * draws.next();"),
        ("  float t = 0; unsigned seed = n, state = 5;", LOOP + " out[i] = a[i] + drawn<float>(state);"),
        # which of them are a thread's hangs on where a row starts: another thread has them in the next round
        (f"  for (int r = 0; r < m; r++) {{ {LOOP} out[i] += a[r * n + i]; }}",),
        (f"  while (m--) {{ const float* p = a + m * n; {LOOP} out[i] = p[i]; }}",),
    ],
)
def test_what_stays(lines: tuple[str, ...]) -> None:
    assert list(elements(kernel(*lines, head=HEAD))) == []


def test_a_name_that_is_needed_is_taken() -> None:
    text = kernel(INDEX, "  if (i < n) { float a_v = a[i]; out[i] = a_v * 2; }")
    (one,) = elements(text)
    assert spans(text, one, 4) == []
