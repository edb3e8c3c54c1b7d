"""Functions that store fragments in pairs, which four lanes exchange."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kscope.fixes.epilogue.quads import Function, called, played
from kscope.fixes.epilogue.reached import all_come
from kscope.fixes.epilogue.stores import ends_played
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import Text
from kscope.fixes.packed.quads import together
from kscope.fixes.packed.stored import stored
from kscope.model.kernel import Launch
from tests.support.with_sources import changes

HEAD = r"""
#define GPU static __device__ __forceinline__
GPU void settle() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
GPU uint32_t both(float a, float b) { __half2 v = __floats2half2_rn(a, b); return *reinterpret_cast<uint32_t*>(&v); }
"""
FUNCTION = r"""template <int COLUMNS> GPU void put(const float (&sum)[COLUMNS / 2], __half* out, int pitch) {
  int lane = threadIdx.x & 31, row = (threadIdx.x / 32 & 3) * 16 + lane / 4;
  __half* mine = out + (size_t)row * pitch + lane % 4 * 2;
  for (int i = 0; i < COLUMNS / 8; i++) {
    *(uint32_t*)(mine + i * 8) = both(sum[4 * i], sum[4 * i + 1]);
    *(uint32_t*)(mine + 8 * (size_t)pitch + i * 8) = both(sum[4 * i + 2], sum[4 * i + 3]);
  }
}
"""
KERNEL = r"""
__global__ void work(__half* c, int n, int tiles) {
  if (threadIdx.x / 128 == 1) {
    float sum[32];
    for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
      if (n > 4) { sum[0] = 0; }
      settle();
      if (threadIdx.x % 128 == 0) { sum[1] = 0; }
      put<64>(sum, c + t * 64 * n, n);
    }
  }
}
"""


def parts(function: str = FUNCTION, kernel: str = KERNEL) -> tuple[Setting, Text, Function]:
    lines = (HEAD + function + kernel).split("\n")
    code = SimpleNamespace(program=SimpleNamespace(instructions=[SimpleNamespace(file="k.cu")]))
    launch = Launch((4, 1, 1), (256, 1, 1), (0, 0, 0), 32, 0, 0, None)
    setting = Setting(code, lambda file: lines if file == "k.cu" else [], launch, "work",  # type: ignore[arg-type]
                      instance="work(__half *, __half *, int, int)")  # fmt: skip
    first = next(n for n, line in enumerate(lines, 1) if "void work" in line)
    start = function.find("put(") + 4
    one = Function(Text("k.cu", 5, function), "put", (start, function.find(") {")), ("COLUMNS",))
    return setting, Text("k.cu", first, "\n".join(lines[first - 1 :])), one


def ran(function: str = FUNCTION, kernel: str = KERNEL) -> int:
    """Addresses that were seen, where four lanes may exchange what the function stores."""
    setting, text, one = parts(function, kernel)
    found = [x for x in stored(function) if together(function, x.span[0], set(one.names))]
    calls = called(setting, text, one) if found else []
    return sum(played(setting, text, one, values, len(found)) for values in calls)


def test_a_capture_s_epilogue_stores_sixteen_bytes_a_lane() -> None:
    (fix,) = changes("ws_gemm.epilogue_exposed", "ASY503")
    assert fix.kind == "register" and "store_words" in fix.title and "quad_turned" in fix.code
    assert all("if (j % 4 == 0) {" in e.becomes and "make_uint4(" in e.becomes for e in fix.edits)
    assert len(fix.edits) == 2 and [c.state for c in fix.conditions[:3]] == ["proved"] * 3
    assert fix.proof[1].after == fix.proof[1].before / 4


def test_a_function_s_pairs_of_four_lanes_lie_side_by_side() -> None:
    assert ran() == 3 * 8 * 16 * 32


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("i * 8) = both(sum[4 * i],", "8 * i) = both(sum[4 * i],"),
        ("*(uint32_t*)(mine + i * 8)", "*reinterpret_cast<uint32_t*>(mine + i * 8)"),
        ("threadIdx.x & 31", "threadIdx.x % 32"),
        ("settle();", 'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");'),
        ("put<64>", "if constexpr (1 > 0) put<64>"),
        ("COLUMNS / 8; i++", "COLUMNS / 8; ++i"),
    ],
)
def test_however_it_is_written(was: str, now: str) -> None:
    assert was in FUNCTION + KERNEL
    assert ran(FUNCTION.replace(was, now), KERNEL.replace(was, now)) > 0


@pytest.mark.parametrize(
    ("was", "now"),
    [
        # Lanes that lie otherwise, rounds that do not follow one another, or do not come out in fours.
        ("lane % 4 * 2", "lane % 4 * 4"),
        ("lane / 4", "lane / 2"),
        ("mine + i * 8)", "mine + i * 16)"),
        ("put<64>", "put<80>"),
        ("lane % 4 * 2;", "lane % 4 * 2 + 2;"),
        # Some lanes do not store, leave before, or do not come to the call.
        ("    *(uint32_t*)(mine + i * 8)", "    if (row < pitch) *(uint32_t*)(mine + i * 8)"),
        ("  for (int i", "  if (row > 40) return;\n  for (int i"),
        ("put<64>(sum", "if (threadIdx.x < 200) put<64>(sum"),
        ("if (threadIdx.x % 128 == 0) { sum[1] = 0; }", "if (threadIdx.x % 128 == 0) continue;"),
        ("      settle();\n", "      if (n > 3) settle();\n"),
        ("      settle();\n", ""),
        # What is stored is read again in a later round, or a name that a round has made.
        ("both(sum[4 * i], sum[4 * i + 1])", "both(sum[4 * i], (float)mine[i * 8 - 8])"),
        ("    *(uint32_t*)(mine + i * 8)", "    float last = sum[4 * i];\n    *(uint32_t*)(mine + i * 8)"),
        # Another kernel calls it too.
        ("__global__ void work", "__global__ void other(__half* c) { float s[32]; put<64>(s, c, 8); }\n"
         "__global__ void work"),
        # More than stores: what others see has an order.
        ("  for (int i", "  __syncthreads();\n  for (int i"),
    ],
)  # fmt: skip
def test_pairs_stay_where_lanes_may_not_exchange_them(was: str, now: str) -> None:
    assert was in FUNCTION + KERNEL
    function, kernel = FUNCTION.replace(was, now), KERNEL.replace(was, now)
    if "last" in now:
        function = function.replace("both(sum[4 * i],", "both(last,")
    if "void other" in now:
        kernel = kernel.replace("\n__global__ void other", "__global__ void other")
    assert ran(function, kernel) == 0


INSIDE = r"""
__global__ void work(__half* c, __half* d, int n, int tiles) {
  int team = threadIdx.x / 128, lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane / 4;
  if (team == 1) {
    float sum[32];
    for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
      settle();
      if (n > 3) { sum[0] = 1; }
      __half* mine = c + ((size_t)t * 64 + row) * n + 2 * (lane % 4);
      for (int j = 0; j < 8; j++) {
        *reinterpret_cast<uint32_t*>(mine + j * 8) = both(sum[4 * j], sum[4 * j + 1]);
        *reinterpret_cast<uint32_t*>(mine + 8 * n + j * 8) = both(sum[4 * j + 2], sum[4 * j + 3]);
      }
    }
  }
}
"""


def inside(kernel: str = INSIDE) -> int:
    setting, text, _ = parts("\n", kernel)
    found = [x for x in stored(text.code) if all_come(setting, text, x.span[0])]
    return sum(ends_played(setting, text, found)) if found else 0


def test_a_group_s_own_stores_lie_side_by_side() -> None:
    assert inside() > 0


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("2 * (lane % 4)", "4 * (lane % 4)"),
        ("j * 8)", "j * 16)"),
        ("row) * n", "row % 16) * n"),
        ("j < 8", "j < 6"),
        ("if (n > 3) {", "if (n > 3) continue; {"),
        ("      settle();\n", ""),
        ("float sum[32];", "float sum[32]; if (lane > 7) return;"),
        ("for (int j", "if (lane < n) for (int j"),
        ("sum[0] = 1;", "sum[0] = c[t];"),
        ("+ row) * n", "+ row) * n + n / 64"),
        ("sum[0] = 1;", "sum[0] = elsewhere(n);"),
    ],
)
def test_a_group_s_own_stores_stay(was: str, now: str) -> None:
    assert was in INSIDE
    assert inside(INSIDE.replace(was, now)) == 0
