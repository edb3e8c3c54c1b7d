"""Products of two-byte matrices on the FMA pipes: what is seen to be one, and the kernel for tensor cores."""

from __future__ import annotations

import pytest

from kscope.engine.code.fixing import subjects
from kscope.fixes.left import left
from kscope.fixes.rows.function import _read
from kscope.fixes.tensor.given import Given, read
from kscope.fixes.tensor.kernels import Tile, kernel
from kscope.fixes.tensor.played import Product, played_product
from kscope.model.kernel import Launch
from tests.support.reports import fixture
from tests.support.with_sources import changes

EACH = """
constexpr int DEEP = 512, WIDE = 64;
__global__ void mine($PARAMETERS) {
  int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
  float s = 0.f;
  for (int q = 0; q < $K; q++) s += __half2float(a[$A]) * __half2float(b[$B]);
  c[$C] = __float2half($VALUE);
}
"""
POINTERS = "const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c"


def given(text: str, values: tuple[str, ...] = (), **parts: str) -> Given | None:
    for name, part in parts.items():
        text = text.replace(f"${name}", part)
    lines = text.split("\n")
    fn = _read("k.cu", lines, "mine", next(n for n, x in enumerate(lines, 1) if "mine" in x), values, None)
    assert fn is not None
    return read(fn, lines)


def launch(x: int, y: int, z: int = 1, block: tuple[int, int, int] = (16, 16, 1)) -> Launch:
    return Launch((x, y, z), block, (1, 1, 1), 32, 0, 0, None)


def found(text: str, of: Launch, **parts: str) -> Product | None:
    one = given(text, **parts)
    return played_product(one, of) if one is not None else None


def each(of: Launch, a: str, b: str, c: str, k: str, more: str = "", value: str = "s") -> Product | None:
    return found(EACH, of, PARAMETERS=POINTERS + more, A=a, B=b, C=c, K=k, VALUE=value)


@pytest.mark.parametrize(
    ("case", "kernel", "product", "launched"),
    [
        ("qk.float", "qk_float_tiles", "s = q k' * 0.125f, row by row, 32 of them", "dim3(QN / 512, QN / 64, 32)"),
        ("lora.fma", "lora_fma_tiles", "y = x w', row by row", "dim3(1, 256), 256>>>"),
        ("hgemm.packed", "hgemm_packed_tiles", "C = A B, row by row", "dim3(n / 128, n / 128), 256, 71680>>>"),
        ("gemm_bf16.ffma", "hgemm_ffma_tiles", "C = A B', row by row", "dim3(N / 128, N / 128), 256, 73728>>>"),
        ("hmm.each", "hmm_each_tiles", "c = a b, row by row", "dim3(n / 128, n / 128), 256, 71680>>>"),
        ("bmm.shared", "bmm_shared_tiles", "c = a b', row by row", "dim3(n / 128, n / 128), 256, 73728>>>"),
    ],
)
def test_captures_on_the_fma_pipe_go_to_tensor_cores(case: str, kernel: str, product: str, launched: str) -> None:
    (fix,) = [f for f in changes(case, "CMP201") if f.title.startswith("tensor cores")]
    assert fix.kind == "tile"
    assert f" {kernel}(" in fix.code and fix.code.split("\n")[-1].count(launched) == 1
    assert fix.code.count("{") == fix.code.count("}") and "{k}" not in fix.code
    (first, *others) = fix.conditions
    assert (first.holds, first.state, first.by) == (product, "proved", "values")
    assert {c.by for c in others if c.state == "proved"} <= {"launch"}
    assert fix.price is not None


@pytest.mark.parametrize(
    ("a", "b", "turned"),
    [
        ("i * k + q", "q * n + j", (False, False)),
        ("i * k + q", "j * k + q", (False, True)),
        ("q * m + i", "q * n + j", (True, False)),
        ("q * m + i", "j * k + q", (True, True)),
    ],
)
def test_rectangles_and_turned_factors_by_their_parameters(a: str, b: str, turned: tuple[bool, bool]) -> None:
    one = each(launch(24, 8), a, b, "i * n + j", "k", ", int m, int n, int k")
    assert one is not None
    lay = one.layout
    assert (lay.k[0], lay.cols[0], lay.rows[0]) == ("k", "n", "m" if turned[0] else "")
    assert (lay.turned_a, lay.turned_b) == turned
    assert (one.rows, one.cols, one.batches, one.block) == (128, 384, 1, (16, 16))


def test_a_result_that_is_turned_is_the_product_the_other_way_round() -> None:
    one = each(launch(24, 8), "i * k + q", "q * n + j", "j * m + i", "k", ", int m, int n, int k")
    assert one is not None and (one.a, one.b, one.rows, one.cols) == ("b", "a", 384, 128)
    assert one.layout.turned_a and one.layout.turned_b and (one.layout.rows[0], one.layout.cols[0]) == ("n", "m")


def test_blocks_along_x_may_be_rows_and_constants_sizes() -> None:
    text = EACH.replace("blockIdx.y * 16", "blockIdx.x * 16").replace("j = blockIdx.x * 16", "j = blockIdx.y * 16")
    parts = {"PARAMETERS": POINTERS, "A": "i * DEEP + q", "B": "q * WIDE + j", "C": "i * WIDE + j", "K": "DEEP"}
    one = found(text, launch(100, 4), **parts, VALUE="s")
    assert one is not None and (one.rows, one.cols) == (1600, 64)
    assert (one.layout.k[0], one.layout.cols[0]) == ("DEEP", "64")
    assert found(text, launch(100, 2), **parts, VALUE="s") is None  # half of the columns only


def test_one_product_a_head_times_a_factor() -> None:
    places = "(blockIdx.z * n + i) * 64 + q", "(blockIdx.z * n + j) * 64 + q", "((size_t)blockIdx.z * n + i) * n + j"
    one = each(launch(32, 32, 6), *places, "64", ", int n", "s / 8")
    assert one is not None and one.batches == 6 and one.factor == "0.125f"
    one = each(launch(32, 32, 6), *places, "64", ", int n, const float scale", "s * scale")
    assert one is not None and one.factor == "scale"
    assert each(launch(32, 32, 6), *places, "64", ", int n", "s / n") is None  # a factor of the size is no number
    assert each(launch(32, 32, 6), *places, "64", ", int n, const float scale", "s * scale * 2") is None


@pytest.mark.parametrize(
    ("a", "b", "c", "value"),
    [
        ("i * k + q", "q * n + j", "i * n + j", "fmaxf(s, 0.f)"),
        ("i * k + q", "q * n + j", "i * n + j", "s + 1.f"),
        ("i * k + q", "q * n + j", "i * n + j", "s + __half2float(c[i * n + j])"),
        ("i * k + q", "q * n + j", "i * n + j", "s / gridDim.x"),
        ("i * k + q + 1", "q * n + j", "i * n + j", "s"),
        ("i * k + (i < 8 ? q : 0)", "q * n + j", "i * n + j", "s"),
        ("i * k + q", "q * n + j", "i * n + j / 2 * 2", "s"),  # two threads for one place
    ],
)
def test_other_kernels_are_no_products(a: str, b: str, c: str, value: str) -> None:
    assert each(launch(24, 8), a, b, c, "k", ", int m, int n, int k", value) is None


def test_an_instance_of_a_template_has_its_numbers() -> None:
    text = EACH.replace("__global__", "template <int D> __global__")
    parts = {"PARAMETERS": POINTERS + ", int n", "A": "i * D + q", "B": "q * n + j", "C": "i * n + j", "K": "D"}
    one = given(text, ("96",), **parts, VALUE="s")
    product = played_product(one, launch(16, 16)) if one is not None else None
    assert product is not None and product.layout.k[0] == "96" and product.layout.cols[0] == "n"


def test_what_blocks_leave_out_is_no_product() -> None:
    text = EACH.replace("  float s", "  if (blockIdx.x > blockIdx.y) return;\n  float s")
    parts = {"A": "i * n + q", "B": "q * n + j", "C": "i * n + j", "K": "n", "VALUE": "s"}
    assert found(EACH, launch(16, 16), PARAMETERS=POINTERS + ", int n", **parts) is not None
    assert found(text, launch(16, 16), PARAMETERS=POINTERS + ", int n", **parts) is None


@pytest.mark.parametrize(
    "parameters",
    [
        "const half* a, const half* b, const half* d, half* c, int n",
        "const half* a, half* b, half* c, int n",
        "const half* a, const __nv_bfloat16* b, half* c, int n",
        "const float* a, const float* b, float* c, int n",
        "const half* a, const half* b, int* c, int n",
    ],
)
def test_other_parameters_are_not_looked_at(parameters: str) -> None:
    parts = {"A": "i * n + q", "B": "q * n + j", "C": "i * n + j", "K": "n", "VALUE": "s"}
    assert given(EACH, PARAMETERS=parameters, **parts) is None


TILED = """
typedef __nv_bfloat16 bf;
__global__ void mine(const bf* __restrict__ a, const bf* __restrict__ b, float* __restrict__ c, int n) {
  __shared__ __align__(16) bf u[16][40];
  __shared__ uint4 v[16][4];
  int t = threadIdx.x, row = t / 4, part = t % 4;
  float s[8] = {};
  for (int k0 = 0; k0 < n; k0 += 16) {
    if (t < 64) {
      uint2 x = *reinterpret_cast<const uint2*>(a + (size_t)(blockIdx.y * 16 + t / 4) * n + k0 + t % 4 * 4);
      *reinterpret_cast<uint2*>(&u[t / 4][t % 4 * 4]) = x;
      v[t / 4][t % 4] = *(const uint4*)&b[(size_t)(k0 + t / 4) * n + blockIdx.x * 32 + t % 4 * 8];
    }
    __syncthreads();
    for (int q = 0; q < 16; q++) {
      uint4 y = v[q][part];
      const unsigned* w = &y.x;
      for (int e = 0; e < 8; e++)
        s[e] += __bfloat162float(u[row][q]) * __uint_as_float($EXPANDED);
    }
    $BARRIER
  }
  float4* to = (float4*)&c[(size_t)(blockIdx.y * 16 + row) * n + blockIdx.x * 32 + part * 8];
  to[0] = make_float4(s[0], s[1], s[2], s[3]);
  to[1] = make_float4(s[4], s[5], s[6], s[7]);
}
"""
UPPER = "e % 2 ? w[e / 2] & 0xffff0000u : w[e / 2] << 16"


def test_numbers_of_two_bytes_are_followed_through_larger_ones() -> None:
    of = launch(16, 32, block=(64, 1, 1))
    one = found(TILED, of, EXPANDED=UPPER, BARRIER="__syncthreads();")
    assert one is not None and one.rows == one.cols == 512 and not one.layout.turned_b
    assert found(TILED, of, EXPANDED=UPPER, BARRIER="") is None  # a race
    assert found(TILED, of, EXPANDED="w[e / 2] << 16", BARRIER="__syncthreads();") is None
    assert found(TILED, of, EXPANDED="w[e / 2]", BARRIER="__syncthreads();") is None
    halves = TILED.replace("__nv_bfloat16", "__half").replace("__bfloat162float", "__half2float")
    assert found(halves, of, EXPANDED=UPPER, BARRIER="__syncthreads();") is None  # bits of a half are no float's


def test_names_of_the_new_kernel_give_way() -> None:
    parts = {"A": "i * n + q", "B": "q * n + j", "C": "i * n + j", "K": "n", "VALUE": "s"}
    one = given(EACH, PARAMETERS=POINTERS + ", int n", **parts)
    assert one is not None
    product = played_product(one, launch(16, 16))
    assert product is not None
    code = kernel(one, product, Tile(128, 128, 64, 2, (2, 4), 2))
    assert "float* c_ = sum[i][j];" in code and "unsigned a_[4][4], b_[2][4];" in code and "T* to = c + " in code
    assert "blockIdx.x" in code and "\x01" not in code
    parts = {"A": "i * k0 + q", "B": "q * k0 + j", "C": "i * k0 + j", "K": "k0", "VALUE": "s"}
    one = given(EACH, PARAMETERS=POINTERS + ", int k0, int e", **parts)
    product = played_product(one, launch(16, 16)) if one is not None else None
    assert one is not None and product is not None
    code = kernel(one, product, Tile(128, 128, 64, 2, (2, 4), 2))
    assert "k0_ < k0; k0_ += 64" in code and "a + (size_t)blockIdx.y * 128 * k0;" in code
    assert "from_a + (size_t)(e_ / 8) * k0 + k0_ + e_ % 8 * 8" in code


def test_a_product_as_deep_as_a_tile_keeps_its_rows_while_columns_change() -> None:
    (fix, *_) = changes("qk.float", "CMP201")
    assert "j0 < 512; j0 += 128" in fix.code and "__stcs(" in fix.code  # 64 MiB of results are more than L2 holds
    assert any(c.holds == "QN is a multiple of 512" for c in fix.conditions)
    assert fix.proof[1].after == pytest.approx(1 / 64 + 1 / 512, abs=1e-4)


def test_what_is_left_on_the_fma_pipe_is_counted() -> None:
    (fix, *_) = changes("lora.fma", "CMP201")
    fused = fix.proof[0]
    assert fused.what.endswith("products on the FMA pipe") and fused.before > 1e6 and fused.after == 0
    counts = [left("tile", subjects(str(fixture(case)))[0].setting, "CMP201") for case in ("lora.fma", "lora.mma")]
    assert [c is not None and c[1] for c in counts] == [512.0, 0.0]
