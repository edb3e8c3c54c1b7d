"""Rows whose threads met in shared memory, by lanes that keep the same in registers: what is written, what is left."""

from __future__ import annotations

import pytest

from kscope.engine.findings.mended import setting_of
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.left import BY_RULE
from kscope.fixes.rows import syntax
from kscope.fixes.rows.compared import Same, Side, same
from kscope.fixes.rows.function import Function, _read
from kscope.fixes.rows.inlined import callees, inlined
from kscope.fixes.rows.own import in_registers
from tests.support.with_sources import changes
from tools.fixes_built import lines_of
from tools.fixes_pairs import facts

FAR = """__global__ void far_of(const float* __restrict__ a, const float* __restrict__ c, int* __restrict__ out) {
  __shared__ float d[128]; __shared__ int at[128];
  const int me = threadIdx.x;
  float u = a[blockIdx.x * 2] - c[me * 2], w = a[blockIdx.x * 2 + 1] - c[me * 2 + 1];
  d[me] = u * u + w * w; at[me] = me;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half = half / 2) {
    if (me < half) if (d[me] < d[me + half]) { d[me] = d[me + half]; at[me] = at[me + half]; }
    __syncthreads();
  }
  if (me == 0) out[blockIdx.x] = at[0];
}"""
NORM = """__device__ float all_of(float v, float* part) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  float all = 0; for (int k = 0; k < 4; k++) all += part[k];
  __syncthreads();
  return all;
}
__global__ void norm(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float part[4];
  float v = threadIdx.x < n ? x[blockIdx.x * n + threadIdx.x] : 0.f;
  float mean = all_of(v, part) / n, off = v - mean, by = rsqrtf(all_of(off * off, part) / n + 1e-5f);
  if (threadIdx.x < n) y[blockIdx.x * n + threadIdx.x] = off * by;
}"""
SUM = """__global__ void rows_of(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float s[64]; int t = threadIdx.x; float sum = 0;
  for (int k = t; k < n; k += 64) sum += x[blockIdx.x * n + k];
  s[t] = sum; __syncthreads();
  for (int d = 32; d; d >>= 1) { if (t < d) s[t] = s[t] + s[t + d]; __syncthreads(); }
  for (int k = t; k < n; k += 64) y[blockIdx.x * n + k] = x[blockIdx.x * n + k] / s[0];
}"""

MEAN = """__global__ void rms(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float part[8]; __shared__ float mean;
  int t = threadIdx.x, lane = t % 32, warp = t / 32; float s = 0;
  for (int k = t; k < n; k += 256) { float v = x[blockIdx.x * n + k]; s += v * v; }
  for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  if (lane == 0) part[warp] = s;
  __syncthreads();
  if (warp == 0) {
    s = lane < 8 ? part[lane] : 0;
    for (int o = 4; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (lane == 0) mean = s / n;
  }
  __syncthreads();
  for (int k = t; k < n; k += 256) y[blockIdx.x * n + k] = x[blockIdx.x * n + k] * rsqrtf(mean);
}"""
SCALE = """__global__ void rmsb(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float part[32];
  int t = threadIdx.x, lane = t & 31, warp = t >> 5; float s = 0;
  for (int k = t; k < n; k += blockDim.x) { float v = x[blockIdx.x * n + k]; s += v * v; }
  for (int o = 16; o > 0; o >>= 1) s += __shfl_down_sync(0xffffffff, s, o);
  if (lane == 0) part[warp] = s;
  __syncthreads();
  if (warp == 0) {
    s = lane < 8 ? part[lane] : 0;
    for (int o = 4; o; o >>= 1) s += __shfl_down_sync(0xffffffff, s, o);
    if (lane == 0) part[0] = s;
  }
  __syncthreads();
  float scale = rsqrtf(part[0] / n + 1e-6f);
  for (int k = t; k < n; k += blockDim.x) y[blockIdx.x * n + k] = x[blockIdx.x * n + k] * scale;
}"""
SOFTMAX = """__global__ void smc(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float part[8];
  int t = threadIdx.x; float v = t < n ? x[blockIdx.x * n + t] : -1e30f, m = v;
  for (int o = 16; o > 0; o /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
  if (t % 32 == 0) part[t / 32] = m;
  __syncthreads();
  m = part[0]; for (int i = 1; i < 8; i++) m = fmaxf(m, part[i]);
  __syncthreads();
  float e = t < n ? __expf(v - m) : 0, s = e;
  for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(~0u, s, o);
  if (t % 32 == 0) part[t / 32] = s;
  __syncthreads();
  s = 0; for (int i = 0; i < 8; i++) s += part[i];
  if (t < n) y[blockIdx.x * n + t] = e / s;
}"""
DOT = """__global__ void dotw(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int n) {
  __shared__ float part[4];
  int t = threadIdx.x; float s = 0;
  for (int k = t; k < n; k += 128) s += x[blockIdx.x * n + k] * w[k];
  for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(~0u, s, o);
  if (t % 32 == 0) part[t / 32] = s;
  __syncthreads();
  if (t == 0) y[blockIdx.x] = part[0] + part[1] + part[2] + part[3];
}"""

LAST = """__global__ void last(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float part[8];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32; float s = 0;
  for (int k = threadIdx.x; k < n; k += 256) s += x[blockIdx.x * n + k];
  for (int o = 16; o > 0; o >>= 1) s += __shfl_down_sync(~0u, s, o);
  if (lane == 0) part[warp] = s;
  __syncthreads();
  if (warp == 0) {
    s = lane < 8 ? part[lane] : 0.f;
    for (int o = 4; o > 0; o >>= 1) s += __shfl_down_sync(~0u, s, o);
    if (lane == 0) y[blockIdx.x] = s / n;
  }
}"""
MIXED = """__global__ void mix(const float* __restrict__ x, float* __restrict__ y, int n) {
  __shared__ float sm[256];
  int t = threadIdx.x; float s = 0;
  for (int k = t; k < n; k += 256) s += x[blockIdx.x * n + k];
  sm[t] = s;
  __syncthreads();
  for (int d = 128; d >= 32; d >>= 1) { if (t < d) sm[t] += sm[t + d]; __syncthreads(); }
  if (t < 32) {
    float v = sm[t];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    if (t == 0) y[blockIdx.x] = v / n;
  }
}"""


def function(code: str) -> Function:
    lines = code.split("\n")
    number = next(n for n, line in enumerate(lines, 1) if "__global__" in line)
    name = lines[number - 1].partition("(")[0].split()[-1]
    made = _read("a.cu", lines, name, number, (), None)
    assert made is not None
    return made


def written(code: str, block: int, lanes: int, each: int, *, wide: bool = False) -> tuple[str, bool, Same] | None:
    """The new text, whether no operation has another place, how it was shown; None where nothing is."""
    fn, rows = function(code), 4
    body = syntax.tree(fn.body)
    assert body is not None
    called = callees(code.split("\n"), body)
    found = in_registers(fn, block, lanes, rows, each, {}, called, wide=wide)
    if found is None:
        return None
    text = found.text[fn.opened :]
    old = [Side(inlined(fn.body, called), (rows * n, 1), (block, 1), {}) for n in (1, 2)]
    new = [Side(inlined(text, called), (n, 1), (lanes, rows), {}) for n in (1, 2)]
    played = same(fn, old, new, {})
    return (text, found.exact, played) if played is not None else None


def test_a_capture_keeps_what_threads_had_in_registers() -> None:
    (fix,) = [f for f in changes("nearest256.block", "GRD405") if f.kind == "lane_mapping"]
    text = fix.edits[0].becomes
    assert "__shared__" not in text and "__sync" not in text
    assert "    who[part_n] = t;" in text and "const float far_far = __shfl_xor_sync(~0u, far[0], o);" in text
    assert [c.state for c in fix.conditions] == ["proved", "proved", "check"]


def test_fewer_meetings_are_counted_where_a_barrier_was_for_two_shuffles() -> None:
    what, count = BY_RULE["GRD405", "lane_mapping"]
    before, after = (count(setting_of(facts(case), lines_of)) for case in ("nearest256.block", "nearest256.warp"))
    assert before is not None and after is not None and before > 3 * after and "barriers" in what


def test_a_function_that_joins_is_taken_in() -> None:
    (fix,) = [f for f in changes("softmax128.block", "GRD405") if f.kind == "lane_mapping"]
    assert fix.code == "softmax_block<<<8192, dim3(32, 4)>>>(...);" and "over_block" not in fix.edits[0].becomes
    assert "top = fmaxf(top, __shfl_xor_sync(~0u, top, by_n));" in fix.edits[0].becomes
    assert "1 / s;" in fix.edits[0].becomes  # once for the four elements of a lane
    said = [c.holds for c in fix.conditions if c.state == "check"]
    assert "the order of the sums does not matter" in said and any("of a quotient" in one for one in said)
    assert fix.conditions[0].by == "values" and fix.price is not None


def test_the_farthest_of_another_size_and_shape() -> None:
    made = written(FAR, 128, 32, 4)
    assert made is not None and made[1]
    assert "const int me = threadIdx.x + 32 * part_n;" in made[0] and "for (int half = 2; half; half >>= 1)" in made[0]
    assert not made[2].ties  # of equal ones the same is taken


def test_a_mean_and_a_deviation_by_a_function() -> None:
    made = written(NORM, 128, 32, 4)
    assert made is not None and not made[1] and made[2].near
    assert "__shared__" not in made[0] and made[0].count("__shfl_xor_sync") == 2


def test_loops_along_a_row_go_by_the_lanes() -> None:
    for lanes in (8, 32):
        made = written(SUM, 64, lanes, 1)
        assert made is not None and f"k += {lanes}" in made[0] and "/ s;" in made[0]


@pytest.mark.parametrize(
    ("code", "block", "lanes", "each", "joins", "result"),
    [
        (MEAN, 256, 8, 1, 1, "const float mean_all = s_all / n;"), (MEAN, 256, 32, 8, 1, "rsqrtf(mean_all)"),
        (SCALE, 256, 32, 1, 1, "const float scale = rsqrtf(s_all / n + 1e-6f);"),
        (SOFTMAX, 256, 32, 8, 2, "y[row_n * n + t] = e[part_n] * s_all2_over;"),
        (DOT, 128, 8, 1, 1, "if (threadIdx.x == 0) y[row_n] = s_all;"),
        (MIXED, 256, 8, 1, 1, "if (threadIdx.x == 0) y[row_n] = s_all / n;"),
        (LAST, 256, 8, 1, 1, "if (threadIdx.x == 0) y[row_n] = s_all / n;"),
    ],
)  # fmt: skip
def test_what_warps_join_over_shared_memory_lanes_join(
    code: str, block: int, lanes: int, each: int, joins: int, result: str
) -> None:
    made = written(code, block, lanes, each)
    assert made is not None and "__shared__" not in made[0] and "__sync" not in made[0]
    assert made[0].count("__shfl_xor_sync") == joins and result in made[0]


@pytest.mark.parametrize(
    ("code", "was", "becomes", "block", "lanes", "each"),
    [
        (MEAN, "lane < 8 ? part[lane] : 0", "lane < 7 ? part[lane] : 0", 256, 8, 1),  # not of all warps
        (MEAN, "mean = s / n", "mean = s / (n + k_of(t))", 256, 8, 1),
        (MEAN, "mean = s / n", "{ mean = s / n; y[blockIdx.x] = 1; }", 256, 8, 1),  # more than a result
        (MEAN, "if (lane == 0) mean", "if (lane == 9) mean", 256, 8, 1),  # another one than the first thread's
        (SCALE, "  __syncthreads();\n  if (warp", "  if (warp", 256, 8, 1),  # a race
        (SCALE, "part[0] / n", "(part[0] + part[1]) / n", 256, 8, 1),
        (SOFTMAX, "fmaxf(m, part[i])", "fmaxf(m, -part[i])", 256, 32, 8),
        (MIXED, "d >= 32", "d > 32", 256, 8, 1),  # half of them
        (MIXED, "v / n;", "v / n + sm[1];", 256, 8, 1),
        (MIXED, "float v = sm[t]", "float v = sm[t] + s", 256, 8, 1),
        (LAST, "if (lane == 0) y", "if (lane == 0 && n) y", 256, 8, 1),  # n may be 0
        (LAST, "s / n;", "s / n + warp;", 256, 8, 1),
        (LAST, "= s / n;", "= s / n; x[0] = 1;", 256, 8, 1),
        (LAST, "y[blockIdx.x] = s", "y[blockIdx.x + lane] = s", 256, 8, 1),
        (DOT, "+ part[3]", "- part[3]", 128, 8, 1),
        (DOT, "y[blockIdx.x] =", "y[blockIdx.x] = s +", 128, 8, 1),  # a warp's alone besides
    ],
)
def test_what_warps_do_otherwise_is_left(
    code: str, was: str, becomes: str, block: int, lanes: int, each: int
) -> None:
    assert was in code and written(code, block, lanes, each) is not None
    try:
        assert written(code.replace(was, becomes), block, lanes, each) is None
    except Unplayable:  # the text as it was
        assert "k_of" in becomes


@pytest.mark.parametrize("test", ["t % (2 * d) == 0", "t % (d * 2) == 0", "(t & (2 * d - 1)) == 0"])
def test_trees_from_neighbours_on_are_folded_from_the_other_side(test: str) -> None:
    code = SUM.replace("int d = 32; d; d >>= 1", "int d = 1; d < 64; d *= 2").replace("t < d", test)
    made = written(code, 64, 8, 1)
    assert made is not None and "for (int d = 4; d; d >>= 1)" in made[0]
    made = written(code, 64, 32, 2)
    assert made is not None and not made[1]  # another order
    assert written(code.replace("d < 64", "d < 32"), 64, 8, 1) is None
    assert written(code.replace("2 * d", "4 * d").replace("d * 2", "d * 4"), 64, 8, 1) is None


def test_lanes_take_four_neighbours_where_a_row_is_a_multiple_of_them() -> None:
    made = written(SUM, 64, 8, 1, wide=True)
    assert made is not None and made[2].sizes == 3  # of which one is odd
    assert made[0].count("for (int k = 4 * t; k < n; k += 32) {") == 1 and made[0].count("if (n % 4 == 0)") == 1
    assert "sum += x_1.w;" in made[0]
    own = SUM.replace("int t = threadIdx.x;", "int t = threadIdx.x; const float* mine = x + (size_t)blockIdx.x * n;")
    made = written(own.replace("x[blockIdx.x * n + k]", "mine[k]"), 64, 8, 1, wide=True)
    assert made is not None and "float4 mine_1 = *(float4 *)(mine + k);" in made[0]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("sum += x[blockIdx.x * n + k]", "sum += x[blockIdx.x * n + 2 * k]"),
        ("sum += x[blockIdx.x * n + k]", "sum += x[blockIdx.x * 999 + k]"),  # at odd places
        ("sum += x[blockIdx.x * n + k]", "if (y[k] > 0) sum += x[blockIdx.x * n + k]"),  # not always there
        ("k < n; k += 64) sum", "k < n - 1; k += 64) sum"),
        ("sum += x[", "y[blockIdx.x * n + k] = sum += y["),  # what the loop writes
        ("float sum = 0;", "float sum = 0; if (n > 9) n = 9;"),
    ],
)
def test_neighbours_that_may_lie_across_are_loaded_one_by_one(was: str, becomes: str) -> None:
    assert was in SUM and written(SUM.replace(was, becomes), 64, 8, 1, wide=True) is None


@pytest.mark.parametrize(
    ("code", "was", "becomes", "block", "lanes", "each"),
    [
        (FAR, "d[me] = u", "d[me ^ 1] = u", 128, 32, 4),  # another thread's
        (FAR, "out[blockIdx.x] = at[0]", "out[blockIdx.x] = at[1]", 128, 32, 4),
        (FAR, "at[me] = me;\n  __syncthreads();", "at[me] = me;", 128, 32, 4),  # a race as it is
        (FAR, "at[me] = at[me + half]", "at[me] = at[me + half] + half", 128, 32, 4),  # the number of the round
        (FAR, "if (me == 0) out[blockIdx.x] = at[0]", "atomicAdd(out, at[0])", 128, 32, 4),
        (NORM, "k < 4", "k < 3", 128, 32, 4),  # not all of them
        (NORM, "return all;", "return all + v;", 128, 32, 4),
        (NORM, "by = rsqrtf(all_of", "by = threadIdx.x > 99 ? 0.f : rsqrtf(all_of", 128, 32, 4),  # not all come
        (NORM, "float mean = all_of(v, part)", "float mean = n > 40 ? 0 : all_of(v, part)", 128, 32, 4),
        (SUM, "s[t] = sum;", "s[t] = sum + 64;", 64, 8, 1),  # as wide as a block
        (SUM, "int t = threadIdx.x;", "int t = threadIdx.x; if (n > 64) return;", 64, 8, 1),
        (SUM, "/ s[0]", "/ s[t]", 64, 32, 1),
    ],
)
def test_other_texts_are_left(code: str, was: str, becomes: str, block: int, lanes: int, each: int) -> None:
    assert was in code
    assert written(code.replace(was, becomes), block, lanes, each) is None


def test_quotients_stay_where_every_bit_does() -> None:
    code = FAR.replace("u * u + w * w", "(u * u + w * w) / scale")
    code = code.replace("const int me", "float scale = 3; const int me")
    made = written(code, 128, 32, 4)
    assert made is not None and made[1] and "/ scale" in made[0]
    code = SOFTMAX.replace("e / s;", "n / 2 * (e / s);")  # of whole numbers
    made = written(code, 256, 32, 8)
    assert made is not None and "n / 2 * (e[part_n] * s_all2_over)" in made[0]


def test_names_of_the_text_stay_its_own() -> None:
    code = SCALE.replace("float s = 0;", "float s = 0, s_all = n, x_1 = 2;").replace("v * v", "v * v * s_all * x_1")
    made = written(code, 256, 8, 1, wide=True)
    assert made is not None and "float s_all2 = s;" in made[0] and "float4 x_1_ = " in made[0]


def test_a_number_that_threads_share_is_counted_once() -> None:
    counted = "int shared_n = 0; for (int k = 0; k < 2; k++) { d[me] = u; shared_n++; }\n  "
    code = FAR.replace("d[me] = u * u", counted + "d[me] = u * u")
    assert written(code.replace("= at[0]", "= at[0] + shared_n"), 128, 32, 4) is None


@pytest.mark.parametrize(
    "text",
    ["a - (b - c)", "(a + b) * c", "-(a + b)", "a ? b : (c ? d : e)", "(float)(a / b)", "x[a + 1].y", "!(a && b) || c",
     "a << (b + 1)", "(a & 3) == 0", "f(a, (b, c))", "a = b = c", "*(p + 1)", "i++", "++i"],
)  # fmt: skip
def test_what_is_read_is_written_the_same(text: str) -> None:
    body = syntax.tree(f"{{ {text}; }}")
    assert body is not None
    again = syntax.tree("{ " + "\n".join(syntax.lines(body, "")) + " }")
    assert again == body
