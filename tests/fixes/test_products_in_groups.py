"""Products of wgmma that are waited for one by one."""

from __future__ import annotations

import pytest

from kscope.fixes.given.text import loops
from kscope.fixes.pipeline import batched
from kscope.fixes.pipeline.batched import Rounds, rounds
from tests.support.with_sources import changes

AROUND = """__device__ void open() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void close() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ void drained() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
__device__ void product(float (&d)[64], uint64_t a, uint64_t b) { asm volatile("wgmma.mma_async ..;" : "+f"(d[0])); }
__device__ void both(float (&d)[64]) { d[0] = 0; asm volatile("wgmma.mma_async ..;" : "+f"(d[0])); }
"""
CODE = """__global__ void f(float* out, int n) {
  for (int step = 0; step < n; step++) { open(); product(d, da + step * 2, db); close(); drained<0>(); }
}"""


def read(code: str, known: dict[str, int] | None = None) -> Rounds | None:
    return next((r for one in loops(code) if (r := rounds(code, one, AROUND, known or {})) is not None), None)


def test_the_capture_that_waits_for_each_has_groups_and_a_rest() -> None:
    (fix,) = changes("wgmma_flight.each", "CMP209")
    edit, *others = fix.edits
    assert edit.line == 562 and not any(e.becomes.strip() for e in others)
    assert "for (; i_first + (rounds - 1) * BATCH < iters; i_first += rounds * BATCH) {" in edit.becomes
    assert "for (int i = i_first; i < iters; i += BATCH) {" in edit.becomes
    assert fix.parameters == {"products": 16} and fix.price is not None
    assert [c.state for c in fix.conditions] == ["assumed", "proved", "proved", "assumed", "check"]


def test_rounds_whose_products_ask_for_their_place() -> None:
    one = read(CODE)
    assert one is not None and (one.fence, one.behind, one.each) == ("open();", "close(); drained<0>();", 1)
    new = batched._written(one, batched._few(one, {}))
    assert "const int step = step_first + round * 1;" in new and "product(d, da + step * 2, db);" in new
    assert batched._played() > 1000


def test_few_rounds_are_one_group() -> None:
    one = read(CODE.replace("step < n", "step < 64 / K"), {"K": 16})
    assert one is not None and batched._few(one, {"K": 16}) == 4
    new = batched._written(one, 4)
    assert new.startswith("{ open();\n") and new.endswith("close(); drained<0>(); }") and "_first" not in new


def test_assembly_and_names_of_cutlass() -> None:
    code = CODE.replace("open()", 'asm volatile("wgmma.fence.sync.aligned;\\n" ::: "memory")')
    code = code.replace("close()", "cutlass::arch::warpgroup_commit_batch()").replace("drained", "warpgroup_wait")
    assert read(code) is not None


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("drained<0>()", "drained<1>()"),
        ("drained<0>();", "drained<0>(); d[0] *= 2;"),
        ("product(d, da + step * 2, db);", "product(d, da++, db);"),
        ("product(d, da + step * 2, db);", "both(d);"),  # it does something else besides
        ("product(d, da + step * 2, db);", "unseen(d);"),
        ("open();", "open(); __syncthreads();"),
        ("close();", ""),
        ("step < n", "step < n && step < m"),
        ("step++", "step *= 2"),
        ("product(d, da + step * 2, db);", "for (int k = 0; k < m; k++) product(d, da, db);"),  # how many is not known
        ("  for (int step", "  #pragma unroll 1\n  for (int step"),
    ],
)
def test_other_rounds_are_left_alone(was: str, becomes: str) -> None:
    assert was in CODE
    assert read(CODE.replace(was, becomes, 1)) is None
