"""Chains that a thread carries side by side, by lanes of their own: which loops have some, and that results are the
same to the last bit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kscope.fixes.given import played
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.rows.function import of_text
from kscope.fixes.rows.regrouped import applied
from kscope.fixes.tiling import split
from kscope.fixes.tiling.by_lanes import Plan, rewritten
from kscope.fixes.tiling.chains import chains
from kscope.model.lazily import np
from tests.support.with_sources import changes

SUMS = """__global__ void k(const float* in, double* res, int n, int rounds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float p = in[i], q = p + 1.f;
  double u = p, v = q;
#pragma unroll 4
  for (int r = 0; r < rounds; ++r) {
    const float w = r * 2.0f;
    const double t = u * 0.5;
    u = t + 1.25 + w;
    const double s = v * 0.75;
    v = s + 1.25 + w;
  }
  res[i] = u - v;
}"""
DRAWS = """__global__ void k(unsigned* out, unsigned seed, int rounds) {
  const unsigned id = threadIdx.x + blockIdx.x * blockDim.x;
  unsigned x = id * 7u + seed, y = x ^ 3u, z = x + 5u, w = y + 1u;
  for (int j = 0; j < 2; j++) {
    for (int r = 0; r < rounds; r++) {
      x ^= x << 13; x += 7u;
      y ^= y << 13; y += 9u;
      z ^= z << 13; z += 11u;
      w ^= w << 13; w += 13u;
    }
  }
  out[2 * id] = x + y; out[2 * id + 1] = z ^ w;
}"""
PAIRS = """__global__ void k(float* out, int rounds) {
  float a = threadIdx.x, a2 = 0.5f, b = a + 1.f, b2 = 2.f;
  for (int r = 0; r < rounds; r++) {
    a = fmaf(a2, 0.25f, a); b = fmaf(b2, 0.25f, b); a2 = a * 0.5f; b2 = b * 0.5f;
  }
  if (a2 > 0) { out[blockIdx.x * 128 + threadIdx.x] = a * b - (a2 + b2); }
}"""


def same(code: str, plan: Plan) -> int:
    """How many results are the same, of a launch of 128 threads a block."""
    lines = code.split("\n")
    fn = of_text(lines, "k")
    setting: Any = SimpleNamespace(launch=SimpleNamespace(threads=128), lines=lambda file: lines)
    if fn is None:
        return 0
    source, one = split._source(fn, code.split("\n"), {})
    return split._same(setting, fn, source, one, plan) if one is not None else 0


def new(code: str, plan: Plan) -> str:
    spans, fn = rewritten_of(code, plan), of_text(code.split("\n"), "k")
    return applied(fn.code, spans) if fn is not None and spans else ""


def test_blocks_that_come_too_late() -> None:
    first = changes("tail_effect.slow", "GRD402")[0]
    assert first.kind == "lane_mapping" and first.parameters == {"lanes": 4, "grid.x": 1088, "block.x": 128}
    put = first.edits[0].becomes
    assert "if (blockIdx.x >= 1056) {" in put and "a = lane_n == 0 ? a : lane_n == 1 ? d : lane_n == 2 ? e : f;" in put
    assert "for (int i = 0; i < iters; i++) { a = a * b + c; }" in put
    assert put.index("f = __shfl_sync(group_n, a, 3, 4);") < put.index("a = __shfl_sync(group_n, a, 0, 4);")
    assert [c.state for c in first.conditions] == ["proved"] * 2 + ["assumed"] * 3 + ["check"] * 2
    assert first.price is not None and first.proof[0].before / first.proof[0].after >= first.price.speedup > 1.78


def test_what_brings_more_comes_first() -> None:
    prices = [fix.price.speedup for fix in changes("tail_effect.slow", "GRD402") if fix.price is not None]
    assert len(prices) == 2 and prices == sorted(prices, reverse=True)


ARRAYS = """__global__ void k(const float* x, float* y, int n, int times) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v[4], w[4] = {0.5f, 0.25f};
    const float scale = x[i];
#pragma unroll
    for (int e = 0; e < 4; e++) v[e] = scale + e * 0.5f;
    for (int t = 0; t < times; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float up = v[e] * scale;
        v[e] = up + w[e];
        w[e] = up * 0.125f;
      }
    float all = 0;
    for (int e = 0; e < 4; e++) all += v[e] - w[3 - e];
    y[i] = all;
  }
}"""


@pytest.mark.parametrize(
    ("code", "lanes"), [(SUMS, 2), (DRAWS, 2), (DRAWS, 4), (PAIRS, 2), (ARRAYS, 4), (ARRAYS, 2)],
    ids=["sums", "two", "four", "pairs", "arrays", "arrays in two"],
)  # fmt: skip
@pytest.mark.parametrize(("pieces", "whole"), [(1, 0), (2, 0), (2, 3), (4, 5)])
def test_results_are_the_same(code: str, lanes: int, pieces: int, whole: int) -> None:
    assert same(code, Plan(pieces, lanes, whole)) > 100


def test_numbers_in_which_chains_differ_and_what_they_share() -> None:
    code = new(SUMS, Plan(1, 2))
    assert "const auto of_n0 = lane_n == 0 ? 0.5 : 0.75;\n#pragma" in code.replace("  #", "#")
    assert "const double t = u * of_n0;" in code and "const float w = r * 2.0f;" in code and "s + 1.25" not in code
    two = new(DRAWS, Plan(1, 2))
    assert "x += of_n0;" in two and "of_n0 = lane_n == 0 ? 7u : 11u;" in two and "z += " not in two
    assert "y = lane_n == 0 ? y : w;" in two


def test_a_wrong_text_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = rewritten

    def turned(*given: Any) -> Any:
        return [(a, b, text.replace("group_n, u, 1", "group_n, u, 0")) for a, b, text in real(*given)]

    assert same(SUMS, Plan(1, 2))
    monkeypatch.setattr(split, "rewritten", turned)
    assert not same(SUMS, Plan(1, 2))


@pytest.mark.parametrize(
    ("was", "put"),
    [
        ("v = s + 1.25", "v = s + u"),  # one chain needs the other
        ("v = s + 1.25", "v = s - 1.25"),  # another operation
        ("v = s + 1.25", "v = s + 1.25f"),  # another type
        ("const double s", "const float s"),
        ("double u = p, v = q;", "double u = p; float v = q;"),
        ("v = s + 1.25 + w;", "v = s + 1.25 + w; if (v > 3) v = 0;"),
        ("v = s + 1.25 + w;", "v = s + 1.25 + w; if (r == n) break;"),
        ("v = s + 1.25 + w;", "v = s + 1.25 + w; res[i] = v;"),
        ("v = s + 1.25 + w;", "v = s + 1.25 + in[r];"),
        ("v = s + 1.25 + w;", "v = s + 1.25 + lookup(w);"),
        ("t = u * 0.5;", "t = u * 07;"),  # numbers of another kind
        ("r < rounds", "r < rounds && u < 9"),  # how long it is, is a chain's
        ("if (i >= n) return;", "res[i] = 0;"),  # each lane would
        ("if (i >= n) return;", "atomicAdd(res, 1);"),
        ("if (i >= n) return;", "if (i >= n) { res[0] = 1; }"),
        ("if (i >= n) return;", "for (int e = 0; e < n; e++) p += e;"),
        ("#pragma unroll 4\n", "if (n > 4)\n"),  # not a statement of its own
        ("int rounds", "double v, int rounds"),  # a name that is declared twice
    ],
)
def test_what_is_no_chain_of_its_own(was: str, put: str) -> None:
    assert was in SUMS and chains(SUMS, SUMS.index("{")) is not None
    code = SUMS.replace(was, put)
    assert chains(code, code.index("{")) is None


STEP = "__device__ __forceinline__ double step(double x, double by) { double y = x * by; return y + 1.25; }"


def test_chains_that_call_a_function() -> None:
    called = SUMS.replace("t + 1.25 + w", "step(t, 0.5)").replace("s + 1.25 + w", "step(s, 0.5)")
    assert not same(called, Plan(2, 2, 3)) and same(f"{STEP}\n{called}", Plan(2, 2, 3))
    for put in ("return *(&y) + 1;", "return y + threadIdx.x;", "static double z; return y;"):
        assert not same(f"{STEP.replace('return y + 1.25;', put)}\n{called}", Plan(2, 2, 3))


def test_results_in_place_of_what_other_lanes_read() -> None:
    there = SUMS.replace("const float* in, double* res", "float* res").replace("in[i]", "res[i]")
    assert new(there, Plan(1, 2)) and not same(there, Plan(1, 2))


def test_a_macro_may_hide_another_chain() -> None:
    hidden = SUMS.replace("t + 1.25 + w", "t + NEXT").replace("s + 1.25 + w", "s + NEXT")
    assert not same(f"#define NEXT (v + 1)\n{hidden}", Plan(1, 2))


def test_nothing_comes_behind_the_block_that_the_loop_is_in() -> None:
    inside = SUMS.replace("if (i >= n) return;", "if (i < n) {")
    assert same(f"{inside}\n}}", Plan(2, 2, 3))
    assert not new(f"{inside}\n  res[0] = 1; }}", Plan(1, 2))
    assert not new(f"{inside}\n  else res[0] = 1; }}", Plan(1, 2))


def test_names_that_are_taken_and_grids_that_are_asked_for() -> None:
    assert not rewritten_of(SUMS.replace("int n,", "int lane_n,"), Plan(1, 2))
    grid = SUMS.replace("u - v", "u - v + gridDim.x")
    assert "(gridDim.x / 4)" in new(grid, Plan(2, 2)) and not rewritten_of(grid, Plan(2, 2, 3))


def rewritten_of(code: str, plan: Plan) -> list[Any]:
    fn = of_text(code.split("\n"), "k")
    assert fn is not None
    source, one = split._source(fn, code.split("\n"), {})
    return rewritten(fn, source, one, plan) if one is not None else []


def test_arrays_are_written_out() -> None:
    code = new(ARRAYS, Plan(1, 4))
    assert "v_0 = lane_n == 0 ? v_0 : lane_n == 1 ? v_1 : lane_n == 2 ? v_2 : v_3;" in code and "[e]" not in code
    assert "float v_0, v_1, v_2, v_3;" in code or "float v_0, v_1, v_2, v_3, w_0 = 0.5f" in code
    assert "w_2 = __shfl_sync(group_n, w_0, 2, 4);" in code and "all += v_3 - w_0;" in code
    late = new(ARRAYS, Plan(2, 4, 3))
    assert "v[e] = up + w[e];" in late and "v_0 = up_0 + w_0;" in late


@pytest.mark.parametrize(
    ("was", "put"),
    [
        ("y[i] = all", "y[i] = all + v[n]"),  # an index that no number says
        ("y[i] = all", "y[i] = all + other(v)"),
        ("v[e] = up + w[e]", "v[e] = up + w[(e + 1) % 4]"),  # chains that need each other
        ("v[e] = up + w[e]", "v[e] = up + w[e]; if (up > 9) break"),
        ("v[e] = up + w[e]", "v[e] = up + w[e]; e += 0"),
        ("float v[4]", "float v_2 = 3, v[4]"),
        ("float v[4]", "float v[99]"),
        ("e < 4; ++e", "e < n; ++e"),
    ],
)
def test_arrays_that_are_no_variables(was: str, put: str) -> None:
    assert was in ARRAYS and rewritten_of(ARRAYS, Plan(1, 4))
    assert not rewritten_of(ARRAYS.replace(was, put), Plan(1, 4))


def test_shuffles_of_groups() -> None:
    body = "{{ {} const unsigned g = {} << (threadIdx.x % 32 / 4 * 4); x[threadIdx.x] = __shfl_sync(g, y, 1, 4); }}"
    body = body.replace("y,", "threadIdx.x * 3,")
    memory = {"x": np.zeros(64, dtype=np.int64)}
    played.play(body.format("if (threadIdx.x >= 40) return;", "15u"), (1, 1), (64, 1), memory, {})
    assert memory["x"][:40].tolist() == [3 * (t // 4 * 4 + 1) for t in range(40)] and not memory["x"][40:].any()
    for early, bits in (("if (threadIdx.x >= 39) return;", "15u"), ("", "7u")):
        with pytest.raises(Unplayable):
            played.play(body.format(early, bits), (1, 1), (64, 1), memory, {})


@pytest.mark.parametrize(
    ("blocks", "threads", "count", "found"),
    [
        (133, 1024, 4, Plan(8, 4, 1056)),
        (133, 1024, 10, Plan(8, 2, 1056)),
        (133, 1024, 3, None),  # no lanes share three alike
        (33, 128, 16, Plan(1, 4, 0)),  # a quarter of the SMs has work: now all
        (33, 128, 4, None),  # four chains of a warp do not wait
        (33, 1024, 4, None),  # smaller blocks alone reach all SMs
        (132, 1024, 4, None),
        (1320, 128, 4, None),
    ],
)
def test_what_is_worth_it(blocks: int, threads: int, count: int, found: Plan | None) -> None:
    def occupancy(*, threads: int = threads, more_shared: int = 0) -> Any:
        return SimpleNamespace(blocks=2048 // threads)

    launch = SimpleNamespace(blocks=blocks, threads=threads)
    setting: Any = SimpleNamespace(launch=launch, occupancy=occupancy, sms=132, shared=0)
    names = "abcdefghmopqrstu"[:count]
    first, loop = ", ".join(f"{x} = 1" for x in names), " ".join(f"{x} = {x} * 2 + 1;" for x in names)
    code = f"__global__ void k(int n) {{ float {first}; for (int i = 0; i < n; i++) {{ {loop} }} }}"
    one = chains(code, code.index("{"))
    assert one is not None and len(one.states) == count
    worth = split._worth(setting, one)
    assert (worth.plan if worth is not None else None) == found
