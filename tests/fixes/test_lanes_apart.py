"""Threads of a block that take each other's places, so that a warp's lanes go one way."""

from __future__ import annotations

import pytest

from kscope.fixes.atomics.reading import Kernel, read
from kscope.fixes.given.text import Text
from kscope.fixes.order.lanes import Places, _apart, _settings, chosen, put_in, same, spans
from tests.support.with_sources import changes

HEAD = "__global__ void step(const float* __restrict__ a, float* b, int many, int how) {\n"
FILE = [
    "__device__ float bent(float v, int k) { for (int q = 0; q < k; q++) v = v * v + 1; return v; }",
    "__device__ float own(float v) { return threadIdx.x % 2 ? v : v * v; }",
]
BODY = """  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < many) {
    float v = a[at];
    if (at & 1) v = bent(v, 9); else { v = v * 3; v = v * v; }
    b[at] = v;
  }
}"""
SWITCH = """  unsigned t = threadIdx.x; float v = a[blockIdx.x * blockDim.x + t];
  switch (t / 4 % 4) { case 0: v += 1; break; case 1: v *= 3; break; case 3: v = v * v; default: v -= 2; }
  b[blockIdx.x * blockDim.x + t] = v;
}"""
ROUNDS = """  int at = blockIdx.x * blockDim.x + threadIdx.x, rounds = (threadIdx.x % 3) * 5 + 2; float v = a[at];
  for (int k = 0; k < rounds; k++) v = v * v + 1;
  b[at] = v; }"""
STRIDED = """  for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < many; at += gridDim.x * blockDim.x) {
    float v = a[at];
    if (at % 4 < 2) v = bent(v, 9); else v = v * 3;
    b[at] = v;
  } }"""
SHARED = """  __shared__ float s[256]; const int t = threadIdx.x;
  s[t] = a[blockIdx.x * 256 + t];
  __syncthreads();
  float v = s[255 - t];
  if (t & 1) { v = v * v; v = v + 1; v = v * s[t]; }
  b[blockIdx.x * 256 + t] = v; }"""
CALLED = "  int at = blockIdx.x * blockDim.x + threadIdx.x;\n  b[at] = bent(a[at], at % 4 * 3 + 1);\n}"


def kernel(body: str, head: str = HEAD) -> Kernel:
    code = head + body
    one = read(Text("a.cu", 3, code), "step", [*FILE, *code.split("\n")])
    assert one is not None
    return one


def changed(body: str, block: int = 256) -> tuple[Places | None, int]:
    """The exchange, and how many results came out alike."""
    whole = kernel(body)
    found = chosen(whole, block) if _apart(whole) else None
    return (found[0], same(whole, found[0], spans(whole, found[0]))) if found is not None else (None, 0)


def test_a_capture_whose_ways_follow_from_places_needs_no_exchange_of_elements() -> None:
    first, second = changes("divergence.slow", "LAT305")
    assert [e.becomes.split("\n")[-1] for e in first.edits] == [
        "  const unsigned place_n = threadIdx.x % 32 * 8 + threadIdx.x / 32;",
        "  int i = blockIdx.x * blockDim.x + place_n; if (i >= n) return;",
    ]
    assert (first.kind, second.kind) == ("lane_mapping", "jam") and first.price == second.price
    assert (first.proof[0].before, first.proof[0].after) == (8, 1)
    value, multiple, setting, even = first.conditions
    assert value.state == multiple.state == "proved" and value.ran > 1000
    assert setting.holds == "launches that take long have grouped = 0" and setting.state == "check"
    assert even.holds == "every launch has a multiple of 256 threads a block"


def test_ways_of_data_are_told_by_looking() -> None:
    assert [f.kind for f in changes("interpret.as_they_come", "LAT305")][-1] == "jam"
    assert all("places" not in f.title for f in changes("interpret.as_they_come", "LAT305"))
    assert not changes("divergence.fast", "LAT305")


@pytest.mark.parametrize(
    ("body", "block", "ways", "each"),
    [(BODY, 256, 2, 1), (BODY, 64, 2, 1), (SWITCH, 256, 4, 4), (SWITCH, 128, 4, 4), (ROUNDS, 96, 3, 1),
     (ROUNDS, 192, 3, 1), (CALLED, 128, 4, 1), (STRIDED, 128, 2, 2), (SHARED, 256, 2, 1),
     (BODY.replace("at & 1", "at & 16"), 256, 2, 16)],
)  # fmt: skip
def test_variants_go_one_way(body: str, block: int, ways: int, each: int) -> None:
    places, compared = changed(body, block)
    assert places == Places(ways, each, block) and compared > block


def test_the_place_that_a_thread_takes() -> None:
    assert Places(2, 1, 64).text == "threadIdx.x % 32 * 2 + threadIdx.x / 32"
    assert Places(2, 1, 256).text == "threadIdx.x / 64 * 64 + threadIdx.x % 32 * 2 + threadIdx.x / 32 % 2"
    assert Places(4, 4, 128).text == "threadIdx.x % 4 + threadIdx.x / 4 % 8 * 16 + threadIdx.x / 32 * 4"
    for places in (Places(2, 1, 256), Places(4, 4, 128), Places(3, 2, 96), Places(2, 16, 64)):
        text = places.text.replace("/", "//").replace("threadIdx.x", "t")
        assert [eval(text, {"t": t}) for t in range(places.block)] == places.taken().tolist()


@pytest.mark.parametrize(
    ("body", "block"),
    [
        (BODY.replace("at & 1", "a[at] > 9"), 256),  # a datum decides
        (BODY.replace("at & 1", "at & 32"), 256),  # warps go one way as it is
        (BODY.replace("at & 1", "at % 16 == 3"), 256),  # sixteen neighbours' ways, and eight warps
        (BODY.replace("at & 1", "at % 7 == 3"), 256),
        (BODY.replace("  float v", "  __syncthreads(); float v"), 256),  # that not all come to
        (SHARED.replace("__syncthreads();", ""), 256),  # lanes of a warp go on together: others would not
        (BODY.replace("v = v * 3;", "v = __shfl_xor_sync(~0u, v, 1);"), 256),
        (BODY.replace("int at", "int y = threadIdx.y, at"), 256),
        (BODY.replace("int at", "int place_n = 0, at"), 256),
        (BODY.replace("b[at] = v;", "b[at ^ 1] = v + b[at];"), 256),  # threads use each other's elements
        (BODY.replace("b[at] = v;", "b[at / 2] = v;"), 256),
        (BODY.replace("bent(v, 9)", "own(v)"), 256),  # a function that asks for the place itself
        (BODY, 80),
        (BODY, 32),
    ],
)
def test_what_is_left(body: str, block: int) -> None:
    assert changed(body, block)[1] == 0


def test_a_text_with_another_place_is_seen() -> None:
    whole = kernel(BODY)
    places = Places(2, 1, 256)
    new = spans(whole, places)
    assert same(whole, places, new)
    (at, end, first), *rest = new
    for wrong in (" % 32 * 2", " % 32 * 4"), (" / 32 % 2;", " / 64 % 2;"):
        assert wrong[0] in first and not same(whole, places, [(at, end, first.replace(*wrong)), *rest])
    assert put_in(whole, new).count("place_n") == 2


def test_a_number_that_decides_is_the_readers_to_look_at() -> None:
    found = chosen(kernel(BODY.replace("at & 1", "how ? at & 1 : at & 32")), 256)
    assert found is not None and found[0] == Places(2, 1, 256)
    assert [c.holds for c in _settings(found[1])] == ["launches that take long have how other than 0"]
    plain = chosen(kernel(BODY), 256)
    assert plain is not None and not _settings(plain[1])


def test_a_macro_that_asks_for_the_thread_keeps_its_place() -> None:
    code = HEAD + BODY.replace("    b[at]", "    if (how == 77777) v += T;\n    b[at]")
    for macro, apart in (("#define T 3", True), ("#define T threadIdx.x", False)):
        one = read(Text("a.cu", 4, code), "step", [*FILE, macro, *code.split("\n")])
        assert one is not None and _apart(one) is apart
