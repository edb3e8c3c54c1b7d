"""Barriers of a block among warps with roles, which mbarriers make needless or do not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import Text
from kscope.fixes.roles.lockstep import stops_in_loops, unneeded
from kscope.fixes.roles.texts import opened
from kscope.model.kernel import Launch
from tests.support.with_sources import changes

FUNCTIONS = r"""
__device__ __forceinline__ uint32_t addr(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ void make(uint32_t m, int n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
    :: "r"(m), "r"(n)); }
__device__ void signal(uint32_t m) {
  asm volatile("{\n.reg .b64 s;\nmbarrier.arrive.shared::cta.b64 s, [%0];\n}"
    :: "r"(m) : "memory"); }
__device__ void promise(uint32_t m, uint32_t b) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
    :: "r"(m), "r"(b) : "memory"); }
__device__ bool attempt(uint32_t m, uint32_t p) {
  uint32_t ok;
  asm volatile("{\n.reg .pred P;\nmbarrier.try_wait.parity.shared::cta.b64 P, [%1], %2;\nselp.b32 %0, 1, 0, P;\n}"
    : "=r"(ok) : "r"(m), "r"(p) : "memory");
  return ok;
}
__device__ void await(uint32_t m, uint32_t p) { while (!attempt(m, p)) { __nanosleep(20); } }
__device__ void fetch(uint32_t to, const float* from, uint32_t n, uint32_t m) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
    :: "r"(to), "l"(from), "r"(n), "r"(m) : "memory");
}
__device__ void together(int n) {
  asm volatile("bar.sync 2, %0;"
    :: "r"(n) : "memory"); }
constexpr int SLOTS = 2, PIECE = 64;
"""
KERNEL = r"""
__global__ void total(const float* __restrict__ in, float* __restrict__ out, int pieces) {
  __shared__ float slot[SLOTS][PIECE]; __shared__ uint64_t come[SLOTS], gone[SLOTS]; __shared__ float kept[32];
  int role = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) { for (int i = 0; i < SLOTS; i++) { make(addr(&come[i]), 1); make(addr(&gone[i]), 2); } }
  __syncthreads();
  if (role == 0) {
    if (lane == 0) {
      int i = 0; uint32_t turn = 1;
      for (int p = blockIdx.x; p < pieces; p += gridDim.x) {
        await(addr(&gone[i]), turn);
        promise(addr(&come[i]), PIECE * 4);
        fetch(addr(&slot[i][0]), in + p * PIECE, PIECE * 4, addr(&come[i]));
        if (++i == SLOTS) { i = 0; turn ^= 1; }
      }
    }
  } else {
    float sum = 0; int i = 0; uint32_t turn = 0;
    for (int p = blockIdx.x; p < pieces; p += gridDim.x) {
      await(addr(&come[i]), turn);
      sum += slot[i][(role - 1) * 32 + lane];
      __syncwarp();
      if (lane == 0) signal(addr(&gone[i]));
      if (++i == SLOTS) { i = 0; turn ^= 1; }
      together(64);
    }
    out[blockIdx.x * 64 + (role - 1) * 32 + lane] = sum;
  }
}
"""

def left_out(kernel: str, functions: str = FUNCTIONS) -> list[str]:
    """Statements that nothing needs."""
    lines = (functions + kernel).split("\n")
    first = next(n for n, line in enumerate(lines, 1) if "__global__" in line)
    code = SimpleNamespace(program=SimpleNamespace(instructions=[SimpleNamespace(file="k.cu")]))
    launch = Launch((4, 1, 1), (96, 1, 1), (0, 0, 0), 32, 0, 0, None)
    setting = Setting(code, lambda file: lines, launch, "total", instance="total(const float *, float *, int)")  # type: ignore[arg-type]
    text = Text("k.cu", first, "\n".join(lines[first - 1 :]))
    at = opened(text.code, "total")
    assert at is not None
    stops = stops_in_loops(setting, text, at[2])
    found = unneeded(setting, text, at[2], stops) if stops else None
    return [text.code[slice(*stops[n].span)] for n in found.stops] if found is not None else []


def test_a_capture_whose_producer_keeps_step_runs_ahead() -> None:
    (fix,) = [f for f in changes("ws_proj.lockstep", "ASY502") if f.kind == "fence"]
    assert [(e.was.strip(), e.becomes) for e in fix.edits] == [
        ('if (LOCKSTEP) asm volatile("bar.sync 1, 160;" ::: "memory");', "")
    ] * 2
    assert {c.state for c in fix.conditions[:2]} == {"proved"}
    assert fix.proof[0].after < fix.proof[0].before / 10


def test_a_barrier_of_consumers_in_each_round_goes() -> None:
    assert left_out(KERNEL) == ["together(64);"]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("together(64);", 'asm volatile("barrier.cta.sync 3, 64;" ::: "memory");'),
        ("SLOTS = 2", "SLOTS = 3"),
        ("await(addr(&come[i]), turn);", "if (lane == 0) await(addr(&come[i]), turn); __syncwarp();"),
        ("while (!attempt(m, p)) { __nanosleep(20); }", "uint32_t done = 0; while (!done) done = attempt(m, p);"),
    ],
)
def test_however_it_is_written(was: str, now: str) -> None:
    assert was in FUNCTIONS + KERNEL
    (one,) = left_out(KERNEL.replace(was, now), FUNCTIONS.replace(was, now))
    assert "64" in one


@pytest.mark.parametrize(
    ("was", "now"),
    [
        # What a warp has stored another one loads behind the barrier.
        ("sum += slot[i][(role - 1) * 32 + lane];",
         "if (role == 1) kept[lane] = slot[i][lane]; together(64); if (role == 2) sum += kept[lane];"),
        # One warp alone says that the slot was read: the barrier in front of it speaks for the other.
        ("__syncwarp();\n      if (lane == 0) signal(addr(&gone[i]));",
         "together(64);\n      if (role == 1 && lane == 0) { signal(addr(&gone[i])); signal(addr(&gone[i])); }"),
        # Lanes say that they have read before the others have.
        ("      __syncwarp();\n", ""),
        # The slot is given back before it is read.
        ("await(addr(&come[i]), turn);\n      sum",
         "await(addr(&come[i]), turn);\n      if (lane == 0) signal(addr(&gone[i]));\n      sum"),
        # Another phase than the one that has come.
        ("turn = 0;", "turn = 1;"),
        # Data decide how often a warp comes to the barrier.
        ("together(64);", "if (sum > 0) together(64);"),
        # A function whose text is not here, assembly that nobody reads.
        ("__syncwarp();", "__syncwarp(); elsewhere(slot[i]);"),
        ("__syncwarp();", '__syncwarp(); asm volatile("red.async.shared.s32 [%0], 1;" :: "r"(addr(&kept[0])));'),
        # Bytes that are promised and do not come: it never ends.
        ("promise(addr(&come[i]), PIECE * 4);", "promise(addr(&come[i]), PIECE * 8);"),
        # Another block is told that the block's results are there.
        ("together(64);",
         "out[blockIdx.x * 64 + threadIdx.x - 32] = sum; together(64); if (lane == 0) atomicAdd(&out[0], 1);"),
        ("together(64);", "out[blockIdx.x * 64 + threadIdx.x - 32] = sum; together(64); __threadfence();"),
        # The compiler may move what is loaded over assembly that says nothing of memory.
        ("signal(addr(&gone[i]))", 'asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(addr(&gone[i])))'),
        ("signal(addr(&gone[i]))",
         'asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" :: "r"(addr(&gone[i])) : "memory")'),
        # What is copied is written.
        ("together(64);", "together(64); const_cast<float*>(in)[(p + 1) * PIECE + threadIdx.x - 32] = sum;"),
        ("together(64);", "together(64); in[(p + gridDim.x) * PIECE + threadIdx.x - 32] = sum;"),
        # A try that is not made again, or that counts.
        ("await(addr(&come[i]), turn);", "if (!attempt(addr(&come[i]), turn)) continue;"),
        ("await(addr(&come[i]), turn);", "while (!attempt(addr(&come[i]), turn)) sum += 1;"),
        # Another block does something else.
        ("await(addr(&come[i]), turn);", "await(addr(&come[i]), blockIdx.x == 3 ? 0 : turn);"),
        # Stores of all warps to one place, which the barrier puts in an order.
        ("together(64);", "together(64); out[lane] = sum;"),
    ],
)  # fmt: skip
def test_a_barrier_stays_where_something_needs_it_or_cannot_be_read(was: str, now: str) -> None:
    assert was in KERNEL
    changed = KERNEL.replace(was, now)
    assert not any("together" in one and "64" in one for one in left_out(changed)) or changed.count("together") > 1
    if changed.count("together") > 1:  # the one that is needed stays
        assert len(left_out(changed)) < changed.count("together(64)")
