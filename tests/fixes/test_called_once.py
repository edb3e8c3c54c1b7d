"""A function that is most of a kernel's code, put in several times, is called instead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kscope.fixes.cases.called_once import fixes
from kscope.model.contract.fixes import Fix

HEAD = "__device__ __forceinline__ float weigh(float x, const float* w, int n) {"
SOURCE = f"""#include "common.h"
__constant__ float factors[8];
{HEAD}
  float s = x;
  for (int i = 0; i < n; i++) s = s * w[i] + factors[i];
  return s;
}}
__global__ void run(float* out, const float* w, int n) {{
  float own[4]; float x = out[threadIdx.x];
  float a = weigh(x + 1, w, n), b = weigh(x - 1, w, n);
  out[threadIdx.x] = a - b + weigh(a, w, 2);
}}"""


class Code(list[Any]):
    def ran(self, indices: range) -> list[int]:
        return list(indices)


def made(source: str = SOURCE, inside: int = 1200, beside: int = 100) -> list[Fix]:
    """inside, beside: instructions of the function's line and of the kernel's."""
    lines = source.split("\n")
    at = next(n for n, line in enumerate(lines, 1) if "s * w[i]" in line)
    kernel = next(n for n, line in enumerate(lines, 1) if "float own" in line)
    rows = [at] * inside + [kernel] * beside
    code = Code(SimpleNamespace(file="k.cu", line=row, inlined=()) for row in rows)
    setting = SimpleNamespace(
        code=code, lines=lambda file: lines, name="run", sites=lambda i: [(code[i].file, code[i].line)]
    )
    return fixes(SimpleNamespace(setting=setting, finding=SimpleNamespace(estimate=None)))  # type: ignore[arg-type]


def test_three_copies_become_one_that_is_called() -> None:
    (fix,) = made()
    (edit,) = fix.edits
    assert edit.line == 3
    assert edit.becomes == HEAD.replace("__forceinline__", "inline __noinline__")
    assert fix.title == "weigh as one function that is called, instead of 3 copies"
    assert fix.proof[0].before == 1300 * 16
    assert fix.proof[0].after == 500 * 16
    assert any(c.holds == "the last bit of results does not matter" and c.state == "check" for c in fix.conditions)


def test_integers_are_the_same_to_the_last_bit() -> None:
    whole = SOURCE.replace("float weigh(float x, const float* w", "unsigned weigh(int x, const unsigned* w")
    (fix,) = made(whole)
    assert not any("last bit" in c.holds for c in fix.conditions)


@pytest.mark.parametrize("head", ["__device__ static inline", "static __inline__ __device__", "static __device__"])
def test_a_function_of_its_file_stays_one(head: str) -> None:
    (fix,) = made(SOURCE.replace("__device__ __forceinline__", head))
    assert "__noinline__" in fix.edits[0].becomes
    assert "inline" not in fix.edits[0].becomes.replace("__noinline__", "")
    assert "static" in fix.edits[0].becomes


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("float x, const", "float& x, const"),  # a variable would have to have an address
        ("weigh(a, w, 2)", "weigh(a, &x, 2)"),
        ("weigh(a, w, 2)", "weigh(a, own, 2)"),
        ("weigh(a, w, 2)", "weigh(a, own + 1, 2)"),
        ("__forceinline__", "__noinline__"),
        ("a - b + weigh(a, w, 2)", "a - b + w[2]"),  # see below
    ],
)
def test_what_cannot_be_passed_in_registers_is_put_in(was: str, becomes: str) -> None:
    found = made(SOURCE.replace(was, becomes))
    assert [f.title for f in found] == (
        ["weigh as one function that is called, instead of 2 copies"] if becomes.endswith("w[2]") else []
    )


def test_a_template_is_no_one_function() -> None:
    assert not made(SOURCE.replace(HEAD, f"template <int N> {HEAD}"))


def test_a_line_of_two_functions_is_left() -> None:
    assert not made(SOURCE.replace(HEAD, "__device__ int one() { return 1; } " + HEAD))


def test_only_most_of_the_code_is_worth_a_call() -> None:
    assert not made(inside=1200, beside=1300)
    assert not made(inside=300, beside=100)  # fits the caches
    assert not made(SOURCE.replace("b = weigh(x - 1, w, n)", "b = x").replace("weigh(a, w, 2)", "a"))  # one copy


def test_a_function_that_is_defined_twice_is_not_known() -> None:
    other = HEAD.replace("int n", "long n") + " return x; }\n"
    assert not made(SOURCE.replace("__global__", other + "__global__"))
