"""Other instances of a template: which are proposed, and what of a text keeps one from being the same."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from kscope.engine.findings.mended import setting_of
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.setting import Asked
from kscope.fixes.template import proposed, ways
from kscope.fixes.template.chain import one_chain
from kscope.fixes.template.instance import Player, Way, kernel
from kscope.model.contract.fixes import Fix
from tests.support import thorough
from tests.support.with_sources import changes, diagnosed
from tools.fixes_built import lines_of
from tools.fixes_pairs import facts, setting

SOURCES = ("queue_kernels.cu", "spread_kernels.cu", "u3.cu")


def of(case: str, code: str) -> Fix:
    (fix,) = [f for f in changes(case, code) if f.code and "<<<" in f.code and f.title.partition(" = ")[1]]
    return fix


def with_lines(case: str, was: str = "", becomes: str = "") -> Any:
    """The setting of a case, its source with a change."""

    def lines(name: str) -> Sequence[str]:
        return [line.replace(was, becomes) if was else line for line in lines_of(name)]

    found = setting_of(facts(case), lines_of)
    assert any(was in line for name in SOURCES for line in lines_of(name))
    return msgspec.structs.replace(found, lines=lines)


def test_more_threads_for_what_a_block_does() -> None:
    fix = of("nearby.few", "GRD401")
    assert fix.code == "nearby_few<<<2048, 128>>>(...);" and fix.parameters["block.x"] == 128
    (edit,) = fix.edits
    assert "__launch_bounds__(128) nearby_few(" in edit.becomes and "{ nearby<128>(p, q, y, n); }" in edit.becomes
    assert (fix.conditions[0].state, fix.conditions[0].by, fix.conditions[0].ran) == ("proved", "values", 21)
    assert fix.proof[0].before == 16384 and fix.proof[0].after > 100000 and fix.price is not None


def test_smaller_blocks_for_sms_that_have_none() -> None:
    fix = of("evolve.large", "GRD401")
    assert fix.code == "evolve_large<<<256, 32>>>(...);"  # as the measured version is launched
    assert "__launch_bounds__(32)" in fix.edits[0].becomes and "evolve<32>(" in fix.edits[0].becomes
    assert (fix.proof[0].before, fix.proof[0].after) == (32, 132)
    assert not any("order" in c.holds or "even" in c.holds for c in fix.conditions)


def test_fewer_warps_at_a_barrier() -> None:
    fix = of("best4.block", "LAT304")
    assert fix.code == "best4_block<<<32768, 128>>>(...);" and "best4<128>(" in fix.edits[0].becomes
    assert fix.proof[0].after == 0.45 * fix.proof[0].before
    assert any("equal numbers" in c.holds and c.state == "check" for c in fix.conditions)


def test_a_flag_that_leaves_barriers_out() -> None:
    fix = of("bitonic1024.barriers", "LAT304")
    assert fix.code == "bitonic1024<true><<<4096, 1024>>>(...);" and fix.title.startswith("SHUFFLE = true")
    assert fix.proof[0].after < 0.3 * fix.proof[0].before and not fix.edits


@thorough.only
def test_chains_side_by_side() -> None:
    (fix,) = changes("kahan.one", "LAT303")
    assert fix.code == "kahan<4><<<132, 256>>>(...);" and fix.parameters["instance"] == "4"
    assert any("order of the sums" in c.holds and c.state == "check" for c in fix.conditions)
    assert not fix.edits


@thorough.only
def test_more_results_of_what_a_kernel_calls() -> None:
    fix = of("product.four", "MEM112")
    assert fix.code == "product_four<<<dim3(16, 16), 256>>>(...);" and "product<8>(" in fix.edits[0].becomes
    assert fix.proof[0].after == 0.5 * fix.proof[0].before and fix.conditions[0].ran == 32768


@pytest.mark.parametrize(
    ("case", "code", "made"),
    [("nearby.more", "LAT302", proposed.idle), ("nearby.more", "LAT302", proposed.small),
     ("evolve.small", "LAT303", proposed.idle), ("evolve.small", "LAT303", proposed.chains),
     ("product.eight", "MEM102", proposed.results)],
)  # fmt: skip
def test_better_versions_are_left_as_they_are(case: str, code: str, made: Any) -> None:
    finding = next(f for f in diagnosed(case).findings if f.code == code)
    assert made(Asked(with_lines(case), finding)) == []


@pytest.mark.parametrize(
    ("case", "way", "was", "becomes"),
    [
        ("nearby.few", Way(128, (128, 1)), "k < n; k += B", "k < n; k += 120 + B"),
        ("nearby.few", Way(128, (128, 1)), "k += B) { float4 e", "k += B) { y[0] = 1; float4 e"),  # a race
        ("nearby.few", Way(128, (128, 1)), "threadIdx.x % 32 == 0) atomicMin", "threadIdx.x == 0) atomicMin"),
        ("nearby.few", Way(128, (8, 1)), "", ""),  # a block of another size
        ("nearby.few", Way(128, (128, 1), Fraction(1, 16)), "", ""),
        ("evolve.large", Way(32, (32, 1), Fraction(8)), "blockIdx.x * B", "blockIdx.x * 256"),
        ("evolve.large", Way(32, (32, 1), Fraction(8)), "float2 q = x[i];", "float2 q = x[i]; q.x += B;"),
        ("evolve.large", Way(32, (32, 1), Fraction(8)), "y[i] = q", "y[i ^ 1] = x[i + B]"),
        ("evolve.large", Way(32, (32, 1)), "", ""),
        ("best4.block", Way(128, (128, 1)), "sk[t] = key; __syncthreads();", "sk[t] = key;"),  # a race
        ("best4.block", Way(128, (128, 1)), "int d = B / 2", "int d = 64"),
        ("best4.block", Way(128, (128, 1)), "__shared__ float sv[B]", "__shared__ float sv[100]"),
        ("best4.block", Way(128, (128, 1), Fraction(2)), "", ""),
        ("best4.block", Way(128, (128, 1)), "__shared__ float sv[B];",
         "static_assert(B > 128); __shared__ float sv[B];"),
    ],
)  # fmt: skip
def test_instances_that_do_something_else(case: str, way: Way, was: str, becomes: str) -> None:
    one = kernel(with_lines(case, was, becomes))
    assert one is not None and Player(one).same(way) is None


@pytest.mark.parametrize(
    ("case", "way"),
    [("nearby.few", Way(128, (128, 1))), ("evolve.large", Way(32, (32, 1), Fraction(8))),
     ("best4.block", Way(128, (128, 1)))],
)
def test_instances_that_do_the_same(case: str, way: Way) -> None:
    one = kernel(with_lines(case))
    same = Player(one).same(way) if one is not None else None
    assert same is not None and same.rests and same.bits and same.ties == (case != "best4.block")


def test_launch_bounds_that_hold_blocks_to_their_size() -> None:
    finding = next(f for f in diagnosed("nearby.few").findings if f.code == "GRD401")
    for bounds in ("64", "8, 4", "N"):
        one = with_lines("nearby.few", "__launch_bounds__(8)", f"__launch_bounds__({bounds})")
        assert proposed.idle(Asked(one, finding)) == []
    (fix,) = proposed.idle(Asked(with_lines("nearby.few", "__launch_bounds__(8)", "__launch_bounds__(256)"), finding))
    assert "__launch_bounds__(256) nearby_few(" in fix.edits[0].becomes


def test_one_array_under_two_names_is_none() -> None:
    assert kernel(with_lines("nearby.few", "nearby<8>(p, q, y, n)", "nearby<8>(p, p, y, n)")) is None
    assert kernel(with_lines("nearby.few", "nearby<8>(p, q, y, n)", "nearby<8>(p, q + 1, y, n)")) is None


def test_more_threads_are_for_loops_alone() -> None:
    """What each thread does once is done by more of them."""
    one = with_lines("nearby.more")
    known = kernel(one)
    assert known is not None and ways._once(one) > ways.MOST_MORE
    launch = msgspec.structs.replace(one.launch, block=(32, 1, 1))
    few = msgspec.structs.replace(one, launch=launch)
    assert list(ways.more_threads(few, msgspec.structs.replace(known, now=32, block=(32, 1)))) == []


def test_a_chain_is_told_by_its_cycles() -> None:
    slow = setting("kahan.one")
    assert slow is not None and (one_chain(slow) or 0) > 3


X = {"x": np.arange(64), "y": np.zeros(64, dtype=np.int64)}


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("float4 v = ((const float4*)x)[threadIdx.x]; y[threadIdx.x] = v.x + 10 * v.w;", [30, 74]),
        ("float2 s = make_float2(1, 2); s.y += x[3]; if (threadIdx.x) s.x = 7; y[threadIdx.x] = s.x * s.y;", [5, 35]),
        ("float a[2][4] = {}; a[1][2] = 5; float4 v = *(float4*)&a[1][0]; y[threadIdx.x] = v.z;", [5, 5]),
        ("float a[4]; float &r = a[threadIdx.x]; r = 3; r += 1; y[threadIdx.x] = a[threadIdx.x];", [4, 4]),
        ("int n = 0; while (n < 5) n += 2; y[threadIdx.x] = n;", [6, 6]),
        ("*reinterpret_cast<float2*>(y + 2 * threadIdx.x) = make_float2(8, 9);", [8, 9]),
        ("__shared__ int t[2]; int i = threadIdx.x; t[i] = x[i + 4]; __syncthreads(); y[i] = t[1 - i];", [5, 4]),
        ("int one{3}; static_assert(2 > 1); y[threadIdx.x] = one;", [3, 3]),
        ("atomicAdd(&y[0], 2); atomicAdd(y + 1, threadIdx.x);", [4, 1]),
    ],
)  # fmt: skip
def test_vectors_references_and_casts(body: str, wanted: list[int]) -> None:
    memory = {name: values.copy() for name, values in X.items()}
    play(f"{{ {body} }}", (1, 1), (2, 1), memory, {}, Rules("drawn", races=True))
    assert memory["y"][:2].tolist() == wanted


@pytest.mark.parametrize(
    "body",
    [
        "float4 v = *(const float4*)(x + 1); y[0] = v.x;", "y[0] = x[0].x;", "float v = *(const float4*)x; y[0] = v;",
        "double* d = (double*)y; d[0] = 1;", "y[threadIdx.x / 2] = threadIdx.x;",
        "y[threadIdx.x] = y[1 - threadIdx.x];",
        "__shared__ int t[2]; t[threadIdx.x] = 1; y[threadIdx.x] = t[1 - threadIdx.x];", "float* p = &y; p[0] = 1;",
        "static_assert(1 > 2); y[0] = 1;", "atomicAdd(y, 1); y[threadIdx.x] = 1;", "int v = atomicAdd(y, 1); y[9] = v;",
        "float s = 1; float& r = s; r = 2; y[0] = s;", "atomicAdd(y, 1); atomicMax(y, 3);",
        "__shared__ float t[3]; t[threadIdx.x] = 1; __syncthreads(); float2 v = *(float2*)t; y[0] = v.x;",
    ],
)  # fmt: skip
def test_what_would_be_another_value_elsewhere_is_refused(body: str) -> None:
    """Vectors across their alignment, types that do not fit, threads that use one place at once."""
    memory = {name: values.copy() for name, values in X.items()}
    with pytest.raises(Unplayable):
        play(f"{{ {body} }}", (1, 1), (2, 1), memory, {}, Rules("drawn", races=True))
