"""One element a thread, several instead: the old and the new text, run on the host, give the same; and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from kscope.fixes.memory.neighbours import SEVERAL, _alike, _one, _several, _stored
from kscope.fixes.thread.elements import elements
from tests.support.on_host import wrong

INDEX = "  int i = blockIdx.x * blockDim.x + threadIdx.x;"
HEAD = "const float* a, const float* b, float* out, int n, int m, float k"


def kernel(*lines: str) -> str:
    return f"__global__ void scale({HEAD}) {{\n" + "\n".join(lines) + "\n}"


def rewritten(text: str) -> str:
    one = _one(text)
    assert one is not None
    for start, end, new in sorted(_several(text, one, 4), reverse=True):
        text = text[:start] + new + text[end:]
    return text


TEXTS = [
    (INDEX, "  if (i < n) out[i] = a[i] * b[i];"),
    (INDEX, "  if (i < n) out[i] = a[i] * k;"),  # which is a name of the kernel's
    (INDEX.replace("int i", "const int i"), "  if (i < n) out[i] = a[i] - out[i];"),
    (INDEX.replace("int i", "const unsigned int i"), "  if (i < n) out[i] = m>out[i] ? a[i] : b[i];"),
    ("  const float t = a[3];", INDEX, "  if (i < n) out[i] = max(a[i] * t, b[m]);"),
    (INDEX, "  if (i < n) out[i] = out[i] > 0 ? a[i] : a[0];"),
]


def test_the_new_text_computes_the_same(tmp_path: Path) -> None:
    pairs = [(text, rewritten(text)) for lines in TEXTS for text in [kernel(*lines)]]
    given = {"name": "scale", "call": "a, b, out, n, m, 3", "above": SEVERAL}
    assert wrong(tmp_path, pairs, blocks=(40, 10), shifts="0, 4", **given) == [0] * len(TEXTS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "lines",
    [
        (INDEX, "  if (i < n) out[i] = __ldg(&a[i]);"),  # an address in registers is none of global memory
        (INDEX, "  if (i < n) out[i] = (&a[i])[1];"),
        (INDEX, "  if (i < n) out[i] = (b[i] += a[i]);"),  # changes more than what it stores to
        (INDEX, "  if (i < n) out[i] = b[i] = a[i];"),
        (INDEX, "  if (i < n) out[i] = a[i] * b[blockIdx.x];"),  # another one in fewer blocks
        ("  if (blockIdx.x > 5) return;", INDEX, "  if (i < n) out[i] = a[i];"),
        ("  atomicAdd(out + n, 1.f);", INDEX, "  if (i < n) out[i] = a[i];"),  # by each thread
        ("  float a_v = k;", INDEX, "  if (i < n) out[i] = a[i] * a_v;"),  # a name that is needed
    ],
)
def test_what_stays(lines: tuple[str, ...]) -> None:
    assert _one(kernel(*lines)) is None


def test_elements_without_a_test_of_the_index_that_stay() -> None:
    assert _stored(kernel(INDEX, "  out[i] = a[i / 32];")) is not None
    assert _stored(kernel(INDEX, "  out[i] = a[i] * b[blockIdx.x];")) is None
    assert _stored(kernel("  atomicAdd(out + n, 1.f);", INDEX, "  out[i] = a[i];")) is None
    assert _alike("out[i] = m > i / 32 ? a[i / 32] : 0;", "i", 8)[0] == ""  # read for some of them alone


def test_what_each_thread_does_before_stays_each_thread_s() -> None:
    assert list(elements(kernel(INDEX, "  if (i < n) out[i] = a[i];")))
    assert not list(elements(kernel("  atomicAdd(out + n, 1.f);", INDEX, "  if (i < n) out[i] = a[i];")))
