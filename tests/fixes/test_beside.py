"""Lanes that stand for threads side by side: one access for what each of them loads or stores."""

from __future__ import annotations

import pytest

from kscope.fixes.given.grammar import Node
from kscope.fixes.rows import syntax
from kscope.fixes.rows.beside import Finder
from kscope.fixes.rows.compared import Same, Side, same
from kscope.fixes.rows.function import Function, _read
from kscope.fixes.rows.inlined import callees, inlined
from kscope.fixes.rows.own import in_registers
from kscope.fixes.rows.trees import THREAD
from tests.support.with_sources import changes

BLOCK, LANES, ROWS = 128, 32, 2
NORM = """__device__ float all_of(float v, float* part) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  float all = 0; for (int k = 0; k < 4; k++) all += part[k];
  __syncthreads();
  return all;
}
__global__ void norm(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int n) {
  __shared__ float part[4];
  float v = threadIdx.x < n ? x[blockIdx.x * n + threadIdx.x] : 0.f;
  float mean = all_of(v, part) / n, off = v - mean, by = rsqrtf(all_of(off * off, part) / n + 1e-5f);
  if (threadIdx.x < n) y[blockIdx.x * n + threadIdx.x] = off * by * w[threadIdx.x];
}"""
FIXED = NORM.replace("float v = threadIdx.x < n ? x[blockIdx.x * n + threadIdx.x] : 0.f", "float v = row[t]")
FIXED = FIXED.replace("  float v", "  int t = threadIdx.x; const float* row = x + blockIdx.x * 128;\n  float v")
FIXED = FIXED.replace("if (threadIdx.x < n) y[blockIdx.x * n + threadIdx.x]", "y[blockIdx.x * 128 + t]")


def function(code: str) -> Function:
    lines = code.split("\n")
    number = next(n for n, line in enumerate(lines, 1) if "__global__" in line)
    made = _read("a.cu", lines, "norm", number, (), None)
    assert made is not None
    return made


def written(code: str) -> tuple[str, Same] | None:
    fn = function(code)
    body = syntax.tree(fn.body)
    assert body is not None
    called = callees(code.split("\n"), body)
    found = in_registers(fn, BLOCK, LANES, ROWS, BLOCK // LANES, {}, called, beside=True)
    if found is None:
        return None
    old = [Side(inlined(fn.body, called), (ROWS * n, 1), (BLOCK, 1), {}) for n in (1, 2)]
    new = [Side(inlined(found.text[fn.opened :], called), (n, 1), (LANES, ROWS), {}) for n in (1, 2)]
    played = same(fn, old, new, {})
    return (found.text, played) if played is not None else None


def test_a_capture_of_two_byte_numbers_takes_four_at_once() -> None:
    (fix,) = [f for f in changes("softmax128.block", "GRD405") if f.kind == "lane_mapping"]
    text = fix.edits[0].becomes
    assert "*(uint2 *)x_of = *(const uint2 *)&x[row_n * n + 4 * threadIdx.x];" in text
    assert "if (4 * threadIdx.x < n) *(uint2 *)&y[row_n * n + 4 * threadIdx.x] = *(uint2 *)y_to;" in text
    fast, _, other = text.partition("  } else {")
    assert "if (n % 4 == 0) {" in fast and "in[part_n] = 4 * threadIdx.x < n;" in fast  # all of a lane's, or none
    assert "x[at[part_n]]" in other and "thread_n = threadIdx.x + 32 * part_n;" in other  # rows at any place
    assert any(c.holds == "x, y at multiples of 8 bytes" for c in fix.conditions)


def test_rows_of_any_length_with_weights() -> None:
    found = written(NORM)
    assert found is not None and found[1].sizes == 3 and found[1].near
    assert "*(float4 *)x_of = *(const float4 *)&x[row_n * n + 4 * threadIdx.x];" in found[0]
    assert "*(float4 *)w_of = *(const float4 *)&w[4 * threadIdx.x];" in found[0] and found[0].count("n % 4 == 0") == 1


def test_rows_of_a_number_and_pointers_to_them() -> None:
    found = written(FIXED)
    assert found is not None and "% 4" not in found[0]
    assert "*(float4 *)x_of = *(const float4 *)&row[4 * threadIdx.x];" in found[0]
    assert "*(float4 *)&y[row_n * 128 + 4 * threadIdx.x] = *(float4 *)y_to;" in found[0]


def test_a_signed_number_of_a_thread_stays_one() -> None:
    code = NORM.replace("  float v", "  const int t = threadIdx.x; bool in = t < n;\n  float v")
    code = code.replace("threadIdx.x < n", "in")
    found = written(code)
    assert found is not None and "in[part_n] = (int)(4 * threadIdx.x) < n;" in found[0]
    assert "if ((int)(4 * threadIdx.x) < n) *(float4 *)x_of = " in found[0]


@pytest.mark.parametrize(
    ("was", "becomes", "array"),
    [
        ("x[blockIdx.x * n + threadIdx.x] :", "x[blockIdx.x * n + 2 * threadIdx.x] :", "x"),  # not side by side
        ("x[blockIdx.x * n + threadIdx.x] :", "x[blockIdx.x * n + threadIdx.x + 1] :", "x"),  # one further on
        ("x[blockIdx.x * n + threadIdx.x] :", "x[blockIdx.x * 6 + threadIdx.x] :", "x"),  # rows at odd places
        ("threadIdx.x < n ? x", "threadIdx.x < n - 1 ? x", "x"),  # ends anywhere
        ("threadIdx.x < n ? x", "threadIdx.x < n && mean0 > 0 ? x", "x"),
        ("threadIdx.x < n ? x[blockIdx.x * n + threadIdx.x] : 0.f", "threadIdx.x < n ? 0.f : x[threadIdx.x]", "x"),
        ("if (threadIdx.x < n) y", "if (threadIdx.x < n && v > 0) y", "y"),
        ("y[blockIdx.x * n + threadIdx.x] =", "y[blockIdx.x * n + n - 1 - threadIdx.x] =", "y"),
    ],
)
def test_others_are_taken_one_by_one(was: str, becomes: str, array: str) -> None:
    assert NORM.count(was) == 1
    code = NORM.replace(was, becomes).replace("int n)", "int n, float mean0)" if "mean0" in becomes else "int n)")
    found = written(code)
    assert found is None or f"4 *)&{array}[" not in found[0]


def section(text: str) -> tuple[list[str], list[str]]:
    """Arrays of which a section loads, and stores to, neighbours."""
    tree = syntax.tree(f"{{{text}}}")
    assert tree is not None
    pointers = {"x": "float", "y": "float", "z": "float"}
    made: dict[str, Node] = {"t": THREAD}
    one = Finder(4, made, {}, pointers, {"n"}, set()).section(tree[1], ("name", "part_n"))
    return [a.array for a in one.loads], [a.array for a in one.stores]


@pytest.mark.parametrize(
    ("text", "loads", "stores"),
    [
        ("float v = x[t]; y[t] = v;", ["x"], ["y"]),
        ("float v = x[t]; y[t] = v; z[t] = v + 1;", ["x"], ["y", "z"]),
        ("y[t] = x[t];", ["x"], ["y"]),
        ("y[t] = 1; float v = x[t]; z[t] = v;", [], []),  # a load behind a store
        ("y[t] = 1; y[t] = x[t];", [], []),
        ("y[t] += x[t];", ["x"], []),
        ("float v = x[t]; y[t] = v; float u = v * 2;", ["x"], []),
        ("float v = t < n ? x[t] : 0, u = x[t];", [], []),  # asked for once, and once not
        ("for (int j = 0; j < n; j++) v += x[t];", [], []),
    ],
)
def test_loads_come_first_and_stores_last(text: str, loads: list[str], stores: list[str]) -> None:
    assert section(text) == (loads, stores)
