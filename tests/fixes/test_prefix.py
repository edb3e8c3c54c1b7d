"""Prefix sums of an array by one block: by the whole device."""

from __future__ import annotations

import pytest

from kscope.fixes.given.called import functions
from kscope.fixes.recurrence.prefix import Prefix, _same, prefix, written
from kscope.fixes.rows.function import Function, _read
from tests.support.with_sources import changes

SCAN = """__device__ {t} upto({t} v, {t}* s) {{
  int i = threadIdx.x; s[i] = v; __syncthreads();
  for (int d = 1; d < 64; d *= 2) {{ {t} u = 0; if (i >= d) u = s[i - d]; __syncthreads(); s[i] += u;
    __syncthreads(); }}
  return s[i];
}}"""
GIVEN = "const {v}* __restrict__ a, {v}* __restrict__ b, int many"
ROUNDS = "__shared__ {t} s[64]; {t} carry = 0; for (int i = threadIdx.x; i < many; i += 64) {{"
PLAIN = "{t} v = a[i], e = upto(v, s); b[i] = carry + e; carry += s[63]; __syncthreads(); }}"


def found(t: str, body: str, v: str = "", given: str = GIVEN, scan: str = SCAN) -> tuple[Function, Prefix | None]:
    names = {"t": t, "v": v or t}
    lines = [*scan.format(**names).split("\n"), f"__global__ void k({given.format(**names)}) {{",
             ROUNDS.format(**names), body.format(**names), "}"]  # fmt: skip
    fn = _read("k.cu", lines, "k", len(scan.split("\n")) + 1, (), None)
    assert fn is not None
    return fn, prefix(fn, 64, {}, functions(lines, fn.body))


def test_a_capture_of_a_scan_by_one_block_goes_to_all() -> None:
    *_, fix = (f for f in changes("scan1m.oneblock", "GRD401") if f.kind == "tile")
    assert "void __launch_bounds__(512) scan_one_sum(const uint4* __restrict__ x, uint4* __restrict__ y, int n4) {" in (
        fix.code
    )
    assert "scan_one_parts<<<512, 512>>>(...);" in fix.code and "__device__ unsigned scan_one_sums[512];" in fix.code
    first, second, stream, *_ = fix.conditions
    assert first.holds == "y = the sums of x up to each element" and first.state == second.state == "proved"
    assert first.ran > 10_000 and stream.state == "check"
    assert all("order of the sums" not in c.holds for c in fix.conditions)  # of whole numbers


@pytest.mark.parametrize("t", ["float", "int", "unsigned", "double"])
def test_sums_up_to_each_element_are_told_and_made_again(t: str) -> None:
    fn, one = found(t, PLAIN)
    assert one is not None and (one.x, one.y, one.exclusive, one.width) == ("a", "b", False, 1)
    assert _same(one, fn, 100, written(one, fn, 100)) > 10_000


def test_sums_in_front_of_each_element_are_told_and_made_again() -> None:
    fn, one = found("int", PLAIN.replace("carry + e;", "carry + e - v;"))
    assert one is not None and one.exclusive
    texts = written(one, fn, 40)
    assert "b[i * 4 + 0] = base;" in texts["parts"]
    assert _same(one, fn, 40, texts) > 10_000


def test_vectors_are_taken_whole() -> None:
    body = """float4 v = a[i]; v.y += v.x; v.z += v.y; v.w += v.z; float e = upto(v.w, s), base = carry + e - v.w;
    carry += s[63]; b[i] = make_float4(base + v.x, base + v.y, base + v.z, base + v.w); __syncthreads(); }}"""
    fn, one = found("float", body, v="float4")
    assert one is not None and one.width == 4
    texts = written(one, fn, 70)
    assert "if (i < units) b[i] = make_float4(v.x + base," in texts["parts"]
    assert _same(one, fn, 70, texts) > 10_000


@pytest.mark.parametrize(
    "body",
    [
        PLAIN.replace("carry + e;", "carry + e + 1;"),
        PLAIN.replace("carry += s[63];", ""),  # each round from zero
        PLAIN.replace("v = a[i]", "v = a[i] * a[i]"),
        PLAIN.replace("v = a[i]", "v = max(a[i], 9)"),
        PLAIN.replace("v = a[i]", "v = max(a[i], 0)"),
        PLAIN.replace("v = a[i]", "v = a[i] > 0 ? a[i] : 0"),
        PLAIN.replace("v = a[i]", "v = a[i] & 65535"),
        PLAIN.replace("v = a[i]", "v = min(a[i], 1 << 30)"),
        PLAIN.replace("__syncthreads(); }}", "}}"),  # the next round writes what this one still reads
        PLAIN.replace("b[i] = carry + e;", "if (i < many - 1) b[i + 1] = carry + e;"),  # the first is left alone
    ],
)
def test_other_sums_are_left_alone(body: str) -> None:
    _, one = found("int", body)
    assert one is None


@pytest.mark.parametrize("v", ["(int)a[i]", "fabsf(a[i])", "(a[i] > 0)", "a[i] == 0 ? 1.f : a[i]", "fminf(a[i], 1e6f)"])
def test_sums_of_what_is_made_of_fractions_are_left_alone(v: str) -> None:
    assert found("float", PLAIN)[1] is not None
    assert found("float", PLAIN.replace("v = a[i]", f"v = {v}"))[1] is None


def test_sums_that_go_through_whole_numbers_are_left_alone() -> None:
    assert found("float", PLAIN.replace("{t} v = a[i]", "int u = a[i]; float v = u"))[1] is None
    assert found("float", PLAIN.replace("{t} v = a[i]", "int u; u = a[i]; float v = u"))[1] is None
    assert found("float", PLAIN.replace("carry + e;", "(int)(carry + e);"))[1] is None


def test_a_function_that_returns_elsewhere_or_has_arrays_is_not_played() -> None:
    for more in ("if (v == 7) return v;", "int own[2]; own[0] = v;"):
        _, one = found("int", PLAIN, scan=SCAN.replace("int i = threadIdx.x;", f"int i = threadIdx.x; {more}"))
        assert one is None


def test_an_array_that_the_kernel_adds_to_is_no_prefix_sum() -> None:
    _, one = found("int", PLAIN.replace("b[i] =", "b[i] +="))
    assert one is None


def test_new_kernels_that_come_out_otherwise_are_not_printed() -> None:
    fn, one = found("int", PLAIN)
    assert one is not None
    texts = written(one, fn, 40)
    assert not _same(one, fn, 40, texts | {"parts": texts["parts"].replace("carry += part[w]", "carry = part[w]")})
    assert not _same(one, fn, 40, texts | {"before": texts["before"].replace("__syncthreads();", "", 1)})
