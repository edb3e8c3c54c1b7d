"""A loop whose rounds no instruction cache holds is written out as far as one does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kscope.fixes.cases.rounds_fewer import decided, fitting, fixes, rounds
from kscope.fixes.given.text import loops
from kscope.model.contract.fixes import Fix

SOURCE = """#define ROUNDS 1000
__global__ void run(float* out, const float* w, int n) {
  float x = out[threadIdx.x], y = 1;
  for (int k = 0; k < n; k++) {
    #pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
      x = x * 0.99f + w[i];
      y = y * x + 0.5f;
    }
  }
  out[threadIdx.x] = x + y;
}"""


class Code(list[Any]):
    def ran(self, indices: range) -> list[int]:
        return list(indices)


def made(source: str = SOURCE, inside: int = 3000, beside: int = 50) -> list[Fix]:
    lines = source.split("\n")
    at = next(n for n, line in enumerate(lines, 1) if "0.99f" in line)
    outside = next(n for n, line in enumerate(lines, 1) if "float x =" in line)
    code = Code(SimpleNamespace(file="k.cu", line=row, inlined=()) for row in [at] * inside + [outside] * beside)
    setting = SimpleNamespace(
        code=code, lines=lambda file: lines, name="run", sites=lambda i: [(code[i].file, code[i].line)]
    )
    return fixes(SimpleNamespace(setting=setting, finding=SimpleNamespace(estimate=None)))  # type: ignore[arg-type]


def test_a_thousand_rounds_become_as_many_as_fit() -> None:
    (fix,) = made()
    (edit,) = fix.edits
    assert edit.line == 5
    assert edit.becomes == "    #pragma unroll 125"  # of 48 bytes: the divisor of 1000 next to 8 KiB of them
    assert fix.title == "125 rounds behind each other instead of 1000"
    assert fix.proof[0].before == 48000
    assert fix.proof[0].after == 6000


def test_rounds_of_a_number_that_only_the_launch_knows() -> None:
    (fix,) = made(SOURCE.replace("< ROUNDS", "< n").replace("#pragma unroll", "#pragma unroll 512"))
    assert fix.edits[0].becomes == "    #pragma unroll 64"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("    #pragma unroll\n", "\n"),
        ("#pragma unroll", "#pragma unroll 1"),
        ("< ROUNDS", "< n"),  # nvcc writes out none of them
        ("+ w[i];", "+ own[i];"),
        ("+ w[i];", "+ own[0] + pick(own, i);"),
        ("x = x * 0.99f", "const int j = i / 4; own[j] = x * 0.99f"),
        ("y = y * x", "if (i % 3 == 0) y = y * x"),
        ("y = y * x", "y = (i < 500 ? y : 1) * x"),
        ("y = y * x + 0.5f;", 'asm("mov.b32 %0, %1;" : "=r"(y) : "n"(i));'),
    ],
)
def test_a_loop_whose_rounds_need_their_number_stays(was: str, becomes: str) -> None:
    assert not made(SOURCE.replace(was, becomes).replace("y = 1;", "y = 1, own[1000];"))


def test_code_that_is_no_loop_written_out_stays() -> None:
    assert not made(inside=500)  # 8 KiB
    assert not made(beside=4000)
    wide = "".join(f"      y = y * {n}.5f + w[i + {n}];\n" for n in range(300))
    assert not made(SOURCE.replace("      y = y * x + 0.5f;\n", wide))  # one round of so many operations


def test_rounds_are_counted() -> None:
    (loop,) = loops("for (int i = 4; i < 4 * SIZE; i += 8) { x += i; }")
    assert rounds(loop, {"SIZE": 16}) == 8
    assert rounds(loop, {}) == 0
    assert not decided("for (int i = 4; i < 4 * SIZE; i += 8) { x += i; }", loop)
    assert fitting(48000, 1000, 0) == 128
    assert fitting(48000, 1000, 1009) == 1  # a prime
    assert fitting(48000, 3, 3) == 0
    assert fitting(400000, 16, 16) == 0  # one round is too long
