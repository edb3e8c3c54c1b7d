"""Sums of a thread in shared memory that become registers: which are nobody else's, by the text."""

from __future__ import annotations

import pytest

from kscope.fixes.memory.kept import sums

DECLARED = "extern __shared__ float space[]; float *tile = space, *sum = space + 128;"
INDEX = "int t = threadIdx.x, c = blockIdx.x * 256 + t;"


def taken(*lines: str, declared: str = DECLARED, index: str = INDEX) -> list[tuple[str, str]]:
    text = "__global__ void k(const float* x, float* y, int n) {\n" + "\n".join([declared, index, *lines]) + "\n}"
    return [(name, kind) for name, kind, _ in sums(text)]


ADDED = "for (int k = 0; k < n; k++) sum[t] += tile[k];"


def test_sums_of_a_thread() -> None:
    assert taken("sum[t] = 0;", ADDED, "y[c] = sum[t];") == [("sum", "float")]
    assert taken("for (int r = 0; r < n; r++) {", "sum[t] = x[r];", ADDED, "if (r>sum[t]) y[r] = sum[t]; }")
    declared = DECLARED.replace("float *tile = space, *sum = space + 128", "unsigned int* sum = space + 128")
    assert taken("sum[t] = 0;", "sum[t] -= 1;", declared=declared) == [("sum", "unsigned int")]


@pytest.mark.parametrize(
    "lines",
    [
        ("if (c < n) sum[t] = 0;", ADDED),  # no declaration may stand there
        ("if (c < n) { sum[t] = 0; }", ADDED),  # which ends with its block
        ("for (int r = 0; r < n; r++) { sum[t] = 0; sum[t] += x[r]; }", "y[c] = sum[t];"),
        ("sum[t] = sum[t] * 2;", ADDED),  # made of what was there
        ("sum[t] = 0, tile[t] = 1;", ADDED),
        ("sum[t] = 0;", "atomicAdd(&sum[t], 1.f);", ADDED),
        ("sum[t] = 0;", ADDED, "t ^= 1;", "y[c] = sum[t];"),  # another's element
        ("sum[t] = 0;", ADDED, "__syncthreads();", "y[c] = space[n];"),  # by the memory's own name
        ("sum[t] = 0;", ADDED, "float* all = space + 128;", "y[c] = all[n];"),
        ("sum[t] = 0;", ADDED, "float* all = tile + 128;", "y[c] = all[n];"),
        ("sum[t] = 0;", ADDED, "whole(space);"),
        ("float sum_own = 1;", "sum[t] = 0;", ADDED),
    ],
)
def test_what_stays(lines: tuple[str, ...]) -> None:
    assert taken(*lines) == []


@pytest.mark.parametrize("kind", ["unsigned char", "volatile float", "unsigned long long", "float2"])
def test_types_that_no_register_is_declared_of(kind: str) -> None:
    declared = f"extern __shared__ {kind} space[]; {kind}* sum = space + 128;"
    assert taken("sum[t] = 0;", "sum[t] += 3;", declared=declared) == []
