"""Loads of several rounds before the first is used: which loops are told, what is left, that results are the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kscope.fixes.flight.ahead import _rounds
from kscope.fixes.flight.rounds import Rounds, rounds
from kscope.fixes.flight.written import code_above, spans

ROOT = Path(__file__).resolve().parents[2]
HEAD = "__global__ void k(const float* x, const int* __restrict__ at, float* y, const bool* mask, int n, int step)"
STRIDED = """ {
  float s = 0; const int row = blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const int place = row + i;
    const auto v = x[place];
    s += v * at[i];
  }
  y[blockIdx.x * 64 + threadIdx.x] = s;
}"""
LED = """ {
  int i = (int)threadIdx.x - 70, to; float s = 0;
  #pragma unroll 1
  while (i < n) {
    to = at[(i + 70) % n];
    s += x[to % n] * 2;
    i += blockDim.x;
  }
  y[blockIdx.x * 64 + threadIdx.x] = s + i;
}"""
CARRIED = """ {
  const int me = blockIdx.x * 64 + threadIdx.x;
  const float* p = x + me; const bool *m = step > 1 ? nullptr : mask + me;
  float h = 1; auto* q = y + me;
  for (int t = 0; t < n / 64; ++t) {
    if ((m == nullptr) || !(*m)) {
      const float a = *p, b = *(p + 1);
      const float c = step ? p[2] : 0.f;
      h = h * a + b - c;
    }
    if (h > 4) continue;
    h *= 0.5f;
  }
  *q = h;
}"""
ADVANCED = """ {
  const int me = blockIdx.x * 64 + threadIdx.x;
  const float* p = x + me; const bool *m = step > 1 ? NULL : mask + me;
  float h = 1; auto* q = y + me;
  for (int t = 0; t < n / 64; ++t) {
    if ((m == NULL) || !(*m)) {
      const float a = *p;
      const auto b = (step) ? (*(p + 1)) : 0.f;
      h = h * a + b;
      *q = h;
    }
    p += 64;
    m = step < 2 ? (m + 64) : NULL;
    q += 0;
  }
}"""
PASSED = """ {
  float s = 0;
  for (int i = threadIdx.x; i < n; i++) {
    if (i % 7 == step) continue;
    const int j = i * 2 % n;
    if (i % 3) { s += x[j]; } else s -= at[j];
    s *= 0.5f;
  }
  y[blockIdx.x * 64 + threadIdx.x] = s;
}"""
MAIN = """
#include "cuda_on_cpu.h"
#include <cstdio>
{above}
{first}
{second}
int main() {{
  const int size = 9000;
  std::vector<float> x(size), a(size, -99), b(size, -99); std::vector<int> at(size); std::vector<char> mask(size);
  for (int i = 0; i < size; i++) x[i] = i * 7919 % 1009 / 64.f - 7, at[i] = i * 31 % 997, mask[i] = i % 3 == 0;
  size_t wrong = 0, made = 0;
  for (int n : {{640, 1, 65, 191, 449}})
    for (int step : {{0, 1, 2}}) {{
      const bool* m = (const bool*)mask.data();
      launched(dim3(3), dim3(64), [&] {{ k(x.data(), at.data(), a.data(), m, n, step); }});
      launched(dim3(3), dim3(64), [&] {{ k_ahead(x.data(), at.data(), b.data(), m, n, step); }});
      for (int i = 0; i < size; i++) made += a[i] != -99, wrong += a[i] != b[i];
    }}
  std::printf("%d %zu\\n", made > 1000, wrong);
}}
"""


def found(body: str, head: str = HEAD) -> list[Rounds]:
    code = head + body
    return list(rounds(code, "k", code.split("\n")))


def changed(body: str, times: int) -> tuple[str, str]:
    """The text with its first loop's loads ahead, and what stands above it."""
    code = HEAD + body
    one = found(body)[0]
    for start, end, new in sorted(spans(code, one, times), reverse=True):
        code = code[:start] + new + code[end:]
    return code, code_above(one.held)


@pytest.mark.parametrize(
    ("body", "times"), [(STRIDED, 4), (LED, 4), (CARRIED, 4), (ADVANCED, 2), (PASSED, 4)],
    ids=["strided", "led", "carried", "on", "passed"],
)
def test_results_are_the_same_to_the_last_bit(body: str, times: int, tmp_path: Path) -> None:
    """Run on the processor, a thread for each of a block."""
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    shutil.copy(ROOT / "tests" / "support" / "cuda_on_cpu.h", tmp_path)
    second, above = changed(body, times)
    text = MAIN.format(above=above, first=HEAD + body, second=second.replace("void k(", "void k_ahead("))
    (tmp_path / "both.cpp").write_text(text)
    command = ["g++", "-std=c++20", "-O1", "-ffp-contract=off", "-pthread", "both.cpp", "-o", "both"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert not done.returncode, done.stderr[:2000]
    done = subprocess.run(["./both"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "0"]


def held(body: str) -> list[tuple[str, int, str]]:
    return [(h.text, h.level, ' '.join(t.text for t in h.test)) for one in found(body) for h in one.held]


def test_what_is_loaded_ahead() -> None:
    assert held(STRIDED) == [("x[place]", 0, ""), ("at[i]", 0, "")]
    assert held(LED) == [("at[(i + 70) % n]", 0, ""), ("x[to % n]", 1, "")]
    test = "(m == NULL) || !(*m)"
    assert held(ADVANCED) == [("*p", 0, test), ("(step) ? (*(p + 1)) : 0.f", 0, test)]


def test_loads_of_members_and_behind_a_test() -> None:
    assert held(PASSED) == [("x[j]", 0, "!(i % 7 == step) i % 3"), ("at[j]", 0, "!(i % 7 == step) !(i % 3)")]
    head = "template <int N> __global__ void k(const Args<float, N> p, float* y, int n)"
    body = " { float s = 0; const auto* q = p.in + blockIdx.x;\n for (int i = 0; i < n; i++) s += p.w[i] * q[i]; }"
    assert [h.text for one in found(body, head) for h in one.held] == ["q[i]", "p.w[i]"]
    given = found(body.replace("s +=", "put(p); s +="), head)
    assert not [h.text for one in given for h in one.held if "p" in h.text]


def test_rounds_behind_the_last_load_what_the_last_one_loads() -> None:
    text, above = changed(STRIDED, 4)
    assert "if (static_cast<decltype(i)>(i + blockDim.x) < n) { i += blockDim.x; }" in text
    assert not above and "float x_ahead[4]; int at_ahead[4];" in text and "s += v * at_ahead[round_n];" in text
    text, above = changed(ADVANCED, 2)
    assert "typename Plain<decltype(p[0])>::type p_ahead[2];" in text and "struct Plain" in above
    assert _rounds() > 1000


LOOP = """ {{ float s = 0; int k = 0; const float* p = x; float* q = y; const float* r = y + n;
  for (int i = threadIdx.x; {test}; {by}) {{ {body} }}
  y[0] = s; }}"""


@pytest.mark.parametrize(
    ("body", "test", "by"),
    [
        ("s += x[i]; if (s > 9) break;", "i < n", "i++"),  # a later round may not be there to load
        ("s += x[i]; if (s > 9) return;", "i < n", "i++"),
        ("__syncthreads(); s += x[i];", "i < n", "i++"),
        ("s += x[i]; s += __shfl_xor_sync(~0u, s, 1);", "i < n", "i++"),
        ("s += x[k]; k = at[k];", "i < n", "i++"),  # a chain
        ("s += y[i]; y[i + 1] = s;", "i < n", "i++"),  # written and read
        ("s += y[i]; atomicAdd(&y[at[i]], 1.f);", "i < 0", "i++"),
        ("s += y[i]; atomicAdd(y + i, 1.f);", "i < n", "i++"),
        ("float* r = y + i; s += y[i]; *r = 2;", "i < n", "i++"),
        ("s += y[i]; q[i + 1] = s;", "i < n", "i++"),  # by another name for it
        ("s += r[i]; y[i + 1] = s;", "i < n", "i++"),
        ("s += x[i];", "i < n && s < 9", "i++"),  # how long it goes on, the data say
        ("s += x[i];", "i < at[n]", "i++"),
        ("s += x[i];", "i < n", "i += at[i]"),
        ("s += x[i]; if (s > 4) i++;", "i < n", "i++"),
        ("next(i); s += x[i];", "i < n", "i++"),  # may take it by reference
        ("int& j = i; j++; s += x[i];", "i < n", "i++"),
        ("if (s < 4) continue; s += x[i];", "i < n", "i++"),
        ("if (s < 4) { s += x[i]; }", "i < n", "i++"),
        ("s += s < 4 ? x[i] : 1;", "i < n", "i++"),
        ("if (i > 4) { k = i * 2; } s += x[k];", "i < n", "i++"),
        ("s += *p; if (s > 3) continue; p += 4;", "i < n", "i++"),  # not every round goes on by it
        ("p += 4; s += *p;", "i < n", "i++"),
        ("add(y[i]); s += y[i];", "i < n", "i++"),  # by reference
        ("float& r = y[i]; r += 1; s += y[i];", "i < n", "i++"),
        ("y[i].add(2); s += y[i].x;", "i < n", "i++"),
        ("const auto [k, q] = split(i); s += x[k];", "i < n", "i++"),
        ("int k(at[i]); s += x[k];", "i < n", "i++"),
        ("int k{i}; s += x[k];", "i < n", "i++"),
        ("asm volatile(\"\"); s += x[i];", "i < n", "i++"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_left(body: str, test: str, by: str) -> None:
    held = [h.text for one in found(LOOP.format(body=body, test=test, by=by)) for h in one.held]
    assert set(held) <= {"at[i]"}


def test_the_same_loop_without_them_is_told() -> None:
    assert held(LOOP.format(body="s += x[i];", test="i < n", by="i++")) == [("x[i]", 0, "")]


@pytest.mark.parametrize("head", [HEAD.replace("const float* x", "volatile float* x"), HEAD.replace("* x", "** x")])
def test_pointers_to_something_else_are_left(head: str) -> None:
    assert not [h for one in found(LOOP.format(body="s += x[i];", test="i < n", by="i++"), head) for h in one.held]
