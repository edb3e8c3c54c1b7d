"""Rounds whose loads wait for an index: those of several rounds on their way together."""

from __future__ import annotations

import pytest

from kscope.fixes.atomics.reading import Kernel, read
from kscope.fixes.given.text import Text
from kscope.fixes.order.batched import same, walks, written
from tests.support.with_sources import changes

HEAD = (
    "__global__ void walk(const int* __restrict__ begin, const int* __restrict__ next, const float* w, "
    "const float2* __restrict__ table, float* out, int n) {\n"
)
ROWS = """  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s = 0, most = 0; int last = begin[i + 1];
  #pragma unroll 2
  for (int e = begin[i]; e < last; ++e) {
    const int to = next[e];
    const float2 v = table[to];
    s += v.x * w[e];
    most = fmaxf(most, v.y);
  }
  out[i] = s + most;
}"""
ENDED = """  int i = blockIdx.x * 32 + threadIdx.x, many = 0;
  float s = 0; const int* mine = next;
  for (; many < 20; many++) {
    int to = next[i * 20 + many], far = to * 2;
    if (to < 0) { break; }
    s += table[far].x * w[far + many];
  }
  out[i] = s / (many + 1);
}"""


def kernel(body: str) -> Kernel:
    code = HEAD + body
    one = read(Text("a.cu", 3, code), "walk", code.split("\n"))
    assert one is not None
    return one


def test_a_list_that_ends_where_an_entry_says() -> None:
    fix = changes("bags.sentinel", "LAT302")[0]
    line = "rows_of[round_n] = rows[(size_t)id * 32 + lane];"
    assert fix.kind == "unroll" and line in fix.edits[0].becomes and not any(e.becomes for e in fix.edits[1:])
    assert fix.conditions[0].state == "proved" and fix.conditions[0].ran > 500
    assert [c.state for c in fix.conditions if "list" in c.holds] == ["check"]


def test_rounds_that_the_compiler_has_put_together_stay() -> None:
    assert not [f for f in changes("spmm32.each", "LAT302") if f.kind == "unroll"]


@pytest.mark.parametrize("body", [ROWS, ENDED], ids="re")
def test_variants_come_out_the_same(body: str) -> None:
    whole = kernel(body)
    (one,) = walks(whole)
    assert (one.stop >= 0) == (body == ENDED)
    new = written(one)
    assert same(whole, one, new, (32, 1)) > 20
    wrong = [("+= 8)", "+= 7)"), ("+ round_n < last;", "+ round_n <= last;"), ("last - 1", "last")]
    wrong += [("+ round_n < 20;", "+ round_n < 21;"), ("far + (many + round_n)", "far + many"), ("= false;", "= true;")]
    wrong += [("w[at_n]", "w[e]"), ("many += here_n[round_n];", ";")]
    tried = [pair for pair in wrong if pair[0] in new]
    assert len(tried) >= 3
    for old, other in tried:
        assert same(whole, one, new.replace(old, other), (32, 1)) == 0, old


def test_a_pragma_in_front_goes_with_its_loop() -> None:
    (one,) = walks(kernel(ROWS))
    assert kernel(ROWS).of(one.span).startswith("#pragma unroll 2")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("const int to = next[e];", "const int to = e;"),  # nothing waits for an index
        ("table[to]", "table[next[to]]"),  # two indices one after the other
        ("s += v.x", "e += 1; s += v.x"),
        ("s += v.x", "last -= 1; s += v.x"),
        ("s += v.x", "out[e] = 0; s += v.x"),
        ("s += v.x", "if (v.x > 2) continue; s += v.x"),
        ("s += v.x", "__syncwarp(); s += v.x"),
        ("w[e]", "out[e]"),  # which may be written
        ("w[e]", "(e > 3 ? w[e] : 0)"),  # not in every round
        ("e < last", "e <= last"),
        ("++e", "e += 2"),
        ("e < last", "e < begin[i + 1]"),
        ("most = fmaxf(most, v.y);", "if (v.y > most) { most = v.y; break; }"),
    ],
)
def test_what_is_left(old: str, new: str) -> None:
    assert old in ROWS and not walks(kernel(ROWS.replace(old, new)))


def test_a_test_that_leaves_behind_a_sum() -> None:
    text = ENDED.replace("if (to < 0) { break; }", "").replace("+ many];", "+ many]; if (to < 0) break;")
    found = walks(kernel(text))
    assert all(written(one) == "" or same(kernel(text), one, written(one), (32, 1)) == 0 for one in found)
