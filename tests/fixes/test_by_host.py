"""An array that says which element a thread takes, sorted once by the ways that elements go."""

from __future__ import annotations

import pytest
from msgspec import structs

from kscope.fixes.atomics.reading import Kernel, read
from kscope.fixes.given.text import Text
from kscope.fixes.order.by_host import order_of, same, sorting, taken
from kscope.fixes.order.by_way import ways
from kscope.fixes.order.sorted_once import Sorting, given
from tests.support.with_sources import changes

HEAD = (
    "__global__ void step(const unsigned* __restrict__ who, const int* __restrict__ kind, const float* __restrict__ x, "
    "float* y, int n) {\n"
)
FILE = ["__device__ float bent(float v, int k) { for (int q = 0; q < k; q++) v = v * v + 1; return v; }"]
SWITCH = """  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n) return;
  const unsigned at = who[t];
  const int k = kind[at] & 3; float v = x[at], w = 1;
  switch (k) {
    case 0: case 2: for (int q = 0; q < 9; q++) v = v * 3 + 1; break;
    case 1: v = bent(v, 40); w = 2;
    default: v += w;
  }
  y[at] = v;
}"""
SOME = """  int at = who[blockIdx.x * 64 + threadIdx.x];
  if (kind[at] != 2) return;
  float v = x[at];
  for (int q = 0; q < 30; q++) v = bent(v, q);
  y[at] = v;
}"""


def kernel(body: str, head: str = HEAD) -> Kernel:
    code = head + body
    one = read(Text("a.cu", 2, code), "step", [*FILE, *code.split("\n")])
    assert one is not None
    return one


def changed(body: str, head: str = HEAD) -> tuple[Sorting | None, int]:
    """How elements are sorted, and how many results came out alike."""
    whole = kernel(body, head)
    one = taken(whole)
    found = ways(whole, one) if one is not None else None
    if one is None or found is None:
        return None, 0
    made = sorting(whole, "step", one, found)
    return made, same(whole, made, found, order_of(one)[0], 64) if made is not None else 0


def test_a_captures_order_is_sorted_by_the_host() -> None:
    first, second = changes("interpret.as_they_come", "LAT305")
    assert (first.kind, second.kind) == ("lane_mapping", "jam") and not first.edits
    assert first.title == "order[] sorted by 8 ways, once: lanes of a warp go together"
    assert "__global__ void interpret_keys(const int* __restrict__ order, const unsigned char* __restrict__ op, " in (
        first.code
    )
    assert "  const int i = order[at_n];\n  const auto key_n = op[i];\n  by_n[at_n] = key_n == 0 ? 0 : " in first.code
    assert "interpret_keys<<<(many_n + 255) / 256, 256>>>(order, op, x, y, sorted_n, by_n, many_n);" in first.code
    assert "thrust::stable_sort_by_key(keys_n.begin(), keys_n.end(), thrust::device_ptr<int>(sorted_n));" in first.code
    assert "// launch: interpret<<<...>>> with sorted_n in place of order" in first.code
    assert first.conditions[0].state == "proved" and first.conditions[0].ran > 1000
    (many,) = (c for c in first.conditions if c.holds.startswith("order[] is the same for many launches"))
    assert many.state == "check" and "new order and op" in many.why
    assert first.proof[0].before < 6 and first.proof[0].after > 31.9
    assert not changes("interpret.sorted", "LAT305")


@pytest.mark.parametrize(("body", "count"), [(SWITCH, 3), (SOME, 1)], ids="sw")
def test_variants_come_out_the_same(body: str, count: int) -> None:
    made, compared = changed(body)
    assert made is not None and made.left == str(count) and compared > 50
    assert (made.number, made.value, made.arguments) == ("unsigned", "who[at_n]", "who, kind, x, y, n")


def test_what_goes_no_way_comes_last() -> None:
    made, _ = changed(SOME)
    assert made is not None
    assert made.body.split("\n")[3:] == [
        "  sorted_n[at_n] = who[at_n];", "  by_n[at_n] = 1;", "  const int at = who[at_n];",
        "  if (kind[at] != 2) return;", "  by_n[at_n] = 0;", "}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y[at] = v;", "y[t] = v;"),  # a result lies where the place says
        ("y[at] = v;", "y[at + 1] = v + y[at];"),  # another thread reads it
        ("y[at] = v;", "y[at] = v + who[0];"),  # the order is a number, too
        ("y[at] = v;", "y[at] = v; __syncthreads();"),
        ("y[at] = v;", "y[0] = v;"),
        ("who[t]", "who[t] / 2"),
        ("who[t]", "t"),
        ("t >= n", "kind[t] >= n"),
        ("bent(v, 40); w = 2;", "bent(v, 40); return;"),
        ("switch (k)", "switch (k++)"),
        ("int k =", "int keys_n = 0, k ="),
    ],
)
def test_what_is_left(old: str, new: str) -> None:
    assert old in SWITCH and changed(SWITCH.replace(old, new))[1] == 0


def test_an_order_that_the_kernel_may_write_stays() -> None:
    assert changed(SWITCH, HEAD.replace("const unsigned* __restrict__ who", "unsigned* who"))[0] is None
    assert given(kernel(SWITCH, "template <int N> " + HEAD), "step") is None


def test_a_wrong_order_is_seen() -> None:
    whole = kernel(SWITCH)
    one = taken(whole)
    assert one is not None
    found, order, made = ways(whole, one), order_of(one), changed(SWITCH)[0]
    assert found is not None and made is not None
    for wrong in ({"value": "0"}, {"value": "who[at_n] + 1"}, {"way": "0", "steps": ()}):
        assert not same(whole, structs.replace(made, **wrong), found, order[0], 64)
