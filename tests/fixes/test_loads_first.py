"""All loads of an unrolled loop before its first store: which loops may be split so, and that results are the same."""

from __future__ import annotations

import numpy as np
import pytest

from kscope.fixes.atomics.reading import read
from kscope.fixes.given.played import play
from kscope.fixes.given.text import Text
from kscope.fixes.left import left
from kscope.fixes.thread.first import BEHIND
from kscope.fixes.thread.split import splits
from kscope.model.contract.fixes import Fix
from tests.support.with_sources import changes
from tools.fixes_pairs import judged, setting

HEAD = "__global__ void k(const float* f, float* g, const int* nb, float w, int n) {"
ABOVE = (
    "__device__ __forceinline__ int from(int i, int d, int n) { return (i + (d - 4) * 257 + n) & (n - 1); }\n"
    "__device__ int counted(int* p) { return atomicAdd(p, 1); }\n"
    "__device__ void onward(int& i) { i++; }\n"
)


def split(body: str, head: str = HEAD, above: str = ABOVE) -> str:
    """A kernel's text with its first loop as two; "" where none may be split."""
    code = f"{head}\n  int i = blockIdx.x * 128 + threadIdx.x; float sum = 0;\n{body}\n}}"
    kernel = read(Text("f.cu", 1 + above.count("\n"), code), "k", (above + code).split("\n"))
    one = next(splits(kernel), None) if kernel is not None else None
    if one is None:
        return ""
    for start, end, new in sorted(one.spans(code), reverse=True):
        code = code[:start] + new + code[end:]
    return code


def hoisted() -> Fix:
    (fix,) = [f for f in changes("streams.between", "LAT302") if f.kind == "hoist"]
    return fix


def test_the_measured_one() -> None:
    """1.99x in streams.first."""
    fix = hoisted()
    pragma, loop = fix.edits
    assert pragma.becomes.split("\n") == [
        "  float f_first[8];", "#pragma unroll",
        "  for (int d = 0; d < 8; d++) f_first[d] = f[d * n + from(i, d, n)];", "#pragma unroll",
    ]  # fmt: skip
    assert loop.becomes == loop.was.replace("f[d * n + from(i, d, n)]", "f_first[d]")
    assert (fix.proof[0].what, fix.proof[0].before, fix.proof[0].after) == (BEHIND, 7, 0)
    assert fix.price is not None and fix.price.low <= 1.99 <= fix.price.high
    assert any(c.state == "check" and "overlap" in c.holds for c in fix.conditions)
    assert not [f for f in changes("streams.first", "LAT302") if f.kind == "hoist"]
    assert judged("streams.between", "streams.first", "LAT302", fix, 1.99).word in ("as good", "same")


UNROLLED = "#pragma unroll\n  for (int d = 0; d < 8; d++) "


@pytest.mark.parametrize(
    ("body", "loads"),
    [
        ("{ float v = f[d * n + i]; sum += v; g[d * n + i] = v * w + sum; }", "f_first[d] = f[d * n + i];"),
        ("g[d * n + i] = f[d * n + (i ^ (d + 1))] * w;", "f_first[d] = f[d * n + (i ^ (d + 1))];"),
        # what the round computes of its number goes along; what it sums up stays
        ("{ int at = d * n + i; float v = f[at]; g[at] = v; }", "{ int at = d * n + i; f_first[d] = f[at]; }"),
        ("{ int q = d + 1; int at = nb[i + q]; sum += f[at]; g[d * n + i] = sum; }",
         "{ int q = d + 1; nb_first[d] = nb[i + q]; int at = nb_first[d]; f_first[d] = f[at]; }"),
        ("g[d * n + i] = f[nb[d * n + i]];", "f_first[d] = f[nb[d * n + i]];"),
        ("{ float v = f[d * n + i]; if (v > 0) g[d * n + i] = f[d * n + i + 1]; }", "f_first[d] = f[d * n + i];"),
        ("{ float u = f[d], v = f[d + 1]; g[d * n + i] = u + v; }", "{ f_first[d] = f[d]; f_first1[d] = f[d + 1]; }"),
    ],
)  # fmt: skip
def test_rounds_that_are_split(body: str, loads: str) -> None:
    code = split(UNROLLED + body)
    assert f"for (int d = 0; d < 8; d++) {loads}\n#pragma unroll\n" in code


@pytest.mark.parametrize(
    "body",
    [
        "{ float v = g[d * n + i]; g[d * n + i + 1] = v; }",  # where the round before may have stored
        "{ float v = f[d * n + i]; i += (int)v; g[d * n + i] = v; }",  # where to load is what was loaded
        "{ float v = f[(int)sum]; sum += v; g[d * n + i] = sum; }",
        "{ if (i + d < n) g[d * n + i] = f[d * n + i]; }",  # out of bounds, perhaps
        "{ float v = i + d < n ? f[d * n + i] : 0; g[d * n + i] = v; }",
        "{ if (i + d >= n) break; float v = f[d * n + i]; g[d * n + i] = v; }",
        "{ float v = f[d * n + i]; __syncthreads(); g[d * n + i] = v; }",
        "{ onward(i); float v = f[d * n + i]; g[d * n + i] = v; }",  # i by reference
        "{ elsewhere(i); float v = f[d * n + i]; g[d * n + i] = v; }",  # perhaps by reference
        "{ it.moved(i); float v = f[d * n + i]; g[d * n + i] = v; }",
        "{ g[d * n + i] = f[counted(cells) + d]; }",  # a call that does more than say a place
        "{ g[d * n + i] = f[unknown(d)]; }",
        "{ float v = f[d * n + i]; d++; g[d * n + i] = v; }",
        "{ float v = f[d * n + i]; f = g; g[d * n + i] = v; }",
        "{ float v = f[d * n + i]; *(g + i) = v; }",  # a store that is not told apart
        "{ { float v = nb[d]; if (i + d < n) g[d * n + i] = f[d * n + i] + v; } }",  # out of bounds, perhaps
    ],
)
def test_rounds_that_stay(body: str) -> None:
    assert not split(UNROLLED + body)


@pytest.mark.parametrize(
    ("before", "body"),
    [
        # what is stored to by another name
        ("float* s = shared;", "{ shared[d + 1] = w; g[d * n + i] = s[d]; }"),
        ("float* s = shared; float* t = s + 1;", "{ t[d] = w; g[d * n + i] = s[d]; }"),
        ("float *s = shared, *t = shared + 1;", "{ t[d] = w; g[d * n + i] = s[d]; }"),
        ("const float* p = g + n;", "{ float v = p[d * n]; g[d * n + i] = v; }"),
        ("f = g;", "{ float v = f[d * n]; g[d * n + i] = v; }"),
        ("if (n > 2) f = g;", "{ float v = f[d * n]; g[d * n + i] = v; }"),
        ("const float* p = f; if (n > 2) swap(p, g);", "{ float v = p[d * n]; g[d * n + i] = v; }"),
        # an index that is changed by another name
        ("int at = i; int& to = at;", "{ float v = f[at]; g[d * n + i] = v; to++; }"),
        ("int at = i; int* to = &at;", "{ float v = f[at]; g[d * n + i] = v; to[0] += 1; }"),
    ],
)
def test_two_names_for_one_thing(before: str, body: str) -> None:
    assert not split(f"{before}\n{UNROLLED}{body}")
    assert split(f"{before}\n{UNROLLED}{{ float v = nb[d]; g[d * n + i] = v; }}")


def test_rounds_that_a_name_counts() -> None:
    """A constant of another kernel's, or a name of this one's template, is not the file's."""
    body = "#pragma unroll\n  for (int d = 0; d < R; d++) { float v = f[d * n + i]; g[d * n + i] = v; }"
    once, again = "constexpr int R = 4;\n", "__global__ void b() { constexpr int R = 2; }\n"
    assert "f_first[4]" in split(body, HEAD, above=once)
    assert "f_first[8]" in split(f"constexpr int R = 8;\n{body}", HEAD, above=once + again)
    assert not split(body, HEAD, above=once + again)
    assert not split(body, HEAD, above=f"{once}template <int R>\n")
    assert not split(body, HEAD.replace("int n", "int n, int R"), above=once)


def test_loops_that_stay() -> None:
    body = "{ float v = f[d * n + i]; g[d * n + i] = v; }"
    assert split(f"for (int d = 0; d < 8; d++) {body}").count("#pragma unroll") == 2
    assert "f_first[d - 1]" in split(f"#pragma unroll\n  for (int d = 1; d < 9; d++) {body}")
    for head in (
        "for (int d = 0; d < n; d++) ", "#pragma unroll\n  for (int d = 0; d < 64; d++) ",
        "#pragma unroll 2\n  for (int d = 0; d < 8; d++) ", "for (int d = 0; d < 8; d += 2) ",
        "if (i < n)\n  for (int d = 0; d < 8; d++) ",
    ):  # fmt: skip
        assert not split(head + body)
    assert not split(UNROLLED + body, HEAD.replace("const float* f", "const volatile float* f"))


@pytest.mark.parametrize(
    "body",
    [
        "{ float v = f[d * n + ((i + 5 * d) & (n - 1))]; sum += v * v; g[d * n + i] = 9 * v + sum; }",
        "{ int q = d + 1; int at = nb[(i + q) & (n - 1)]; sum += f[at]; g[d * n + i] = sum; }",
        "{ float v = f[d * n + i]; if (v > 100) g[d * n + i] = f[d * n + (i ^ 1)]; }",
    ],
)
def test_results_are_the_same(body: str) -> None:
    """Both texts played: what is loaded first is what is loaded in its round."""
    old = f"{HEAD}\n  int i = blockIdx.x * 128 + threadIdx.x; float sum = 0;\n{UNROLLED}{body}\n}}"
    new, n = split(UNROLLED + body), 256
    assert new and new != old
    made = np.random.default_rng(1)
    given = {"f": made.integers(0, 1000, 8 * n), "nb": made.integers(0, 8 * n, n)}
    out = []
    for text in (old, new):
        memory = {name: words.copy() for name, words in given.items()} | {"g": np.zeros(8 * n, dtype=np.int64)}
        play(text[text.index("{") :], (2, 1), (128, 1), memory, {"n": n, "w": 3})
        out.append(memory["g"])
    assert out[0].any() and np.array_equal(out[0], out[1])


def test_the_judge_sees_what_is_left() -> None:
    fast = setting("streams.first")
    slow = setting("streams.between")
    assert slow is not None and fast is not None
    assert left("hoist", slow, "LAT302") == (BEHIND, 7) and left("hoist", fast, "LAT302") == (BEHIND, 0)
    assert left("hoist", fast, "CMP206") != left("hoist", fast, "LAT302")
