"""Elements that a block puts in the order of the ways that they go."""

from __future__ import annotations

import pytest

from kscope.fixes.atomics.reading import Kernel, read
from kscope.fixes.given.text import Text, indented
from kscope.fixes.order.by_way import last_store, same, ways
from kscope.fixes.order.pieces import element
from kscope.fixes.order.sorting import sorting
from tests.support.with_sources import changes

HEAD = "__global__ void step(const int* __restrict__ kind, const float* __restrict__ x, float* y, float* z, int n) {\n"
FILE = [
    "__device__ float bent(float v, int k) { for (int q = 0; q < k; q++) v = v * v + 1; return v; }",
    "__device__ float noted(float v) { atomicAdd(&seen, 1); return v; }",
]
SWITCH = """  const int lane = threadIdx.x;
  const size_t at = (size_t)blockIdx.x * 64 + lane;
  if (at >= n) return;
  const int k = kind[at] & 3; float v = x[at], w = 1;
  switch (k) {
    case 0: case 2: for (int q = 0; q < 9; q++) v = v * 3 + 1; break;
    case 1: v = bent(v, 40); w = 2;
    default: v += w;
  }
  y[at] = v;
}"""
CHAIN = """  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v = x[i];
    if (kind[i] == 3) { v = expf(v); }
    else if (kind[i] > 3) v = v * v;
    else { y[i] = 0; }
    z[i] = v;
  }
}"""
SOME = """  unsigned row = blockIdx.y, i = blockIdx.x * 64 + threadIdx.x;
  float scale = row * 2 + 1;
  if (i >= n || kind[i] != 2) return;
  for (int q = 0; q < 30; q++) scale = bent(x[i], q);
  y[row * n + i] = scale;
}"""


def kernel(body: str) -> Kernel:
    code = HEAD + body
    one = read(Text("a.cu", 3, code), "step", [*FILE, *code.split("\n")])
    assert one is not None
    return one


def changed(body: str, times: int = 2) -> tuple[str, int]:
    """The new body, and how many results came out alike."""
    whole = kernel(body)
    one = element(whole)
    found = ways(whole, one) if one is not None else None
    if one is None or found is None:
        return "", 0
    new = sorting(one, found.asked, found.way, found.count, 64, times, last_store(whole, one))
    return new, same(whole, one, found, new, 64, times) if new else 0


@pytest.mark.parametrize(
    ("case", "better", "launch", "line"),
    [
        ("divergence.slow", "divergence.fast", "branchy<<<2048, 256>>>(...);", "int kind = grouped ?"),
        ("interpret.as_they_come", "interpret.sorted", "interpret<<<1024, 256>>>(...);", "const auto key_n = op[i];"),
    ],
)
def test_captures(case: str, better: str, launch: str, line: str) -> None:
    *_, fix = changes(case, "LAT305")
    assert fix.code == launch and line in fix.edits[0].becomes and not any(e.becomes for e in fix.edits[1:])
    assert [c.state for c in fix.conditions] == ["proved", "proved", "check"] and fix.conditions[0].ran > 1000
    assert fix.proof[0].before < 6 and fix.proof[0].after > 26
    assert not changes(better, "LAT305")


@pytest.mark.parametrize(("body", "count"), [(SWITCH, 3), (CHAIN, 3), (SOME, 1)], ids="sci")
@pytest.mark.parametrize("times", [1, 4])
def test_variants_come_out_the_same(body: str, count: int, times: int) -> None:
    new, compared = changed(body, times)
    assert f"int way_count[{count}]" in new and compared > (30 if count == 1 else 300)


def test_what_an_element_needs_is_asked_for_first() -> None:
    new, _ = changed(SWITCH)
    asked = new[new.index("at_of[round_n] = at;") : new.index("way_of[round_n] = key_n")].split()
    assert " ".join(asked) == (
        "at_of[round_n] = at; if (at >= n) continue; int k = kind[at] & 3; const auto key_n = k;"
    )
    assert "const size_t at = at_slot[slot_n];" in new
    assert "way_of[round_n] = key_n == 0 || key_n == 2 ? 0 : key_n == 1 ? 1 : 2;" in new
    assert "way_of[round_n] = (kind[i] == 3) ? 0 : (kind[i] > 3) ? 1 : 2;" in changed(CHAIN)[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("slot_n += 64", "slot_n += 32"),  # two threads have one element
        ("start_n += way_count[way_n];", "start_n += 1;"),
        ("? ones_n : ~ones_n;\n      mine_n", "? ones_n : ones_n;\n      mine_n"),
        ("slot_n < total_n", "slot_n < total_n - 1"),
        ("* 2 + round_n", "+ round_n"),
        ("if (at >= n) continue;", ""),
    ],
)
def test_a_wrong_order_is_seen(old: str, new: str) -> None:
    whole, (text, _) = kernel(SWITCH), changed(SWITCH)
    one = element(whole)
    assert one is not None and old in text
    found = ways(whole, one)
    assert found is not None and same(whole, one, found, text.replace(old, new), 64, 2) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y[at] = v;", "y[at] = v + lane;"),  # more numbers than two say where
        ("y[at] = v;", "y[at] = v + threadIdx.x;"),
        ("y[at] = v;", "y[at] = v; __syncthreads();"),
        ("y[at] = v;", "y[at] = v + __shfl_xor_sync(~0u, v, 1);"),
        ("y[at] = v;", "y[at + 1] = v + y[at];"),  # another thread reads it
        ("y[at] = v;", "y[0] = v;"),
        ("y[at] = v;", "y[at] = atomicAdd(z, 1);"),  # who comes when shows
        ("bent(v, 40)", "noted(v)"),
        ("bent(v, 40); w = 2;", "bent(v, 40); return;"),
        ("float v = x[at]", "k += 1; float v = x[at]"),
        ("switch (k)", "switch (k++)"),
        ("blockIdx.x * 64", "gridDim.x * 64"),
    ],
)
def test_what_is_left(old: str, new: str) -> None:
    assert old in SWITCH
    if "lane;" in new:
        new = new.replace("lane;", "lane + q0;")
    text = SWITCH.replace(old, new).replace("lane = threadIdx.x", "lane = threadIdx.x, q0 = lane % 3")
    assert changed(text)[1] == 0


def test_a_last_store_is_made_side_by_side() -> None:
    def stored(body: str) -> object:
        whole = kernel(body)
        one = element(whole)
        return one and last_store(whole, one)

    assert "y_kept[old_slot[slot_n]] = v;" in changed(SWITCH)[0]
    assert "y[at] = y_kept[round_n * 64 + threadIdx.x];" in changed(SWITCH)[0]
    assert stored(SWITCH.replace("y[at] = v", "y[k] = v")) is None  # a place of the element's data
    assert stored(SWITCH.replace("y[at] = v", "if (v > 2) continue; y[at] = v").replace("continue", "return")) is None
    assert stored(SWITCH.replace("float v =", "y[at] = 0; float v =")) is None
    assert stored(CHAIN.replace("z[i] = v", "i++; z[i] = v")) is None


def test_a_test_of_places_alone_sends_nobody_away() -> None:
    assert changed(SOME.replace(" || kind[i] != 2", ""))[0] == ""


def test_lines_within_brackets() -> None:
    assert indented("{\n\nint a;\n  if (a) {\na++;\n}\n}") == "{\n  int a;\n  if (a) {\n    a++;\n  }\n}"
