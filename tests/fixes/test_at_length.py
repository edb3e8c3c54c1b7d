"""Loops over local arrays that are copied for the arrays' length."""

from __future__ import annotations

import msgspec
import pytest

from kscope.engine.code.fixing import subjects
from kscope.fixes.atomics.reading import read
from kscope.fixes.given.setting import Asked
from kscope.fixes.given.text import Text
from kscope.fixes.local.at_length import copied, fixes
from tests.support.reports import fixture
from tests.support.with_sources import BELOW, changes

LOADS, STORES = "for (int i = 0; i < n; i++) w[i] = x[i * 64 + t];", "for (int j = 0; j < n; j++) y[j * 64 + t] = w[j];"


def rewritten(body: str, parameters: str = "const float* x, float* y, int n") -> str | None:
    code = "__global__ void f(" + parameters + ") {\n" + body + "\n}"
    kernel = read(Text("f.cu", 1, code), "f", code.split("\n"))
    assert kernel is not None
    one = copied(kernel)
    if one is None:
        return None
    for start, end, new in sorted(one.spans, reverse=True):
        code = code[:start] + new + code[end:]
    return " ".join(code[code.index("{") + 1 : -1].split())


def test_the_capture_whose_directions_are_an_argument() -> None:
    fix, other = changes("lbm.directions", "MEM105")[:2]
    assert [e.line for e in fix.edits] == [94, 95, 96, 98, 101, 108, 111]
    assert fix.edits[4].becomes.startswith("    for (int q = 0; q < 9; q++) if (q < nq) a += ")
    assert fix.edits[0].becomes == "  int x = blockIdx.x * 128 + threadIdx.x, y = blockIdx.y;  if (Q) nq = Q;"
    assert fix.edits[1].becomes == "  auto steps = [&](auto nq) { float v[9], m[9];\n  #pragma unroll"
    assert fix.edits[-1].becomes == "}; if (nq == 9) steps(Fixed<int, 9>{}); else steps(nq);\n}"
    assert [c.state for c in fix.conditions] == ["assumed", "proved", "assumed", "check"]
    assert fix.proof[0].before == 7077888 and fix.price is not None
    assert other.title.startswith("the 4 loops over local arrays as long as")


def test_other_names_and_what_is_declared_beside() -> None:
    assert rewritten(
        f"int t = threadIdx.x; float s = 0, w[5]; if (t >= 64) return; {LOADS} s += w[2]; {STORES} y[t] += s;",
        "const float* x, float* y, const unsigned n",
    ) == (
        "int t = threadIdx.x; float s = 0; if (t >= 64) return; auto steps = [&](auto n) { float w[5]; "
        "#pragma unroll for (int i = 0; i < 5; i++) if (i < n) w[i] = x[i * 64 + t]; s += w[2]; "
        "#pragma unroll for (int j = 0; j < 5; j++) if (j < n) y[j * 64 + t] = w[j]; y[t] += s; "
        "}; if (n == 5) steps(Fixed<unsigned, 5>{}); else steps(n);"
    )


@pytest.mark.parametrize(
    "body",
    [
        f"int t = threadIdx.x; float w[5]; {LOADS} for (int j = 0; j < t; j++) y[j] = w[j];",  # to two numbers
        f"int t = threadIdx.x; float w[5], v[7]; {LOADS} for (int j = 0; j < n; j++) v[j] = w[j]; {STORES}",
        f"int t = threadIdx.x; float w[5]; {LOADS} n--; {STORES}",  # it changes
        f"int t = threadIdx.x; float w[5]; {LOADS} {STORES} y[t] = min(n, 3);",  # it is more than an end
        f"int t = threadIdx.x; float w[5]; {LOADS} y[t] = w[t & 3];",  # an index of the data
        f"int t = threadIdx.x; float w[5]; __shared__ float s[64]; {LOADS} __shared__ float u[64]; {STORES}",
        f"int t = threadIdx.x; float w[5] = {{0}}; {LOADS} {STORES}",  # both copies would have one array
        f"int t = threadIdx.x; for (int r = 0; r < 2; r++) {{ float w[5]; {LOADS} {STORES} }}",
        f"int t = threadIdx.x; float w[5];\n#pragma unroll 2\n{LOADS} {STORES}",
        f"int t = threadIdx.x; float w[5]; {LOADS} if (t < 9) {STORES} else y[t] = 0;",  # an else of its own
        f"int t = threadIdx.x; float w[5]; {LOADS} for (int j = 0; j < n; j++) {{ if (w[j] > 0) j++; y[j] = w[j]; }}",
        f"int t = threadIdx.x; float w[64]; {LOADS} {STORES}",  # more than registers hold
    ],
)  # fmt: skip
def test_loops_that_would_not_be_in_registers(body: str) -> None:
    assert rewritten(body) is None


def test_a_launch_with_another_number() -> None:
    (subject,) = subjects(str(fixture("lbm.directions")), None, BELOW)
    setting, finding = subject.setting, next(f for f in subject.findings if f.code == "MEM105")
    assert len(fixes(Asked(setting, finding))) == 1
    launch = msgspec.structs.replace(setting.launch, grid=(16, 700, 1))  # then threads have stored more than 9 words
    assert not fixes(Asked(msgspec.structs.replace(setting, launch=launch), finding))
