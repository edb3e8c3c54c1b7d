"""Products by mma.sync: what is seen to be one, and the kernel for warpgroups, played as well."""

from __future__ import annotations

import msgspec
import pytest

from kscope.engine.code.fixing import subjects
from kscope.engine.findings.mended import setting_of
from kscope.fixes.given.setting import Asked
from kscope.fixes.left import left
from kscope.fixes.rows.function import of_text
from kscope.fixes.tensor.given import Given
from kscope.fixes.tensor.played import Product, played_product
from kscope.fixes.warpgroup import products
from kscope.fixes.warpgroup.kernels import Tile, kernel
from kscope.fixes.warpgroup.products import made_again
from kscope.fixes.warpgroup.texts import Texts, made_of, ways
from kscope.model.kernel import Launch
from tests.support.patches import FIXTURES
from tests.support.reports import fixture
from tests.support.with_sources import changes, diagnosed
from tools.fixes_built import lines_of
from tools.fixes_pairs import facts

AMPERE = (FIXTURES / "kernels" / "mma_gemm.cu").read_text()
NARROW, WIDE = Tile(128, 3, 2), Tile(256, 4, 1)
EACH = """
__global__ void mine($KIND* a, $KIND* b, $OUT* c, int m, int n, int k) {
  int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
  float s = 0.f;
  for (int q = 0; q < k; q++) s += $TO(a[$A]) * $TO(b[$B]);
  c[i * n + j] = $VALUE;
}
"""


def text_of(text: str, name: str) -> Texts:
    one = made_of(text.split("\n"), name)
    assert one is not None
    return one


def launch(x: int, y: int, block: tuple[int, int, int], dynamic: int = 0) -> Launch:
    return Launch((x, y, 1), block, (1, 1, 1), 32, 0, dynamic, None)


def ampere(text: str, dynamic: int = 4 * 128 * 32 * 2 * 2) -> Product | None:
    one = text_of(text, "mma_gemm")
    of = launch(8, 16, (256, 1, 1), dynamic)
    return played_product(one.given, of, one.player(dynamic))


def test_the_capture_goes_to_warpgroups() -> None:
    (fix,) = changes("gemm_bf16.swizzled", "CMP202")
    assert fix.kind == "tile" and fix.title.startswith("wgmma: tiles of 128 x 256") and fix.price is not None
    assert "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" in fix.code
    assert "%128, %129, 1, 1, 1, 0, 0;" in fix.code
    launched = "hgemm_mma_groups<<<dim3(N / 256, N / 128), 256, 197632>>>(...)"
    assert fix.code.split("\n")[-1].endswith(launched) and fix.code.count("{") == fix.code.count("}")
    assert [(c.holds, c.by) for c in fix.conditions[:2]] == [
        ("C = A B', row by row", "values"), ("the new kernel makes the same", "values"),
    ]  # fmt: skip
    assert fix.conditions[1].ran == 2 * 128 * 256
    assert {"it is built for sm_90a"} <= {c.holds for c in fix.conditions if c.state == "check"}
    assert (fix.proof[0].before, fix.proof[0].after) == (33554432, 0)


def test_what_such_products_wait_for_goes_with_them() -> None:
    *first, last = changes("gemm_bf16.mma", "MEM103")
    assert [f.kind for f in first] == ["swizzle", "pad"] and last.title.startswith("wgmma: tiles of 128 x 256")
    assert last.price is not None and last.price.speedup > 5


def test_where_no_time_is_known_it_is_said_of_the_path_alone() -> None:
    setting = msgspec.structs.replace(setting_of(facts("mma_waves.rows128"), lines_of), us=0.0)
    (finding,) = [f for f in diagnosed("mma_waves.rows128").findings if f.code == "GRD402"]
    assert products.fixes(Asked(setting, finding)) == []
    (fix,) = products.fixes(Asked(setting, msgspec.structs.replace(finding, code="CMP202")))
    assert fix.price is None


@pytest.mark.parametrize(
    ("case", "launched"),
    [
        ("hgemm.packed", "hgemm_packed_groups<<<dim3(n / 256, n / 128), 256, 197632>>>(...)"),
        ("bmm.shared", "bmm_shared_groups<<<dim3(n / 256, n / 128), 256, 197632>>>(...)"),
    ],
)
def test_products_on_the_fma_pipe_go_there_first(case: str, launched: str) -> None:
    (fix, other, *_) = changes(case, "CMP201")
    assert fix.title.startswith("wgmma") and other.title.startswith("tensor cores")
    assert fix.code.endswith(launched) and fix.proof[0].what.endswith("products on the FMA pipe")
    assert fix.conditions[1].holds == "the new kernel makes the same" and fix.conditions[1].state == "proved"


@pytest.mark.parametrize("case", ["qk.float", "lora.fma"])
def test_shallow_and_narrow_products_stay_with_fragments(case: str) -> None:
    assert all(f.title.startswith("tensor cores") for f in changes(case, "CMP201"))


def test_what_goes_through_registers_is_counted() -> None:
    cases = "gemm_bf16.swizzled", "gemm_bf16.wgmma"
    counts = [left("tile", subjects(str(fixture(case)))[0].setting, "CMP202") for case in cases]
    assert [c is not None and c[1] for c in counts] == [64.0, 0.0]


def test_another_text_of_mma_sync_is_read_by_its_values() -> None:
    one = ampere(AMPERE)
    assert one is not None
    assert (one.a, one.b, one.c, one.rows, one.cols, one.block) == ("a", "b", "c", 1024, 2048, (128, 128))
    assert (one.layout.k[0], one.layout.cols[0], one.layout.turned_b) == ("k", "n", True)
    given = text_of(AMPERE, "mma_gemm").given
    code = kernel(given, one, NARROW)
    assert "__floats2bfloat162_rn" in code and made_again(given, one, NARROW, code, AMPERE.split("\n")) is not None


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("    __syncthreads();\n    if (i + STAGES", "    if (i + STAGES"),  # a race
        ('"n"(STAGES - 2)', '"n"(STAGES - 1)'),  # what is used has not arrived
        ("% STAGES * 2 * PART, sb", "% 2 * 2 * PART, sb"),  # slots of other steps
        ("2 * kk + lane / 16)", "2 * kk + lane / 16 % 1)"),  # half of the fragments twice
        ("(row >> 1 & 3)) << 4", "(row >> 1 & 3)) << 3"),  # pieces across each other
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16", "mma.sync.aligned.m16n8k16.row.col.f32.f16"),
        (": \"+f\"(d[0])", ": \"f\"(d[0])"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared", "ldmatrix.sync.aligned.m8n8.x4.trans.shared"),
        ("if (i < steps) copy(i);", "if (i < steps) copy(i); int base = 0;"),  # a name that the copies take hidden
    ],
)
def test_other_texts_are_none(was: str, becomes: str) -> None:
    assert was in AMPERE
    assert ampere(AMPERE.replace(was, becomes)) is None


def test_shared_memory_ends_where_the_launch_says() -> None:
    assert ampere(AMPERE, 3 * 128 * 32 * 2 * 2) is None


def each(a: str, b: str, *, half: bool = False, value: str = "s") -> tuple[Given, Product, list[str]]:
    brain = "const __nv_bfloat16", "__bfloat162float", "float"
    kind, to, out = ("const half", "__half2float", "half") if half else brain
    text = EACH
    for name, part in {"KIND": kind, "OUT": out, "TO": to, "A": a, "B": b, "VALUE": value}.items():
        text = text.replace(f"${name}", part)
    given = text_of(text, "mine").given
    found = played_product(given, launch(32, 16, (16, 16, 1)))
    assert found is not None
    return given, found, text.split("\n")


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("a", ["i * k + q", "q * m + i"])
@pytest.mark.parametrize("b", ["j * k + q", "q * n + j"])
def test_the_new_kernel_makes_each_layout(a: str, b: str, half: bool) -> None:
    given, found, lines = each(a, b, half=half, value="__float2half(s * 0.5f)" if half else "s")
    code = kernel(given, found, NARROW)
    flags = int(a.startswith("q")), int(b.startswith("q"))
    assert f"1, 1, 1, {flags[0]}, {flags[1]};" in code and (".f16.f16 {" in code) == half
    again = made_again(given, found, NARROW, code, lines)
    assert again is not None and again.factor == ("0.5f" if half else "")


def test_tiles_may_be_wider() -> None:
    given, found, lines = each("i * k + q", "q * n + j")
    code = kernel(given, found, WIDE)
    assert "m64n256k16" in code and made_again(given, found, WIDE, code, lines) is not None


def test_one_product_for_each_block_of_an_axis() -> None:
    text = EACH.replace("$KIND", "const half").replace("$OUT", "half").replace("$TO", "__half2float")
    text = text.replace("$A", "(blockIdx.z * m + i) * k + q").replace("$B", "((size_t)blockIdx.z * k + q) * n + j")
    text = text.replace("$VALUE", "__float2half(s)").replace("c[i * n + j]", "c[(blockIdx.z * m + i) * n + j]")
    given = text_of(text, "mine").given
    found = played_product(given, Launch((32, 16, 5), (16, 16, 1), (1, 1, 1), 32, 0, 0, None))
    assert found is not None and (found.batches, found.layout.rows[0]) == (5, "m")
    code = kernel(given, found, NARROW)
    assert code.endswith("mine_groups<<<dim3(n / 128, m / 128, 5), 256, 99328>>>(...)")
    again = made_again(given, found, NARROW, code, text.split("\n"))
    assert again is not None and again.batches == 5
    wrong = code.replace("b + (size_t)blockIdx.z * k * n", "b + (size_t)blockIdx.z * k * k")
    assert wrong != code and made_again(given, found, NARROW, wrong, text.split("\n")) is None


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ('    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n', ""),
        ("    __syncthreads();\n", ""),
        ('    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");\n', ""),
        ("__pipeline_wait_prior(0);", "__pipeline_wait_prior(1);"),  # what is used has not arrived
        ('wait_group.sync.aligned 1;', 'wait_group.sync.aligned 2;'),  # a stage is filled that is still multiplied
        ('  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");\n', ""),
        ("^ t / 8 % 8", "^ t / 8 % 4"),  # another swizzle
        ("group * 8192", "group * 4096"),
        ("j * 32, 1)", "j * 16, 1)"),
        ("8192 >> 4", "4096 >> 4"),
        ("64ull << 32", "32ull << 32"),
        ("1ull << 62", "2ull << 62"),
        (" 1, 1, 1, 0, 1;", " 1, 1, 1, 1, 0;"),
        (" 1, 1, 1, 0, 1;", " 0, 1, 1, 0, 1;"),
        ("& 1023)", "& 511)"),
        ("+ i * 8) = make", "+ i * 4) = make"),
        ("(i + 1) % 3, (i + 1) * 64", "(i + 2) % 3, (i + 2) * 64"),
    ],
)
def test_a_new_kernel_that_is_wrong_shows(was: str, becomes: str) -> None:
    given, found, lines = each("i * k + q", "q * n + j")
    code = kernel(given, found, NARROW)
    assert was in code
    assert made_again(given, found, NARROW, code.replace(was, becomes), lines) is None


def test_names_of_the_new_kernel_give_way() -> None:
    text = EACH.replace("$KIND", "const half").replace("$OUT", "float").replace("$TO", "__half2float")
    text = text.replace("$A", "i * s + q").replace("$B", "j * s + q").replace("$VALUE", "d").replace("s +=", "d +=")
    text = text.replace("float s", "float d").replace("int k", "int s").replace("q < k", "q < s")
    text = text.replace("c[i * n + j]", "own[i * n + j]").replace("float* c", "float* own")
    given = text_of(text, "mine").given
    found = played_product(given, launch(32, 16, (16, 16, 1)))
    assert found is not None and (found.c, found.layout.k[0]) == ("own", "s")
    code = kernel(given, found, NARROW)
    assert "unsigned char* own_ = tiles" in code and "float* to = own + " in code and "i < s / 64" in code
    assert made_again(given, found, NARROW, code, text.split("\n")) is not None


MACROS = """
#define COPY16(to, from) \\
  asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2;\\n" ::"r"(to), "l"(from), "n"(16))
#define ROWS4(R0, R1, R2, R3, at) \\
  asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\\n" \\
               : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(at))
#define ROWS2T(R0, R1, at) \\
  asm volatile("ldmatrix.sync.aligned.x2.m8n8.shared.trans.b16 {%0, %1}, [%2];\\n" : "=r"(R0), "=r"(R1) : "r"(at))
#define MUL(D0, D1, A0, A1, A2, A3, B0, B1, C0, C1) \\
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};\\n" \\
               : "=r"(D0), "=r"(D1) : "r"(A0), "r"(A1), "r"(A2), "r"(A3), "r"(B0), "r"(B1), "r"(C0), "r"(C1))
#define AT(row, col, ld) ((row) * (ld) + (col))
#define AS(type, value) (*reinterpret_cast<type*>(&(value)))
__global__ void __launch_bounds__(128) macros_16(half* A, half* B, half* C, int M, int N, int K) {
  __shared__ half a[64][24], b[16][72];
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  uint32_t sums[8][2] = {};
  for (int k = 0; k < K / 16; ++k) {
    uint32_t to_a = __cvta_generic_to_shared(&a[t / 2][t % 2 * 8]);
    uint32_t to_b = __cvta_generic_to_shared(&b[t / 8][t % 8 * 8]);
    COPY16(to_a, &A[AT(blockIdx.y * 64 + t / 2, k * 16 + t % 2 * 8, K)]);
    COPY16(to_b, &B[AT(k * 16 + t / 8, blockIdx.x * 64 + t % 8 * 8, N)]);
    asm volatile("cp.async.commit_group;\\n" ::);
    asm volatile("cp.async.wait_group %0;\\n" ::"n"(0));
    __syncthreads();
    uint32_t x[4], y[2];
    uint32_t from = __cvta_generic_to_shared(&a[warp * 16 + lane % 16][lane / 16 * 8]);
    ROWS4(x[0], x[1], x[2], x[3], from);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      uint32_t at = __cvta_generic_to_shared(&b[lane % 16][j * 8]);
      ROWS2T(y[0], y[1], at);
      MUL(sums[j][0], sums[j][1], x[0], x[1], x[2], x[3], y[0], y[1], sums[j][0], sums[j][1]);
    }
    __syncthreads();
  }
  for (int j = 0; j < 8; ++j)
    for (int h = 0; h < 2; ++h) {
      half own[2];
      AS(uint32_t, own[0]) = sums[j][h];
      AS(half2, C[AT(blockIdx.y * 64 + warp * 16 + h * 8 + lane / 4, blockIdx.x * 64 + j * 8 + lane % 4 * 2, N)]) =
          AS(half2, own[0]);
    }
}
"""


def macros_of(text: str) -> list[Product]:
    lines = text.split("\n")
    fn = of_text(lines, "macros_16")
    assert fn is not None
    of = launch(16, 8, (128, 1, 1))
    return [p for one in ways(fn, [lines]) if (p := played_product(one.given, of, one.player(0))) is not None]


def test_macros_and_pointers_that_nobody_calls_constant() -> None:
    (one,) = macros_of(MACROS)
    assert (one.a, one.b, one.c, one.rows, one.cols) == ("A", "B", "C", 512, 1024)
    assert (one.layout.k[0], one.layout.cols[0], one.layout.turned_b) == ("K", "N", False)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("= sums[j][h];", "= sums[j][0];"),
        (".shared.trans.b16", ".shared.b16"),
        ('"n"(0)', '"n"(1)'),
        ("      half own[2];", "      half own[2]; A[t] = own[0];"),
        ("C0, C1) \\\n", "C0) \\\n"),
        ("a[t / 2][t % 2 * 8])", "a[t / 2][t % 2 * 8 + 1])"),  # a piece across its alignment
    ],
)
def test_wrong_macros_are_none(was: str, becomes: str) -> None:
    assert was in MACROS
    assert macros_of(MACROS.replace(was, becomes)) == []


FRAGMENTS = """
using namespace nvcuda;
__global__ void pieces(const half* a, const half* b, float* c, int n, float scale) {
  extern __shared__ half all[];
  half* u = all; half* v = all + 64 * 40;
  int t = threadIdx.x, w = t / 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[4];
  for (int j = 0; j < 4; j++) wmma::fill_fragment(sums[j], 0.0f);
  for (int k = 0; k < n; k += 32) {
    for (int e = t; e < 256; e += 128) {
      *(float4*)(u + e / 4 * 40 + e % 4 * 8) =
          *(const float4*)(a + (size_t)(blockIdx.y * 64 + e / 4) * n + k + e % 4 * 8);
      *(float4*)(v + e / 4 * 40 + e % 4 * 8) =
          *(const float4*)(b + (size_t)(blockIdx.x * 64 + e / 4) * n + k + e % 4 * 8);
    }
    __syncthreads();
    for (int d = 0; d < 32; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
      wmma::load_matrix_sync(x, u + w * 16 * 40 + d, 40);
      for (int j = 0; j < 4; j++) {
        wmma::load_matrix_sync(y, v + j * 16 * 40 + d, 40);
        wmma::mma_sync(sums[j], x, y, sums[j]);
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 4; j++) {
    for (int e = 0; e < sums[j].num_elements; e++) sums[j].x[e] *= scale;
    wmma::store_matrix_sync(c + (size_t)(blockIdx.y * 64 + w * 16) * n + blockIdx.x * 64 + j * 16, sums[j], n,
                            wmma::mem_row_major);
  }
}
"""


def pieces(text: str) -> Product | None:
    one = text_of(text, "pieces")
    return played_product(one.given, launch(16, 16, (128, 1, 1), 10240), one.player(10240))


def test_fragments_that_nobody_knows_the_lanes_of() -> None:
    one = pieces(FRAGMENTS)
    assert one is not None and one.factor == "scale" and one.layout.turned_b and one.rows == one.cols == 1024


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("    __syncthreads();\n    for", "    for"),
        ("wmma::col_major> y", "wmma::row_major> y"),
        ("mem_row_major", "mem_col_major"),
        ("u + w * 16 * 40 + d, 40", "u + w * 16 * 40 + d, 32"),
        ("u + w * 16 * 40 + d", "u + w * 16 * 40 + d + t % 2"),  # no one matrix of a warp
        ("fill_fragment(sums[j], 0.0f)", "fill_fragment(sums[j], 1.0f)"),
        ("*= scale", "*= e < 4 ? scale : 1.0f"),
        ("float> sums[4]", "half> sums[4]"),  # stored as floats
        ("extern __shared__ half all[]", "__shared__ half all[64 * 40]"),
    ],
)
def test_other_fragments_are_none(was: str, becomes: str) -> None:
    assert was in FRAGMENTS
    assert pieces(FRAGMENTS.replace(was, becomes)) is None


def test_results_may_pass_through_the_tiles_as_floats() -> None:
    through = """  __syncthreads();
  float* out = reinterpret_cast<float*>(all);
  for (int j = 0; j < 2; j++) {
    wmma::store_matrix_sync(out + w * 16 * 36 + j * 16, sums[$J], 36, wmma::mem_row_major);
  }
  __syncthreads();
  for (int e = t; e < 512; e += 128)
    *(float4*)&c[(size_t)(blockIdx.y * 64 + e / 8) * n + blockIdx.x * 64 + $HALF * 32 + e % 8 * 4] =
        *(const float4*)&out[e / 8 * 36 + e % 8 * 4];
"""
    text = FRAGMENTS[: FRAGMENTS.rindex("  for (int j = 0; j < 4; j++) {\n    for")]
    first, second = (through.replace("$J", j).replace("$HALF", half) for j, half in (("j", "0"), ("j + 2", "1")))
    both = first + "  {" + second
    one = pieces(text + both + "}}\n")
    assert one is not None and one.factor == "" and one.layout.turned_b
    assert pieces(text + both.replace("  __syncthreads();\n  for (int e", "  for (int e") + "}}\n") is None
    halves = both.replace("*(const float4*)&out[e / 8 * 36 + e % 8 * 4]", "make_float4(0, 0, 0, __half2float(all[e]))")
    assert pieces(text + halves + "}}\n") is None
