"""Rows of narrow elements by fewer lanes with more each, and conversions two at a time."""

from __future__ import annotations

import pytest

from kscope.fixes.given.text import loops
from kscope.fixes.memory.blocked import paired, strided
from kscope.fixes.rows.function import Function, _read
from kscope.fixes.thread.fewer_lanes import Fewer, made, rows_of
from tests.support.with_sources import changes

SCALE = """__global__ void scaled(const __half* __restrict__ in, __half* __restrict__ out, float* __restrict__ most) {
  int row = (blockIdx.x * 128 + threadIdx.x) >> 5, l = threadIdx.x & 31; float kept[2], top = 0;
  #pragma unroll
  for (int k = 0; k < 2; k++) { kept[k] = __half2float(in[row * 64 + k * 32 + l]); top = fmaxf(top, kept[k]); }
  for (int d = 16; d > 0; d >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, d));
  #pragma unroll
  for (int k = 0; k < 2; k++) out[row * 64 + k * 32 + l] = __float2half(kept[k] * top);
  if (l == 0) most[row] = top;
}""".replace("threadIdx.x & 31", "threadIdx.x % 32")
WARPS = SCALE.replace("(blockIdx.x * 128 + threadIdx.x) >> 5", "blockIdx.x * 4 + threadIdx.x / 32")


def function(code: str) -> Function:
    fn = _read("a.cu", code.split("\n"), "scaled", 1, (), None)
    assert fn is not None
    return fn


def fewer(code: str, parts: int = 4) -> Fewer | None:
    return made(function(code), 128, parts, {})


def test_a_capture_takes_16_bytes_a_lane_and_converts_two_at_once() -> None:
    fix = changes("fp8_quant.strided", "MEM102")[0]
    text = fix.edits[0].becomes
    assert fix.kind == "neighbours" and fix.parameters == {"grid.x": 16384, "elements": 8, "lanes": 16}
    assert "size_t g = blockIdx.x * 16ul + threadIdx.x / 16; int lane = threadIdx.x % 16; float v[8]" in text
    assert "Several<__nv_bfloat16, 8> x_of[1];" in text and "for (int o = 8; o; o >>= 1)" in text
    assert "__nv_cvt_float2_to_fp8x2(make_float2(v[j] * r, v[j + 1] * r), __NV_SATFINITE, __NV_E4M3)" in text
    assert fix.conditions[0].state == "proved" and fix.conditions[0].ran > 100
    assert any(c.state == "assumed" and "two conversions" in c.holds for c in fix.conditions)


@pytest.mark.parametrize(("code", "rows"), [(SCALE, "* 128"), (WARPS, "* 16")])
def test_other_sizes(code: str, rows: str) -> None:
    one = strided(code, 128, {})
    assert one is not None and rows_of(one) == 4
    found = fewer(code)
    assert found is not None and (found.lanes, found.loops.count, found.loops.stride) == (8, 8, 8)
    assert f"blockIdx.x {rows}" in found.text and "float kept[8]" in found.text and "d = 4;" in found.text
    assert "row * 64 + k * 8 + l" in found.text and found.played.compared > 128


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, d))", "top += __shfl_up_sync(~0u, top, d)"),
        ("if (l == 0) most", "if (threadIdx.x % 64 == 0) most"),
        ("most[row] = top", "most[row] = kept[1]"),  # which lane has which
        ("int row = (blockIdx.x * 128", "int row = 2 * (blockIdx.x * 128"),
        ("* 64 + k * 32 + l] = ", "* 64 + k * 32 + 31 - l] = "),
        ("int d = 16", "int d = 8"),  # half of a row
    ],
)
def test_rows_that_lanes_share_otherwise_are_left(was: str, becomes: str) -> None:
    assert SCALE.count(was) == 1
    code = SCALE.replace(was, becomes)
    assert strided(code, 128, {}) is None or fewer(code) is None


@pytest.mark.parametrize(("count", "parts"), [(1, 8), (2, 4), (4, 2), (8, 0), (3, 0)])
def test_as_many_rows_as_make_the_widest_access(count: int, parts: int) -> None:
    one = strided(SCALE.replace("k < 2", f"k < {count}").replace("kept[2]", f"kept[{count}]"), 128, {})
    assert one is not None and rows_of(one) == parts


def both(statement: str) -> str | None:
    code = f"void f() {{\n  #pragma unroll\n  for (int j = 0; j < 8; j++) {statement}\n}}"
    spans = paired(code, loops(code)[0])
    if spans is None:
        return None
    for start, end, new in sorted(spans, reverse=True):
        code = code[:start] + new + code[end:]
    return code


@pytest.mark.parametrize(
    ("given", "second"),
    [("v[j] * r", "v[j + 1] * r"), ("v[j]", "v[j + 1]"), ("2 * j + v[j]", "2 * (j + 1) + v[(j + 1)]")],
)
def test_two_conversions_at_once(given: str, second: str) -> None:
    code = both(f"y[j] = __nv_cvt_float_to_fp8({given}, __NV_SATFINITE, __NV_E5M2);")
    assert code is not None and "j += 2)" in code
    assert f"__nv_cvt_float2_to_fp8x2(make_float2({given}, {second}), __NV_SATFINITE, __NV_E5M2);" in code


@pytest.mark.parametrize(
    "statement",
    [
        "y[j] = __nv_cvt_float_to_fp8(s += v[j], __NV_SATFINITE, __NV_E4M3);",  # one behind the other
        "y[j] = __nv_cvt_float_to_fp8(v[j], __NV_SATFINITE, __NV_E4M3) ^ 1;",
        "{ y[j] = __nv_cvt_float_to_fp8(v[j], __NV_SATFINITE, __NV_E4M3); s += v[j]; }",
        "y[j] = __nv_cvt_double_to_fp8(v[j], __NV_SATFINITE, __NV_E4M3);",
    ],
)
def test_other_conversions_are_one_each(statement: str) -> None:
    assert both(statement) is None
