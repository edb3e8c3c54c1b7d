"""Barriers around the epilogue of groups of warps that multiply by themselves, in clusters and out of them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kscope.engine.findings.mended import setting_of
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import Text, kernel_text
from kscope.fixes.roles.lockstep import Unneeded, stops_in_loops, unneeded
from kscope.fixes.roles.texts import opened
from kscope.model.kernel import Launch
from tests.support.with_sources import ABOVE, BELOW
from tools.fixes_pairs import facts

FUNCTIONS = r"""
#define INLINE __device__ __forceinline__
#define TWO(x, i) "+f"(x[i]), "+f"(x[i + 1])
INLINE uint32_t at(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
INLINE void make(uint32_t m, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(m), "r"(n)); }
INLINE void ready(uint32_t m, int rank) {
  asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
    "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" :: "r"(m), "r"(rank) : "memory"); }
INLINE void expect(uint32_t m, uint32_t b) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(m), "r"(b) : "memory"); }
INLINE bool over(uint32_t m, uint32_t p) {
  uint32_t ok;
  asm volatile("{\n.reg .pred P;\nmbarrier.try_wait.parity.shared::cta.b64 P, [%1], %2;\nselp.b32 %0, 1, 0, P;\n}"
    : "=r"(ok) : "r"(m), "r"(p) : "memory");
  return ok;
}
INLINE void pass(uint32_t m, uint32_t p) { while (!over(m, p)) { } }
INLINE void box(uint32_t to, const CUtensorMap* map, int x, int y, uint32_t m, uint16_t blocks) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
    " [%0], [%1, {%2, %3}], [%4], %5;" :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(m), "h"(blocks) : "memory");
}
INLINE uint32_t block_of_cluster() { uint32_t r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
INLINE void cluster_meets() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
INLINE uint64_t matrix(uint32_t a) { return (uint64_t)((a & 0x3FFFF) >> 4) | 64ull << 32 | 1ull << 62; }
INLINE void times(float (&sum)[4], uint64_t a, uint64_t b, int more) {
  asm volatile("{\n.reg .pred P;\nsetp.ne.b32 P, %6, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, P, 1, 1, 0, 0;\n}"
    : TWO(sum, 0), TWO(sum, 2) : "l"(a), "l"(b), "r"(more));
}
template <int LEFT> INLINE void done() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(LEFT) : "memory"); }
INLINE void meet(int id, int n) { asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(n) : "memory"); }
struct Sizes { float* out; int rows, depth; };
template <int SLOTS, int BLOCKS> struct Tile {
  static constexpr int A = 128 * 128, B = 8 * 128, SLOT = A + B;
};
"""
KERNEL = r"""
template <int SLOTS, int BLOCKS>
__global__ void product(const __grid_constant__ CUtensorMap left, const __grid_constant__ CUtensorMap right, Sizes z) {
  using Me = Tile<SLOTS, BLOCKS>;
  extern __shared__ char bytes[]; __shared__ uint64_t come[SLOTS], gone[SLOTS]; __shared__ float kept[4];
  int team = __shfl_sync(~0u, threadIdx.x / 128, 0), own = BLOCKS > 1 ? block_of_cluster() : 0;
  if (threadIdx.x == 0) for (int i = 0; i < SLOTS; i++) { make(at(&come[i]), 1); make(at(&gone[i]), 2 * BLOCKS); }
  if constexpr (BLOCKS > 1) cluster_meets(); else __syncthreads();
  if (team == 2) {
    if (threadIdx.x == 256) {
      int i = 0; uint32_t turn = 1;
      for (int t = blockIdx.x / BLOCKS; t < z.rows / 64; t += gridDim.x / BLOCKS)
        for (int k = 0; k < z.depth / 64; k++) {
          pass(at(&gone[i]), turn);
          expect(at(&come[i]), Me::SLOT);
          uint32_t to = at(bytes) + i * Me::SLOT;
          box(to, &left, k, t, at(&come[i]), 1 << own);
          box(to + Me::A + own * (Me::B / BLOCKS), &right, k, t, at(&come[i]), (1 << BLOCKS) - 1);
          if (++i == SLOTS) { i = 0; turn ^= 1; }
        }
    }
  } else {
    float sum[4]; int i = 0; uint32_t turn = 0;
    for (int t = blockIdx.x / BLOCKS; t < z.rows / 64; t += gridDim.x / BLOCKS) {
      for (int k = 0; k < z.depth / 64; k++) {
        pass(at(&come[i]), turn);
        uint32_t from = at(bytes) + i * Me::SLOT;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int n = 0; n < 4; n++) times(sum, matrix(from + team * 8192) + 2 * n, matrix(from + Me::A) + 2 * n, k | n);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        done<0>();
        if (threadIdx.x % 128 < BLOCKS) ready(at(&gone[i]), threadIdx.x % 128);
        if (++i == SLOTS) { i = 0; turn ^= 1; }
      }
      meet(1, 256);
      float* to = z.out + (((size_t)t * BLOCKS + own) * 256 + threadIdx.x) * 4;
      for (int n = 0; n < 4; n++) to[n] = sum[n];
      meet(1, 256);
    }
  }
  if constexpr (BLOCKS > 1) cluster_meets();
}
"""


def found(kernel: str = KERNEL, functions: str = FUNCTIONS, blocks: int = 2) -> Unneeded | None:
    lines = (functions + kernel).split("\n")
    first = next(n for n, line in enumerate(lines, 1) if "__global__" in line)
    code = SimpleNamespace(program=SimpleNamespace(instructions=[SimpleNamespace(file="k.cu")]))
    launch = Launch((132, 1, 1), (384, 1, 1), (blocks if blocks > 1 else 0, 0, 0), 64, 0, 70000, None)
    name = f"product<(int)2, (int){blocks}>(CUtensorMap_st, CUtensorMap_st, Sizes)"
    setting = Setting(code, lambda file: lines if file == "k.cu" else [], launch, "product", instance=name)  # type: ignore[arg-type]
    text = Text("k.cu", first, "\n".join(lines[first - 1 :]))
    at = opened(text.code, "product")
    assert at is not None
    return unneeded(setting, text, at[2], stops_in_loops(setting, text, at[2]))


def test_a_capture_s_groups_meet_around_their_stores_without_need() -> None:
    setting = setting_of(facts("ws_gemm.epilogue_exposed"), lambda file: ABOVE(file) or BELOW(file))
    text = kernel_text(setting)
    at = opened(text.code, setting.name) if text is not None else None
    assert text is not None and at is not None
    stops = stops_in_loops(setting, text, at[2])
    one = unneeded(setting, text, at[2], stops)
    assert one is not None and one.together and one.boxes
    assert [text.code[slice(*stops[n].span)] for n in one.stops] == ["named_sync<1>(128 * G);"] * 2


@pytest.mark.parametrize("blocks", [1, 2])
def test_barriers_around_stores_that_nothing_shares_go(blocks: int) -> None:
    one = found(blocks=blocks)
    assert one is not None and one.stops == [0, 1] and one.boxes and one.compared > 0


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("meet(1, 256);", 'asm volatile("barrier.cta.sync 1, 256;" ::: "memory");'),
        ("pass(at(&come[i]), turn);", "while (!over(at(&come[i]), turn)) {}"),
        ("static constexpr int A = 128 * 128, B", "static constexpr uint32_t A = SLOTS > 1 ? 128 * 128 : 0, B"),
    ],
)
def test_however_it_is_written(was: str, now: str) -> None:
    assert was in FUNCTIONS + KERNEL
    one = found(KERNEL.replace(was, now), FUNCTIONS.replace(was, now))
    assert one is not None and one.stops == [0, 1]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        # One group hands the other one something.
        ("float* to = z.out", "if (threadIdx.x < 4) kept[threadIdx.x] = sum[0]; meet(1, 256); sum[1] += kept[0]; "
         "float* to = z.out"),
        # Both store to the same place.
        ("* 256 + threadIdx.x) * 4", "* 256 + threadIdx.x % 128) * 4"),
        # Slots are given back while products may still read them; the kernel is wrong as it is.
        ("done<0>();", "done<1>();"),
        # Products read beyond their slot, into one that is being filled.
        ("matrix(from + Me::A)", "matrix(from + Me::A + 1024)"),
        # Another block's slot is filled before it is given back.
        ("threadIdx.x % 128 < BLOCKS", "threadIdx.x % 128 < 1"),
        # One block alone copies for both: it does not know that the other one's slot was given back.
        ("box(to + Me::A + own * (Me::B / BLOCKS),", "if (own == 0) box(to + Me::A,"),
        # Bytes that do not come, a descriptor that data make, an instruction that nobody reads.
        ("expect(at(&come[i]), Me::SLOT)", "expect(at(&come[i]), Me::A)"),
        ("matrix(from + team * 8192)", "matrix(from + kept[0])"),
        ("done<0>();", 'done<0>(); asm volatile("st.async.b32 [%0], 1, [%1];" :: "r"(from), "r"(from));'),
        # What is stored is multiplied: the proxies need a fence.
        ("done<0>();", "done<0>(); if (threadIdx.x == 0) bytes[i * Me::SLOT] = 0; __syncwarp();"),
    ],
)  # fmt: skip
def test_barriers_stay_where_something_needs_them_or_cannot_be_read(was: str, now: str) -> None:
    assert was in KERNEL
    one = found(KERNEL.replace(was, now))
    assert one is None or ("kept[threadIdx.x]" in now and 1 not in one.stops)
