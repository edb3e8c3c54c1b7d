"""Products by mma.sync: what is seen to be one, and the kernel for warpgroups, played as well."""

from __future__ import annotations

import pytest

from kscope.engine.code.fixing import subjects
from kscope.fixes.left import left
from kscope.fixes.rows.function import _read
from kscope.fixes.tensor.given import Given, read
from kscope.fixes.tensor.played import Product, played_product
from kscope.fixes.warpgroup.kernels import Tile, kernel
from kscope.fixes.warpgroup.products import made_again, player
from kscope.model.kernel import Launch
from tests.support.patches import FIXTURES
from tests.support.reports import fixture
from tests.support.with_sources import changes

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


def text_of(text: str, name: str) -> Given:
    lines = text.split("\n")
    fn = _read("k.cu", lines, name, next(n for n, x in enumerate(lines, 1) if f" {name}(" in x), (), None)
    assert fn is not None
    one = read(fn, lines)
    assert one is not None
    return one


def launch(x: int, y: int, block: tuple[int, int, int], dynamic: int = 0) -> Launch:
    return Launch((x, y, 1), block, (1, 1, 1), 32, 0, dynamic, None)


def ampere(text: str, dynamic: int = 4 * 128 * 32 * 2 * 2) -> Product | None:
    one = text_of(text, "mma_gemm")
    of = launch(8, 16, (256, 1, 1), dynamic)
    return played_product(one, of, player([text.split("\n")], one, dynamic))


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
    given = text_of(AMPERE, "mma_gemm")
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
    given = text_of(text, "mine")
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
    given = text_of(text, "mine")
    found = played_product(given, launch(32, 16, (16, 16, 1)))
    assert found is not None and (found.c, found.layout.k[0]) == ("own", "s")
    code = kernel(given, found, NARROW)
    assert "unsigned char* own_ = tiles" in code and "float* to = own + " in code and "i < s / 64" in code
    assert made_again(given, found, NARROW, code, text.split("\n")) is not None
