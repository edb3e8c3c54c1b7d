"""Words of records by one access: the old and the new text of a dozen kernels, compiled for the host and run thread by
thread, give the same."""

from __future__ import annotations

from pathlib import Path

from kscope.fixes.given.text import Span
from kscope.fixes.strided.records import stored
from kscope.fixes.strided.together import Moved, put
from kscope.fixes.strided.words import _Read, _spans, words
from tests.support.on_host import wrong

HEAD = "__global__ void k(const float* x, float* y, int n) {\n  int i = threadIdx.x + 16 * blockIdx.x; float s = 0;\n  "
ABOVE = """
template <class T, int N> struct ReadWordsOf { T at[N]; };
template <class T, int N> struct WordsOf { T at[N]; };
template <int N, class T> static ReadWordsOf<T, N> words_of(const T* from) {
  ReadWordsOf<T, N> out; for (int n = 0; n < N; n++) out.at[n] = from[n]; return out;
}
template <class T> struct GivenAs { using type = T; };
template <int W, class T> static void store_together(T* to, const typename GivenAs<T>::type& record) { *to = record; }
static float turn(float& a, float& b) { a = 9; return b; }
"""
READ = [
    "float p = x[3 * i], q = x[3 * i + 1], r = x[3 * i + 2]; y[i] = p + q * r;",
    "int j = i; float p = x[2 * j], q = x[2 * j + 1]; j++; y[i] = p + q + x[2 * j] + x[2 * j + 1];",
    "for (int j = 0; j < 4; j++) { s += x[2 * j]; s *= x[2 * j + 1]; } y[i] = s;",
    "s += x[2 * i]; s *= x[2 * i + 1]; y[i] = s;",
    "const float* z = x + 2 * i; y[i] = z[0] - z[1];",
    "const float* z = x; for (int j = 0; j < 3; j++) { s = s * 2 + z[0] - z[1]; z += 2; } y[i] = s;",
    "float p = y[2 * i]; y[2 * i + 1] = 7; y[i] = y[2 * i + 1] + p;",
    "float v = turn(y[2 * i], y[2 * i + 1]); y[i] += v;",
    "float* z = y + 2 * i; float p = y[2 * i]; *(z + 1) = 5; float q = y[2 * i + 1]; y[i] = p - q;",
]
STORED = [
    "y[3 * i] = x[i]; y[3 * i + 1] = x[i + 1]; y[3 * i + 2] = 3;",
    "y[3 * i + 2] = x[i]; y[3 * i] = x[i + 1]; y[3 * i + 1] = 3;",
    "float* z = y; y[3 * i] = x[i]; s = z[3 * i]; y[3 * i + 1] = s + 1; y[3 * i + 2] = 3;",
    "int j = 3 * i; y[j] = x[i]; y[j + 1] = 1; y[j + 2] = 3;",
    "y[2 * i] = s = x[i]; y[2 * i + 1] = s + 1;",
    "if (i > 3) { y[2 * i] = x[i]; y[2 * i + 1] = 1; }",
    "for (int k = 0; k < 3; k++) { y[3 * i + k] = x[i + k] * k; }",
    "for (int k = 0; k < 3; k++) y[3 * i + k] = s += x[k];",
    "y[i] = x[i], s = 3; y[i + 700] = s;",
]


def changed(code: str, spans: list[Span]) -> tuple[str, str]:
    new = code
    for start, end, becomes in sorted(spans, reverse=True):
        new = new[:start] + becomes + new[end:]
    return code, new


def test_records_and_words_come_to_the_same(tmp_path: Path) -> None:
    read, kept = [f"{HEAD}{x}\n}}" for x in READ], [f"{HEAD}{x}\n}}" for x in STORED]
    pairs = [changed(x, list(_spans([_Read(one, (), 4 * one.count) for one in words(x)]))) for x in read]
    pairs += [changed(x, put([Moved(one, (), 12) for one in stored(x)], 1)) for x in kept]
    assert sum(old != new for old, new in pairs) >= 14
    assert wrong(tmp_path, pairs, name="k", call="a, out, n", above=ABOVE, blocks=(3, 3)) == [0] * len(pairs)
