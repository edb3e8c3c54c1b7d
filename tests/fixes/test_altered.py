"""Captures' kernels with another statement or another type: what no longer follows is not printed."""

from __future__ import annotations

import pytest

from kscope.fixes.local import unrolled
from kscope.fixes.memory import aggregate, blocked, lane_mapping, records, rows, staged
from kscope.fixes.work import elected, grid, several, shuffles
from tests.support.altered import Capture, told

ADDED = "atomicAdd(&out[key[i] & 63], val[i]);"
COUNTED = ("groupby_f64.global", "MEM109", aggregate.fixes)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (ADDED, "atomicAdd(&out[128 | key[i] & 63], val[i]);"),  # the mask is of the right side alone
        (ADDED, "atomicAdd(&out[key[i] < 9 ? 200 : key[i] & 63], val[i]);"),
        (ADDED, "atomicAdd(&out[blockIdx.x & 63], val[i]);"),  # blocks are others then
        (ADDED, "atomicAdd(&out[key[i] & 63], blockIdx.x);"),
        (ADDED, f"{ADDED} val[blockIdx.x] = 3;"),
        (ADDED, f"{ADDED} else val[0] = 3;"),
        ("int i = blockIdx", "val[blockIdx.x] = 1; int i = blockIdx"),
        ("int i = blockIdx", "val[threadIdx.x] += 1; int i = blockIdx"),
        ("double* __restrict__ out", "unsigned long long int* __restrict__ out"),  # no int
    ],
)
def test_a_kernel_that_does_more_than_add(was: str, becomes: str) -> None:
    assert told(*COUNTED) and not told(*COUNTED, (was, becomes))


def test_an_array_by_the_name_of_what_is_added() -> None:
    head = "double* __restrict__ out, int n) {\n  int i"
    assert not told(*COUNTED, (head, head.replace("out", "sum")), (ADDED, ADDED.replace("out", "sum")))


SUM, STORE, START = "s += a[j] * x[col[j]];", "  y[r] = s;", "int j = start[r];"
SPARSE = ("csr.thread", "MEM101", rows.fixes)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (SUM, "{ s += a[j]; q += s * x[col[j]]; }"),  # what the rounds before have added
        (SUM, "{ if (s < 10) s += a[j]; }"),
        (SUM, "{ float v = a[k++]; s += v; }"),  # a place that goes on from round to round
        (SUM, "{ float v = a[j] + s; s += v; }"),
        (SUM, "{ s += a[j]; seen[r * 8 + j] += 3; }"),
        (SUM, "{ s += a[j]; both.x += 2; }"),
        (SUM, "{ s += a[j]; bits <<= 1; }"),
        (SUM, "{ s += a[j]; if (j) put(list, j); }"),
        (STORE, f"{STORE} atomicAdd(y, s);"),  # 32 lanes of it
        (STORE, f"{STORE} x[r] += s;"),
        (STORE, f"{STORE} x[r]++;"),
        (STORE, f"{STORE} ++x[r];"),
        (STORE, f"{STORE} *x = s;"),
        (STORE, f"{STORE} if (s < 0) *(x + 1) = s;"),
        (STORE, f"{STORE} x[r].y = s;"),
        (STORE, f"{STORE} put(x, s);"),
        (STORE, "  y[r] = s, x[r] = s;"),
        (STORE, f"  for (int k = 3; k--;) s += k;{STORE}"),
        ("float s = 0;", "float s = 0; x += blockIdx.x * 9;"),  # 32 times as many blocks
    ],
)
def test_a_row_of_which_lanes_would_do_something_twice(was: str, becomes: str) -> None:
    assert told(*SPARSE) and not told(*SPARSE, (was, becomes))


@pytest.mark.parametrize(
    ("was", "becomes", "line"),
    [
        (START, "int j = start[r] & ~3;", "int j = (start[r] & ~3) + threadIdx.x % 32;"),
        (START, "int j = r ? start[r] : 0;", "int j = (r ? start[r] : 0) + threadIdx.x % 32;"),
        (STORE, "  if (s > 0) y[r] = s; else y[r] = 3;",
         "  if (s > 0) { if (threadIdx.x % 32 == 0) y[r] = s; } else if (threadIdx.x % 32 == 0) y[r] = 3;"),
        (STORE, "  y[r] = (s + 1) * s;", "  if (threadIdx.x % 32 == 0) y[r] = (s + 1) * s;"),
    ],
)  # fmt: skip
def test_rows_by_warps_in_other_words(was: str, becomes: str, line: str) -> None:
    (fix,) = told(*SPARSE, (was, becomes))
    assert any(line in e.becomes for e in fix.edits)


BITONIC = ("bitonic1024.barriers", "LAT304", shuffles.fixes)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("t = threadIdx.x, v", "t = threadIdx.x + 32, v"),  # partners are other threads then
        ("t = threadIdx.x, v", "t = threadIdx.x / 2, v"),
        ("__shared__ int s[1024]", "__shared__ short s[1024]"),  # memory holds less than the register
        ("else { s[t] = v;", "else { if (t & 1) s[t] = v;"),
        ("bool up =", "t ^= 1; bool up ="),
    ],
)
def test_an_exchange_that_is_another_one(was: str, becomes: str) -> None:
    assert told(*BITONIC) and not told(*BITONIC, (was, becomes))


LBM = ("lbm.directions", "MEM105", unrolled.fixes)
OVER = "for (int k = 0; k < nq; k++) {"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (OVER, "for (int k = 0; k < nq && keep[k] > 0; k++) {"),  # ends at the first that is not
        (OVER, f"{OVER} if (k < 9) m[k] = 3;"),  # goes beyond the array
        (OVER, f"{OVER} if (keep[k] < 0) continue;"),
    ],
)
def test_a_loop_that_ends_elsewhere(was: str, becomes: str) -> None:
    assert any("k < 9" in e.becomes for fix in told(*LBM) for e in fix.edits)
    edits = [e.becomes for fix in told(*LBM, (was, becomes)) for e in fix.edits]
    assert not any("(int k = 0; k < 9; k++) if (k < nq) {" in e or "&&" in e for e in edits)


def test_elements_that_are_read_are_no_arrays() -> None:
    body = "{ float first = x[4], v[9], w[8] = {y[3]}; if (n) { int u[4]; } else { int u[8]; } }"
    assert unrolled.lengths(body, {}) == {"v": 9, "w": 8}


NORM = ("layernorm_bf16.scalar", "MEM102", blocked.fixes)
BYTES = ("fp8_quant.strided", "MEM102", blocked.fixes)


@pytest.mark.parametrize(
    ("capture", "swaps"),
    [
        # a value of the thread's place, not of the element's
        (BYTES, [("v[j] * r, __NV", "v[j] * r * u, __NV"), ("% 32; float", "% 32; float u = s[lane]; float")]),
        (BYTES, [("v[j] * r, __NV", "v[j] * r * u, __NV"),
                 ("% 32; float", "% 32, half = lane / 2; float u = 2; u *= half; float")]),
        # an array's element that a value is made of, and the number of the round
        (NORM, [("* r * __bfloat", "* r * bias[k] * __bfloat"), ("q = 0;", "q = 0; float b = bias[0];")]),
        (NORM, [("* r * __bfloat", "* r * w[k] * __bfloat")]),  # of all threads
    ],
)  # fmt: skip
def test_elements_that_meet_values_of_another_place(capture: Capture, swaps: list[tuple[str, str]]) -> None:
    assert told(*capture) and not told(*capture, *swaps)


@pytest.mark.parametrize(
    ("capture", "was", "becomes"),
    [
        (("calibrate.block128", "LAT301", grid.taller), "__syncthreads();",
         "__syncthreads(); __shared__ float mine[128]; mine[threadIdx.x] = 3;"),
        (("calibrate.block128", "LAT301", grid.taller), "__syncthreads();",
         "__syncthreads(); __shared__ float each[4]; for (int w = 0; w < blockDim.x / 32; w++) each[w] = 3;"),
        (("calibrate.block128", "LAT301", grid.taller), "__launch_bounds__(1024)", "__launch_bounds__(CT)"),
        (("gravity.blocks270", "GRD402", grid.waves), "int t = blockIdx.x",
         "__shared__ float mine[512]; mine[threadIdx.x] = 3; int t = blockIdx.x"),
        (("gravity.blocks270", "GRD402", grid.waves), "int t = blockIdx.x", "int w = B / 32; int t = blockIdx.x"),
        (("small_grid.slow", "GRD401", grid.larger), "__global__ void block_reduce",
         "\n#define PART out[blockIdx.x]\n__global__ void block_reduce(int PART) {}"),
        (("taper.one", "GRD405", several.fixes), "unsigned i =", "const auto b = blockIdx; unsigned i = b.x +"),
        (("taper.one", "GRD405", several.fixes), "unsigned i =", "w.first += blockIdx.x; unsigned i ="),
        (("gemm_f32.naive", "MEM101", lane_mapping.fixes), "float sum = 0;",
         "const auto t = threadIdx; float sum = t.x;"),
        (("particles.aos", "MEM101", records.fixes), "0.5f * p[i].mass", "0.5f * ((const float4*)&p[i].vx)->w"),
        (("chol8.direct", "MEM101", staged.fixes), "threadIdx.x; float a[36]",
         "threadIdx.x, k = x[m * 64 + 3]; float a[36]"),
        (("tile_sum.lanes", "LAT310", elected.fixes), "(p + (size_t)k * TILE + e)", "(p + (size_t)k * TILE + e * 4)"),
    ],
)  # fmt: skip
def test_what_another_launch_or_another_place_would_change(capture: Capture, was: str, becomes: str) -> None:
    assert told(*capture) and not told(*capture, (was, becomes))
