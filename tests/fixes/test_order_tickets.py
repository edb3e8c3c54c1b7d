"""Places in lists that a block asks for at once, for several elements a thread."""

from __future__ import annotations

import pytest

from kscope.fixes.atomics.reading import Kernel, read
from kscope.fixes.given.text import Text
from kscope.fixes.order.tickets import same, ticket, written
from tests.support.with_sources import changes

HEAD = "__global__ void put(const unsigned* __restrict__ x, const unsigned char* key, int* next, int* to, int n) {\n"
FILE = ["constexpr int BINS = 4, ROOM = 4096;"]
RETURNS = """  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= n) return;
  unsigned v = x[at], bin = v / 3 % BINS;
  int place = atomicAdd(&next[bin], 1);
  if (place >= ROOM) return;
  to[bin * ROOM + place] = v + at;
}"""
INSIDE = """  int i = blockIdx.y * 64 + threadIdx.x;
  if (i < n) {
    unsigned v = x[i];
    if (v & 2) v += 3;
    to[(v & 7) * 512 + atomicAdd(next + (v & 7), 1)] = i;
  }
}"""
BYTES = """  int i = blockIdx.x * 64 + threadIdx.x, k = key[i];
  to[k * 128 + atomicAdd(&next[k * 8], 1)] = i;
}"""


def kernel(body: str) -> Kernel:
    code = HEAD + body
    one = read(Text("a.cu", 2, code), "put", [*FILE, *code.split("\n")])
    assert one is not None
    return one


def test_the_capture_of_tokens_listed_by_expert() -> None:
    (fix,) = changes("moe_list.each", "MEM109")
    first, *rest = fix.edits
    assert all(not e.becomes for e in rest) and first.line == 93
    assert "unsigned slot = (count_base[e] + count_own[round_n]) & (MCAP - 1);" in first.becomes
    assert "for (int list_n = threadIdx.x; list_n < 16; list_n += blockDim.x)" in first.becomes
    assert fix.code == "moe_each<<<2048, 256>>>(...);"
    assert fix.conditions[0].state == "proved" and fix.conditions[0].by == "values"
    assert fix.proof[0].before == 4194304 and fix.proof[0].after == 32768
    assert not changes("moe_list.block", "MEM109")


@pytest.mark.parametrize(
    ("body", "count", "some"), [(RETURNS, 4, True), (INSIDE, 8, True), (BYTES, 256, False)], ids="rib"
)
def test_variants_come_out_the_same(body: str, count: int, some: bool) -> None:
    whole = kernel(body)
    one = ticket(whole)
    assert one is not None and (one.count, one.some) == (count, some)
    for times in (8, 2):
        new = written(one, times)
        assert f"blockIdx.{one.axis} * {times} + round_n" in new
        assert same(whole, one, new, (64, 1), times) > 100
    assert same(whole, one, new.replace("(next_base[", "(next_mine["), (64, 1), 2) == 0
    assert same(whole, one, new.replace("* 2 + round_n", "* 2"), (64, 1), 2) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("unsigned v = x[at], bin = v / 3 % BINS;", "int v = x[at], bin = v / 3 % BINS;"),  # it may be negative
        ("% BINS;", "% n;"),  # no number is known
        ("bin = v / 3 % BINS;", "bin = v / 3 % BINS; bin += 1;"),
        ("int place =", "__syncthreads(); int place ="),
        ("int place =", "to[0] = __shfl_sync(~0u, v, 0); int place ="),
        ("int place =", "for (int q = 0; q < 2; q++) to[q] ="),
        ("int place = atomicAdd(&next[bin], 1);", "int place = 0; atomicAdd(&next[bin], 1);"),
        ("atomicAdd(&next[bin], 1)", "atomicAdd(&next[bin], 2)"),
        ("to[bin * ROOM + place] =", "atomicAdd(to, 1); to[bin * ROOM + place] ="),
        ("to[bin * ROOM + place] =", "to[next[bin] * ROOM + place] ="),
        ("unsigned v =", "x += blockIdx.x; unsigned v ="),
        ("threadIdx.x;", "threadIdx.x + gridDim.x;"),
    ],
)
def test_what_is_left(old: str, new: str) -> None:
    assert old in RETURNS
    assert ticket(kernel(RETURNS.replace(old, new))) is None


def test_an_array_is_not_kept_for_later() -> None:
    one = ticket(kernel(RETURNS.replace("unsigned v", "int w[2] = {1, 2}; unsigned v").replace("v + at", "w[v & 1]")))
    assert one is not None and not written(one, 8)


def test_a_place_that_others_read_is_a_race() -> None:
    whole = kernel(RETURNS.replace("= v + at", "= to[(bin + 1) % BINS * ROOM + place]"))
    one = ticket(whole)
    assert one is not None and same(whole, one, written(one, 2), (64, 1), 2) == 0


def test_a_macro_that_asks_for_the_block_is_not_gone_through() -> None:
    code, often = HEAD + RETURNS.replace("  to[", "  if (n == 77777) v += HERE;\n  to["), []
    for macro in ("#define HERE 3", "#define HERE blockIdx.x"):
        whole = read(Text("a.cu", 3, code), "put", [*FILE, macro, *code.split("\n")])
        assert whole is not None
        one = ticket(whole)
        assert one is not None
        often.append(same(whole, one, written(one, 2), (64, 1), 2))
    assert often[0] > 100 and not often[1]
