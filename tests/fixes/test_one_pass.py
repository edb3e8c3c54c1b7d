"""Prefix sums by blocks that wait for what the parts before their own come to."""

from __future__ import annotations

import pytest

from kscope.fixes.recurrence.one_pass import FEW, same, written
from tests.fixes.test_prefix import PLAIN, found
from tests.support.with_sources import changes


def test_a_capture_of_a_scan_by_one_block_takes_one_pass() -> None:
    first, second = (f for f in changes("scan1m.oneblock", "GRD401") if f.kind == "tile")
    head = "void __launch_bounds__(512) scan_one_parts(const uint4* __restrict__ x, uint4* __restrict__ y, int n4) {"
    assert head in first.code
    assert "// launch, with what scan_one takes: scan_one_parts<<<(n4 + 1023) / 1024, 512>>>(...);" in first.code
    assert "__device__ unsigned long long scan_one_state[2 * 1024];" in first.code and first.price == second.price
    sums, same_, parts, alone, apart = first.conditions
    assert sums.state == same_.state == "proved" and same_.ran > 100_000
    assert parts.holds == "every launch has 1 to 1024 parts of 4096 elements" and parts.state == "check"
    assert alone.state == apart.state == "check" and "scan_one_sums" in second.code
    assert (first.proof[0].after, first.proof[1].before, first.proof[1].after) == (132, 256, 2)


@pytest.mark.parametrize("t", ["float", "int", "unsigned"])
@pytest.mark.parametrize("rows", [1, 4])
def test_sums_are_made_by_parts_in_any_order(t: str, rows: int) -> None:
    fn, one = found(t, PLAIN)
    assert one is not None and same(one, fn, FEW, rows) > 90_000
    _, one = found(t, PLAIN.replace("carry + e;", "carry + e - v;"))
    assert one is not None and one.exclusive and same(one, fn, FEW, rows) > 90_000


def test_vectors_are_taken_whole() -> None:
    body = """float4 v = a[i]; v.y += v.x; v.z += v.y; v.w += v.z; float e = upto(v.w, s), base = carry + e - v.w;
    carry += s[63]; b[i] = make_float4(base + v.x, base + v.y, base + v.z, base + v.w); __syncthreads(); }}"""
    fn, one = found("float", body, v="float4")
    assert one is not None and same(one, fn, FEW, 2) > 90_000
    text = written(one, fn, 512, 2, 1024)
    assert "float4 v[2] = {};" in text["code"] and "if (i < units) v[e] = a[i];" in text["code"]
    assert "<<<(many + 1023) / 1024, 512>>>" in text["code"]  # float4s
    assert "__uint_as_float((unsigned)(word & 0xffffffffu))" in text["code"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("while (word == 0) word = state[at];", "word = 2ull << 32;"),  # nobody waits
        ("<= upto ?", "< upto ?"),
        ("if (upto < 32) break;", "break;"),  # parts further away are forgotten
        ("own[1] = atomicAdd(&k_turn[0], 1)", "own[1] = blockIdx.x"),  # a part before this one may not have begun
        ("k_turn[1] = 1 - half;", ""),  # the next launch finds this one's words
        ("k_turn[0] = 0;", ""),
        ("k_state[(1 - half)", "k_state[half"),
        ("2ull << 32 | (unsigned)(before + total)", "2ull << 32 | (unsigned)total"),
        ("total + k_before", "k_before"),
        ("    __syncthreads();\n    if (word >> 33)", "    if (word >> 33)"),
        ("    __syncthreads();\n    const int upto", "    const int upto"),
    ],
)
def test_other_texts_are_not_printed(old: str, new: str) -> None:
    fn, one = found("int", PLAIN)
    assert one is not None
    text = written(one, fn, FEW, 2, 131)
    assert old in text["body"] and same(one, fn, FEW, 2, text)
    assert not same(one, fn, FEW, 2, text | {"body": text["body"].replace(old, new)})


def test_wider_sums_than_a_word_holds_take_two_kernels() -> None:
    _, one = found("double", PLAIN)
    with pytest.raises(KeyError):
        assert one is not None and written(one, found("double", PLAIN)[0], 512, 1, 1024)
