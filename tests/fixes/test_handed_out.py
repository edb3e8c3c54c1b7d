"""Tables in constant memory: an entry in each lane, handed out by shuffles."""

from __future__ import annotations

import pytest

from kscope.fixes.atomics.reading import read
from kscope.fixes.given.text import Text
from kscope.fixes.local.handed_out import _tables, handed_out
from tests.support.with_sources import changes

TABLE = "__constant__ float levels[8];"


def rewritten(body: str, block: int = 128, table: str = TABLE) -> tuple[str, set[str]] | None:
    code = "__global__ void f(const int* q, float* y, int n, int rows) {\n" + body + "\n}"
    lines = [table, "constexpr int ROWS = 256;", *code.split("\n")]
    kernel = read(Text("f.cu", 3, code), "f", lines)
    assert kernel is not None
    made = handed_out(kernel, _tables(lines)[0], block)
    if made is None:
        return None
    for start, end, new in sorted(made[0], reverse=True):
        code = code[:start] + new + code[end:]
    return " ".join(code[code.index("{") + 1 : -1].split()), made[1]


def test_the_capture_whose_codes_are_sixteen() -> None:
    fix = changes("nf4.constant", "MEM111")[0]
    assert [e.line for e in fix.edits] == [78, 83]
    assert fix.edits[0].becomes.endswith("{\n  const float nf4_codes_of_lane = nf4_codes_values[threadIdx.x % 16];")
    assert "u = __shfl_sync(~0u, nf4_codes_of_lane, a); v = __shfl_sync(~0u, nf4_codes_of_lane, b);" in (
        fix.edits[1].becomes
    )
    assert fix.code.startswith("__device__ const float nf4_codes_values[16] = {-1.f, -0.6961928f,")
    assert fix.code.endswith("0.7229568f, 1.f};")
    assert (fix.proof[0].before, fix.proof[0].after) == (2097152, 0)
    assert changes("nf4.constant", "MEM111")[1].title == "nf4_codes in shared memory"


def test_tables_of_any_length_in_loops_that_warps_leave_together() -> None:
    assert rewritten(
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float s = 0; "
        "for (int r = 0; r < rows; r++) s += levels[q[r * n + i] & 7]; y[i] = s;"
    ) == (
        "const float levels_of_lane = levels[threadIdx.x % 8]; "
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float s = 0; "
        "for (int r = 0; r < rows; r++) s += __shfl_sync(~0u, levels_of_lane, q[r * n + i] & 7); y[i] = s;",
        {"n"},
    )
    assert rewritten(
        "for (int i = blockIdx.x * 128 + threadIdx.x; i < ROWS * 3; i += gridDim.x * 128) { y[i] = levels[q[i]]; }",
        table="__constant__ int levels[20] = {1, 2,\n 3};",
    ) == (
        "const int levels_of_lane = levels_values[threadIdx.x % 32 < 20 ? threadIdx.x % 32 : 0]; "
        "for (int i = blockIdx.x * 128 + threadIdx.x; i < ROWS * 3; i += gridDim.x * 128) "
        "{ y[i] = __shfl_sync(~0u, levels_of_lane, q[i]); }",
        set(),
    )


@pytest.mark.parametrize(
    "body",
    [
        "int i = blockIdx.x * 128 + threadIdx.x; if (q[i] > 3) y[i] = levels[q[i]];",  # the data choose the lanes
        "int i = blockIdx.x * 128 + threadIdx.x; y[i] = q[i] > 3 ? levels[q[i]] : 0;",
        "int i = blockIdx.x * 128 + threadIdx.x; y[i] = q[i] > 3 && levels[q[i]] > 0;",
        "int i = blockIdx.x * 128 + threadIdx.x; for (int r = 0; r < q[i]; r++) y[r] = levels[q[r]];",
        "int i = blockIdx.x * 128 + threadIdx.x; for (int r = threadIdx.x; r < n; r += 5) y[r] = levels[q[r]];",
        "int i = blockIdx.x * 128 + threadIdx.x; if (q[i] < 0) return; y[i] = levels[q[i]];",
        "int i = blockIdx.x * 128 + threadIdx.x; i--; if (i < n) y[i] = levels[q[i]];",
        "int i = blockIdx.x * 128 + threadIdx.x; --i; if (i < n) y[i] = levels[q[i]];",
        "int i = blockIdx.x * 128 + threadIdx.x; i |= 1; if (i < n) y[i] = levels[q[i]];",
        "int i = blockIdx.x * 128 + threadIdx.x; i <<= 1; if (i < n) y[i] = levels[q[i]];",
        "int i = blockIdx.x * 100 + threadIdx.x; if (i < n) y[i] = levels[q[i]];",
        "int i = blockIdx.x * 128 + threadIdx.x; if (i <= n) y[i] = levels[q[i]];",
        "int i = blockIdx.x * 128 + threadIdx.x; if (n) if (q[i]) y[i] = 1; else y[i] = levels[q[i]];",
        "int i = blockIdx.x * 128 + threadIdx.x; for (int r = 0; r < n; r++) { if (q[r] == i) break; "
        "y[i] += levels[q[r]]; }",
        "int i = blockIdx.x * 128 + threadIdx.x; const float* p = levels; y[i] = p[q[i]];",
        "int i = blockIdx.x * 128 + threadIdx.x; const float* p = &levels[4]; y[i] = p[q[i]];",
        "int i = blockIdx.x * 128 + threadIdx.x; int levels[4] = {1, 2, 3, 4}; y[i] = levels[q[i]];",
    ],
)  # fmt: skip
def test_lanes_that_may_be_missing(body: str) -> None:
    assert rewritten(body) is None


def test_blocks_and_tables_that_do_not_fit_a_warp() -> None:
    body = "int i = blockIdx.x * 128 + threadIdx.x; y[i] = levels[q[i]];"
    assert rewritten(body) is not None
    assert rewritten(body, block=100) is None
    assert not _tables(["__constant__ float levels[40];", "__constant__ double fine[8];"])


def test_what_all_lanes_read_alike_stays_a_constant() -> None:
    made = rewritten("int i = blockIdx.x * 128 + threadIdx.x; y[i] = levels[3] + levels[n & 7] * levels[q[i]];")
    assert made is not None
    assert made[0].endswith("y[i] = levels[3] + levels[n & 7] * __shfl_sync(~0u, levels_of_lane, q[i]);")


def test_values_that_the_host_puts_there_are_read_where_they_are() -> None:
    said = "__constant__ float levels[2] = {1, 2};"
    (table,) = _tables([said])
    assert table.values == "{1, 2}"
    (table,) = _tables([said, "void set(float* h) { cudaMemcpyToSymbol(levels, h, 8); }"])
    assert table.values == ""
