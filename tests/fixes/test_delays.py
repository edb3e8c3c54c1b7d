"""Statements that wait for the clock and do nothing else."""

from __future__ import annotations

import pytest

from kscope.fixes.roles.delays import delays
from tests.support.with_sources import changes

FUNCTIONS = """__device__ __forceinline__ void idle(long long from, int ticks) { while (clock64() - from < ticks) {} }
__device__ void rest(unsigned ns) { for (unsigned n = 0; n < ns; n += 100) __nanosleep(100); }
__device__ int until(int ticks) { int n = 0; long long t = clock64(); while (clock64() - t < ticks) n++; return n; }
__device__ void poll(volatile int* flag, int ticks) { while (!*flag && clock64() < ticks) {} }
__device__ void meet(int n) { while (clock64() < n) __syncthreads(); }
__device__ void bump(int n) { while (clock64() < n) total++; }
"""


def found(statement: str) -> list[str]:
    code = f"__global__ void k(float* x, int n, int* flag, Set set) {{\n  int total = 0;\n  {statement}\n}}"
    return [code[slice(*one.span)] for one in delays(code, FUNCTIONS)]


def test_a_capture_whose_producer_waits_on_purpose() -> None:
    (fix,) = [f for f in changes("ws_gemm.produce_exposed", "ASY502") if f.kind == "hoist"]
    (edit,) = fix.edits
    assert "spin(since, w.produce);" in edit.was and "spin" not in edit.becomes
    assert fix.conditions[0].state == "proved" and fix.proof[0].after < fix.proof[0].before


@pytest.mark.parametrize(
    ("statement", "gone"),
    [
        ("idle(clock64(), n);", "idle(clock64(), n);"),
        ("if (set.late) idle(clock64(), set.late * 2);", "if (set.late) idle(clock64(), set.late * 2);"),
        ("{ rest(400); }", "rest(400);"),
        ("while (clock64() < n) {}", "while (clock64() < n) {}"),
    ],
)
def test_what_only_waits(statement: str, gone: str) -> None:
    assert found(statement) == [gone]


@pytest.mark.parametrize(
    "statement",
    [
        "n = until(9);",  # a value comes from it
        "until(9);",
        "poll(flag, 9);",  # another thread ends it
        "meet(9);",
        "bump(9);",
        "idle(clock64(), x[0]);",  # a load
        "idle(clock64(), n++);",
        "if (n > 3) idle(0, n); else x[1] = 2;",
        "while (clock64() < n) total++;",
        "while (flag[0] && clock64() < n) {}",
        "unknown(clock64(), n);",
    ],
)
def test_what_does_more_stays(statement: str) -> None:
    assert found(statement) == []
