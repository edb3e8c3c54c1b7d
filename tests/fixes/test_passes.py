"""Rows that lanes go along several times: their elements stay in registers, where nothing else is loaded and it comes
out the same."""

from __future__ import annotations

import pytest

from kscope.fixes.rows.compared import Same, Side, same
from kscope.fixes.rows.function import Function, _read
from kscope.fixes.rows.own import in_registers
from kscope.fixes.rows.passes import Passes, passes
from tests.support.with_sources import changes

BLOCK, LANES, ROWS = 64, 32, 2
LEAST = """__global__ void least3(const int* __restrict__ given, int* __restrict__ out, int many) {
  __shared__ int best[64]; __shared__ int at[64];
  const int me = threadIdx.x;
  for (int turn = 0; turn < 3; ++turn) {
    int low = 1 << 20, where = 0;
    for (int e = me; e < many; e += 64) {
      bool gone = false;
      for (int before = 0; before < turn; before++) if (out[blockIdx.x * 3 + before] == e) gone = true;
      if (!gone && given[blockIdx.x * many + e] < low) { low = given[blockIdx.x * many + e]; where = e; }
    }
    best[me] = low; at[me] = where; __syncthreads();
    for (int h = 32; h > 0; h >>= 1) {
      if (me < h && best[me + h] < best[me]) { best[me] = best[me + h]; at[me] = at[me + h]; }
      __syncthreads();
    }
    if (me == 0) out[blockIdx.x * 3 + turn] = at[0];
    __syncthreads();
  }
}"""
TWICE = """__global__ void twice(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                      int n) {
  __shared__ float s[64]; int t = threadIdx.x; float sum = 0;
  for (int k = t; k < n; k += 64) sum += x[blockIdx.x * n + k] * w[k];
  s[t] = sum; __syncthreads();
  for (int d = 32; d; d >>= 1) { if (t < d) s[t] = s[t] + s[t + d]; __syncthreads(); }
  for (int k = t; k < n; k += 64) y[blockIdx.x * n + k] = x[blockIdx.x * n + k] * s[0];
}"""


def function(code: str) -> Function:
    made = _read("a.cu", code.split("\n"), code.partition("(")[0].split()[-1], 1, (), None)
    assert made is not None
    return made


def kept(code: str, length: float = 100) -> tuple[Passes, Same] | None:
    fn = function(code)
    first = in_registers(fn, BLOCK, LANES, ROWS, 1, {}, {})
    assert first is not None
    found = passes(fn, first.text, LANES, first.values, dict.fromkeys(fn.pointers, length))
    if found is None:
        return None
    old = [Side(fn.body, (ROWS * n, 1), (BLOCK, 1), {}) for n in (1, 2)]
    new = [Side(found.text[fn.opened :], (n, 1), (LANES, ROWS), {}) for n in (1, 2)]
    played = same(fn, old, new, {}, besides=found.sizes(LANES))
    return None if played is None else (found, played)


def test_a_capture_takes_its_best_four_from_registers() -> None:
    (fix,) = [f for f in changes("best4.block", "GRD405") if f.kind == "lane_mapping"]
    text = fix.code.partition("} else {")[0]
    assert "if (n > 352 && n <= 384) {" in text and "float row_own[12];" in text and text.count("row[k]") == 1
    assert "used |= y_said[j] == k;" in text and "got[j]" not in text and "__syncwarp" not in text
    assert "y_said[r] = __shfl_sync(~0u, sk, 0);" in text and "if (!threadIdx.x) got[r] = y_said[r];" in text
    assert "used |= got[j] == k;" in fix.code  # longer rows
    assert any("353 to 384 elements" in cost for cost in fix.costs)
    assert any(c.state == "check" and c.holds == "all elements of a row of x are there" for c in fix.conditions)
    assert fix.conditions[0].state == "proved" and fix.conditions[0].ran > 4


def test_other_names_and_places() -> None:
    found = kept(LEAST)
    assert found is not None and found[0].most == 128 and found[0].words == 4 + 3
    text = found[0].text
    assert "if (many > 96 && many <= 128) {" in text and "int given_own[4];" in text and "out_said[before] == e" in text
    assert found[1].compared >= 3 * ROWS * 4 and found[1].sizes >= 7


def test_what_is_stored_in_shared_memory_is_handed_on_too() -> None:
    chosen = LEAST.replace("__shared__ int at[64];", "__shared__ int at[64]; __shared__ int chosen[3];")
    chosen = chosen.replace("out[blockIdx.x * 3 + before] == e", "chosen[before] == e")
    chosen = chosen.replace("if (me == 0) out", "if (me == 0) chosen[turn] = at[0];\n    if (me == 0) out")
    found = kept(chosen)
    assert found is not None and "chosen_said[before] == e" in found[0].text.partition("} else {")[0]
    assert found[0].text.partition("} else {")[0].count("__syncwarp") == 0
    both = chosen.replace("chosen[turn] = at[0];\n    if (me == 0) out", "{ chosen[turn] = at[0]; out").replace(
        "turn] = at[0];\n    __sync", "turn] = at[0]; }\n    __sync")  # fmt: skip
    assert both != chosen and (found := kept(both)) is not None and "chosen_said" in found[0].text
    late = kept(chosen.replace("int low = 1 << 20", "int low = (1 << 20) + (turn ? chosen[turn - 1] : 0)"))
    assert late is not None and "chosen_said[turn - 1]" in late[0].text


def test_passes_one_behind_the_other() -> None:
    found = kept(TWICE)
    assert found is not None and found[0].words == 4  # of x alone: w is loaded once
    fast = found[0].text.partition("} else {")[0]
    assert fast.count("x[row_n * n + k]") == 1 and fast.count("x_own[each_n]") == 3 and "w[k]" in fast
    assert kept(TWICE.replace("* s[0]", "* s[0] + w[k]"), length=70)[0].words == 6  # type: ignore[index]


def test_rows_of_a_number_need_no_other_way() -> None:
    fixed = TWICE.replace("int n)", "int m)").replace("k < n", "k < 96").replace("* n", "* 96")
    found = kept(fixed, length=96)
    assert found is not None and "else" not in found[0].text and found[0].most == 96
    assert kept(fixed, length=64) is None and kept(fixed, length=110) is None  # a lane's registers do not hold them


SOME = TWICE.replace(") sum += x", ") if (w[k] > 100) sum += x").replace(") y[", ") if (w[k] > 100) y[")


@pytest.mark.parametrize(
    ("code", "was", "becomes"),
    [
        (TWICE, "const float* __restrict__ x", "const float* x"),  # y may lie in x
        (TWICE, " = x[blockIdx.x * n + k]", " = w[k]"),  # not x again: w alone is
        (TWICE, " = x[blockIdx.x * n + k] * s", " = x[blockIdx.x * n + n - 1 - k] * s"),
        (TWICE, "k < n; k += 64) sum", "k < n - 1; k += 64) sum"),
    ],
)
def test_other_texts_are_left(code: str, was: str, becomes: str) -> None:
    assert code.count(was) == 1
    found = kept(code.replace(was, becomes))
    assert found is None or "x_own" not in found[0].text


def test_nothing_is_loaded_that_was_not() -> None:
    assert kept(SOME) is None  # places that some rounds load alone
    found, plain = kept(SOME.replace("100", "-1")), kept(TWICE)
    assert found is not None and found[0].asked == ("x",)  # the numbers that are played tell no better
    assert plain is not None and plain[0].asked == ()


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("out[blockIdx.x * 3 + before] == e", "given[e] == e"),  # nobody asks for what is stored
        ("turn < 3", "turn < many"),  # as often as the row is long
        ("out[blockIdx.x * 3 + turn]", "out[blockIdx.x * 3 + 2 - turn]"),
        ("if (me == 0) out", "if (me == 1) out"),
        ("before < turn; before++", "before < 3; before++"),  # what was there before
    ],
)
def test_what_the_first_lane_stores_is_read_where_it_is_clear(was: str, becomes: str) -> None:
    assert LEAST.count(was) == 1
    found = kept(LEAST.replace(was, becomes))
    assert found is None or "_said" not in found[0].text
