"""A ring of slots for tiles: which loops copy, wait, use and wait, and what they become."""

from __future__ import annotations

import pytest

from kscope.fixes.atomics.effects import touched
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import Text, loops
from kscope.fixes.pipeline import ring
from kscope.fixes.pipeline.places import place
from kscope.fixes.pipeline.rounds import Given, Round, given, live, numbers, read, tiles
from tests.support.with_sources import changes

CODE = """__global__ void f(const float* __restrict__ x, float* y, int n) {
  __shared__ float a[64], b[2][32]; int t = threadIdx.x; float s = 0;
  for (int k = 0; k < n; k += 64) {
    #pragma unroll
    for (int e = t; e < 64; e += 32) a[e] = x[k + e];
    if (t < 2) { int q = t * 2; b[q][t] = x[k * 2 + t]; }
    __syncthreads();
    for (int e = 0; e < 64; e++) s += a[e] * b[0][e & 31];
    __syncthreads();
  }
  y[t] = s;
}"""
REGISTERS = """template <int P> __global__ void g(const half* __restrict__ A, const half* __restrict__ B, int n) {
  extern __shared__ half pool[]; half* const left = pool; half *right = left + 64 * P; int t = threadIdx.x;
  auto more = [&]() { t += 32; }; auto inner = [&]() { more(); };
  auto step = [&](const half* l, const half* r) { acc += l[t] * r[t]; };
  if (P == 8) {
    for (int k = 0; k < n; k++) {
      float4 u[2]; const float4 v = __ldg((const float4*)(B + k * 64));
      for (int i = 0; i < 2; i++) { int e = t + i * 32; u[i] = ((const float4*)A)[e + k]; }
      for (int i = 0; i < 2; i++) *reinterpret_cast<float4*>(&left[(t + i * 32) * 8]) = u[i];
      *(float4*)(right + t * 8) = v;
      __syncthreads();
      step(left, right);
      __syncthreads();
    }
  } else { pool[t] = A[t]; }
}"""


MACRO = "#define NEXT(v) t += v\n"


def round_of(code: str, values: dict[str, int] | None = None, types: dict[str, str] | None = None) -> Round | None:
    way = live(code, values or {})
    held = tiles(way, values or {}, 4096, types)
    found = [read(way, one, held, MACRO + code, types or {}) for one in loops(way)]
    return next((one for one in found if one is not None), None)


def test_a_round_that_copies_waits_and_uses() -> None:
    one = round_of(CODE)
    assert one is not None and [t.name for t in one.tiles] == ["a", "b"] and one.stores == 2
    assert "copy_ahead(&a[e], &x[k + e]);" in one.copy and "copy_ahead(&b[q][t], &x[k * 2 + t]);" in one.copy
    turned = CODE.replace("    __syncthreads();\n  }", "  }").replace("k += 64) {", "k += 64) { __syncthreads();")
    one = round_of(turned)
    assert one is not None and "s += a[e]" in one.use
    assert all(ring.played(slots) for slots in ring.SLOTS)


def test_a_copy_through_registers_of_one_way_of_a_template() -> None:
    one = round_of(REGISTERS, {"P": 8})
    assert one is not None and [t.name for t in one.tiles] == ["pool", "left", "right"]
    for line in (
        "const float4 *u[2];", "const float4 *v = (const float4*)(B + k * 64);", "u[i] = &((const float4*)A)[e + k];",
        "copy_ahead(reinterpret_cast<float4*>(&left[(t + i * 32) * 8]), u[i]);",
        "copy_ahead((float4*)(right + t * 8), v);",
    ):  # fmt: skip
        assert line in one.copy
    assert round_of(REGISTERS) is None  # of another instance the else uses the array


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("a[e] = x[k + e]", "a[e] = 2 * x[k + e]"),  # no copy
        ("a[e] = x[k + e]", "a[e] = x[k + e]; s++"),
        ("a[e] = x[k + e]", "a[e] = x[y[e] + e]"),  # an index that is loaded
        ("a[e] = x[k + e]", "a[e + k] = x[k + e]"),
        ("a[e] = x[k + e]", "{ int d = k % 64; a[d] = x[k + e]; }"),  # the same by another name
        ("s += a[e] * b[0][e & 31];", "{ s += a[e]; NEXT(s); }"),
        ("s += a[e] * b[0][e & 31];", '{ s += a[e]; asm("add.s32 %0, %0, 1;" : "+r"(t)); }'),
        ("a[e] = x[k + e]", "a[e] = f(x)[k + e]"),
        ("float a[64]", "half a[64]"),  # converts
        ("float a[64]", "double a[64]"),
        ("const float*", "const short*"),
        ("if (t < 2)", "if (k < 2)"),  # kept from round to round
        ("s += a[e]", "a[e] = s, s += a[e]"),
        ("s += a[e] * b[0][e & 31];", "{ s += a[e]; x++; }"),
        ("s += a[e] * b[0][e & 31];", "{ s += a[e]; t = e; }"),
        ("s += a[e] * b[0][e & 31];", "{ s += a[e]; next(&t); }"),
        ("s += a[e] * b[0][e & 31];", "{ s += a[e]; onward(t); }"),  # nobody sees what it takes
        ("s += a[e] * b[0][e & 31];", "{ s += a[e]; if (s > 9) break; }"),
        ("s += a[e] * b[0][e & 31];", "{ s += a[e]; __syncthreads(); }"),
        ("y[t] = s", "y[t] = s + a[0]"),  # used behind the loop
        ("k += 64", "k *= 2"),
        ("k < n", "k < n && k < t"),
        ("  for (int k", "  #pragma unroll 1\n  for (int k"),
    ],
)
def test_other_rounds_are_left_alone(was: str, becomes: str) -> None:
    assert was in CODE
    assert round_of(CODE.replace(was, becomes, 1)) is None


def test_what_lies_beyond_an_edge_is_zero() -> None:
    code = CODE.replace("a[e] = x[k + e]", "a[e] = k + e < n && t > 0 ? x[k + e] : 0.f")
    one = round_of(code)
    assert one is not None and "copy_or_zero(&a[e], &x[k + e], k + e < n && t > 0);" in one.copy
    assert round_of(code.replace(": 0.f", ": 1.f")) is None
    assert round_of(code.replace("t > 0", "a[0] > 0")) is None
    assert round_of(code.replace("t > 0", "f(t)")) is None


ONWARD = """__global__ void f(const float* x, const float* z, float* y, int n) {
  __shared__ float a[8][8], b[64]; const int r = threadIdx.x / 8, c = threadIdx.x % 8; float s = 0; x += blockIdx.x * 8;
  for (uint k = 0; k < n; k += 8) {
    a[r][c] = x[r * n + c]; b[r * 8 + c] = z[r * n + c];
    x += 8;
    __syncthreads();
    z += 8 * n;
    for (int e = 0; e < 8; ++e) s += a[r][e] * b[e * 8 + c];
    __syncthreads();
  }
  y[blockIdx.x * 64 + r * 8 + c] = s;
}"""


def test_pointers_go_on_with_the_copy() -> None:
    both = ONWARD.replace("    x += 8;\n", "").replace("z += 8 * n;", "x += 8;\n    z += 8 * n;")
    assert (two := round_of(both)) is not None and two.copy.endswith("x += 8; z += 8 * n;")
    one = round_of(ONWARD)
    assert one is not None and one.copy.endswith("x += 8; z += 8 * n;")
    assert "+= 8" not in one.use and "s += a[r][e]" in one.use


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("s += a[r][e]", "s += z[e] * a[r][e]"),  # the use needs it where it was
        ("y[blockIdx.x * 64", "y[(x == z) + blockIdx.x * 64"),
        ("z += 8 * n;", "if (r) { z += 8 * n; }"),
        ("z += 8 * n;", "z += 8 * n; z += c;"),
        ("z += 8 * n;", "n -= 8; z += 8 * n;"),
        ("    x += 8;", "    x += 8; b[r] = x[c];"),
        ("b[r * 8 + c] = z[r * n + c];", "b[i % 64] = z[i]; i += 8;"),  # not the same places in every round
    ],
)
def test_pointers_that_are_used_besides_stay(was: str, becomes: str) -> None:
    assert was in ONWARD
    assert round_of(ONWARD.replace(was, becomes, 1)) is None


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("step(left, right);", "step(left, right); inner();"),
        ("acc += l[t]", "t++, acc += l[t]"),  # the copy's addresses change in what is called
        ("step(left, right)", "step(left, right); acc += v.x"),  # the register is used besides
        ("right = left", "right = left, *other = pool; half *away = other"),  # a pointer made of one of a copy's
        ("u[i] = ((const float4*)A)[e + k]", "u[i] = ((const float2*)A)[e + k]"),
        ("int t = threadIdx.x;", "int t = threadIdx.x; left[t] = 0;"),
        ("*(float4*)(right + t * 8) = v;", "*(float2*)(right + t * 8) = v;"),
    ],
)
def test_other_copies_through_registers_are_left_alone(was: str, becomes: str) -> None:
    assert was in REGISTERS
    one = round_of(REGISTERS.replace(was, becomes, 1), {"P": 8})
    assert one is None or {t.name for t in one.tiles} > {"pool", "left", "right"}


@pytest.mark.parametrize(
    ("text", "base", "address"),
    [
        ("p[i][j + 1]", "p", "&p[i][j + 1]"),
        ("*(const float4*)(p + i * 4)", "p", "(const float4*)(p + i * 4)"),
        ("((const uint4*)p)[e]", "p", "&((const uint4*)p)[e]"),
        ("reinterpret_cast<int4*>(&p[i])[0]", "p", "&reinterpret_cast<int4*>(&p[i])[0]"),
        ("__ldg(&p[i])", "p", "&p[i]"),
        ("*(p + i)", "p", "(p + i)"),
    ],
)
def test_places_in_memory(text: str, base: str, address: str) -> None:
    one = place(text)
    assert one is not None and (one.base, one.address) == (base, address)


@pytest.mark.parametrize(
    "text", ["p[i] + 1", "p", "f(p)[i]", "p[q[i]]", "*p + 1", "p[i]++", "(c ? p : q)[i]", "*(float*)p + i", "p[f(i)]"]
)
def test_what_is_no_place_or_takes_more_than_arithmetic(text: str) -> None:
    assert place(text) is None


def test_what_a_function_may_change() -> None:
    around = "__device__ void move(int& i, const int& j, float* p) { }"
    assert touched("move(a, b, c); d += 2; int e = 3; g(h); __ldg(o);", "", around) == {"a", "d", "h"}


def test_what_a_template_has_for_its_head() -> None:
    setting = Setting(code=None, lines=lambda _: TYPED, name="f", instance="void f<(int)64, float, (bool)1>(float *)")  # type: ignore[arg-type]
    text = Text("a.cu", 3, TYPED[2])
    one = given(setting, text)
    assert one == Given({"N": 64, "ON": 1}, {"T": "float"})
    known = numbers(setting, text, one)
    assert known["TILE"] == 32
    (tile,) = tiles("__shared__ T a[ON ? TILE : 8][N + 1];", known, 0, one.types)
    assert tile.bytes == 32 * 65 * 4


TYPED = ["#define TILE 32", "", "template <const int N, typename T, bool ON> __global__ void f(T* x) { TILE }"]


def test_slots_beyond_what_can_be_declared_are_asked_for_by_the_launch() -> None:
    (fix,) = changes("batch4.wait", "LAT307")
    assert fix.parameters == {"slots": 4, "shared_dynamic": 4 * 18432}
    text = "\n".join(e.becomes for e in fix.edits)
    assert "extern __shared__ __align__(128) char slots_of_tiles[];" in text and "float4 tile[" not in text
    assert "copy_ahead(&vec[t / 32][t % 32], &v[t / 32 * (C / 4) + k + t % 32]);" in text
    assert "if (k + 3 * 32 < C / 4) fetch(k + 3 * 32, (slot + 3) % 4);" in text and "copies_arrived<2>()" in text
    assert [c.state for c in fix.conditions].count("check") == 2
    assert fix.proof[0].before == 5 and fix.proof[0].after == 0


def test_a_product_of_fragments_whose_tiles_come_through_registers() -> None:
    (fix,) = [f for f in changes("hgemm.wmma_onestage", "LAT307") if f.kind == "stages"]
    # Of three slots an SM holds two blocks once the tiles need no registers, of four it would hold one.
    assert fix.parameters == {"slots": 3, "shared_dynamic": 3 * 35840}
    edit, last = fix.edits  # the loop stays for the template's other instances
    assert edit.becomes.startswith("    if constexpr (PAD == 8 && STAGES == 1) { auto* const sm_first = sm;")
    assert edit.becomes.endswith("\n  else { " + edit.was.strip()) and last.becomes == last.was + " }"
    assert "auto* const sm = in_slot(sm_first, slot * 35840);" in edit.becomes
    assert "compute(sm, sm + SA);" in edit.becomes and "const uint4 *va[4], *vb[4];" in edit.becomes
