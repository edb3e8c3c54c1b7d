"""The work of several blocks in one: the old and the new text, compiled for the host and run thread by thread, give the
same; a dozen ways to write a kernel."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.fixes.flight.blocks import bodies
from kscope.fixes.flight.blocks import spans as loads_first
from kscope.fixes.flight.written import code_above
from kscope.fixes.work.several import alone, spans

HEAD = "__global__ void k(const float* x, const int* at, float* y, int n) {\n"
INDEX = "  const int i = blockIdx.x * 64 + threadIdx.x;\n"
TEXTS = [
    INDEX + "  if (i < n) y[i] += x[i];",
    INDEX + "  if (i >= n) return;\n  float v = x[i]; y[i] = v; v = y[i] + x[i / 3]; y[i] = v * 2;",
    INDEX + "  if (i >= n) return;\n  int j = at[i]; float v = 0; if (j > 5 && x[j] > 0) v = x[j]; y[i] = v;",
    INDEX + "  if (i >= n) return;\n  int j = at[i]; j = at[j]; j = at[j]; y[i] = x[j];",
    INDEX + "  if (i >= n) return;\n  float v = x[i];\n"
    "  if (v > 0) { y[i] = v; } else if (v < -3) { y[i] = 1; return; }\n  y[i] -= v;",
    INDEX + "  int j = i < n ? i : 0; float v = x[j]; if (i < n) y[i] = v;",
    INDEX + "  if (i < n) { int i2 = i * 2 % n; y[i] = x[i2] + x[i]; }",
    INDEX + "  if (i < n) { float* q = y + i; *q = x[i]; *q += 3; }",
    INDEX + "  if (i >= n) return;\n  float v; if (at[i] & 1) v = x[i]; else v = x[i / 2];\n"
    "  if (at[i] & 2) v = v + x[i / 4];\n  y[i] = v;",
    INDEX + "  if (i < n) y[i] = x[i];\n  else if (i < n + 20) y[i] = x[i - n];",
    INDEX + "  if (i >= n) return;\n  int a = at[i], b = at[a]; y[i] = x[a] + x[b]; y[i] += x[b];",
    INDEX + "  if (i >= n) return;\n  float s = 0; s += x[i]; s *= x[i / 2]; s -= y[i]; y[i] = s;",
    INDEX + "  if (i >= n) return;\n  int j = i;\n"
    "  if (at[i] > 300) { int j = i / 2; y[i] = x[j]; }\n  else y[i] = x[j] + 1;",
    INDEX + "  if (i >= n) return;\n  int j = at[i]; float v = x[j]; j = i / 3; float w = x[j]; y[i] = v - w;",
]
MAIN = """
template <class F> static void run(F f, unsigned blocks) {
  for (unsigned b = 0; b < blocks; b++) for (unsigned t = 0; t < 64; t++) { blockIdx.x = b; threadIdx.x = t; f(); }
}
template <class F, class G> static bool differ(F old, G now) {
  static float x[1024], was[1024], is[1024]; static int at[1024];
  for (int i = 0; i < 1024; i++) { x[i] = i * 37 % 19 - 9; at[i] = i * 31 % 497; was[i] = is[i] = i * 7 % 13 - 5; }
  run([&] { old(x, at, was, 500); }, 8);
  run([&] { now(x, at, is, 500); }, 2);
  return memcmp(was, is, sizeof was) != 0;
}
"""


def put(code: str, found: list[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(found, reverse=True):
        code = code[:start] + new + code[end:]
    return code


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
def test_blocks_together_compute_the_same(tmp_path: Path) -> None:
    source = [
        "#include <cstdio>\n#include <cstring>\n#define __global__ static\n#define __device__ static\n"
        "#define __forceinline__ inline\nstruct Three { unsigned x, y, z; };\nstatic Three threadIdx, blockIdx;", MAIN,
    ]  # fmt: skip
    above, calls = set[str](), []
    for number, text in enumerate(TEXTS):
        code = f"{HEAD}{text}\n}}"
        assert alone(code) == "x"
        (one,) = bodies(code, "k", code.split("\n"))
        above.add(code_above(one.held))
        news = [put(code, spans(code, "x", 4)), put(code, loads_first(code, one, 4))]
        source += [x.replace("void k(", f"void {k}{number}(") for k, x in zip("kab", [code, *news], strict=True)]
        calls += [f'printf("%d ", differ(k{number}, {k}{number}));' for k in "ab"]
    source[1:1] = sorted(above)
    source.append("int main() { " + " ".join(calls) + " }")
    (tmp_path / "all.cpp").write_text("\n".join(source), encoding="utf-8")
    command = ["g++", "-std=c++17", "-O0", "-w", "-ffp-contract=off", "-o", "all", "all.cpp"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([tmp_path / "all"], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0"] * len(calls)
