"""Products of 2-byte matrices on the FMA pipes: a kernel of tensor-core fragments."""

from __future__ import annotations

import pytest

from kscope.fixes.compute.multiplied import Product
from kscope.fixes.compute.tensor_product import _as_floats, _kernel
from tests.support.with_sources import changes


@pytest.mark.parametrize(
    ("case", "rule", "name", "second"),
    [
        ("hmm.each", "MEM112", "hmm_each_tiles", "row_major> b[2]"),
        ("hmm.shared", "CMP201", "hmm_shared_tiles", "row_major> b[2]"),
        ("bmm.shared", "CMP201", "bmm_shared_tiles", "col_major> b[2]"),
    ],
)
def test_products_of_two_bytes_go_to_tensor_cores(case: str, rule: str, name: str, second: str) -> None:
    fix = next(f for f in changes(case, rule) if f.title.startswith("tensor cores"))
    assert f"void __launch_bounds__(256) {name}(" in fix.code and second in fix.code
    turned = "'" if case == "bmm.shared" else ""
    (product, size, *_) = fix.conditions
    assert product.holds.startswith(f"c = a b{turned}, square") and product.state == "proved" and product.by == "values"
    assert size.state == "check"  # n is a parameter
    assert (fix.price is None) == (rule == "MEM112")  # what a tile of its own promises is another change's
    assert fix.proof[0].after == pytest.approx(1 / 64, rel=0.01)


def test_floats_are_left_to_the_fma_pipe() -> None:
    assert all(not f.title.startswith("tensor cores") for f in changes("gemm_f32.naive", "MEM112"))


def test_stores_of_floats_need_no_rounding() -> None:
    halves = _kernel("k", "const __half* a", "__half", 2, Product("a", "b", "c", "n", 1))
    floats = _kernel("k", "const __nv_bfloat16* a", "__nv_bfloat16", 4, Product("a", "b", "c", "n", 1, turned=True))
    assert "__float2half(own[e])" in halves and "__float2half" not in floats
    assert "float* to = c + row * n" in floats
    assert halves.count("{") == halves.count("}") and floats.count("{") == floats.count("}")


def test_conversions_are_none_for_whole_numbers() -> None:
    assert _as_floats("sum += __half2float(a[i]) * __bfloat162float(b[i]);") == "sum += (a[i]) * (b[i]);"
    assert _as_floats("__shared__ __half u[8]; int half_n = 2;") == "__shared__ float u[8]; int half_n = 2;"
