"""Small local arrays at run-time indices: each place asked, loops unrolled, so that they stay in registers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kscope.engine.code.fixing import subjects
from kscope.fixes.given.played import play
from kscope.fixes.given.setting import Asked
from kscope.fixes.local import unrolled
from kscope.fixes.local.places_asked import CODE, asked
from kscope.fixes.local.selects import _records, fixes, played
from tests.support.reports import fixture
from tests.support.with_sources import BELOW

FILL = "float a[4]; for (int i = 0; i < 4; ++i) a[i] = x[i];"
SWAPS = "{ float t = a[i]; a[i] = a[j]; a[j] = t; }"
PICKED = (
    "float a[9]; int m = 0; for (int k = 0; k < 9; ++ k) { if (x[k] == 0.f) continue; a[m] = x[k]; ++m; } "
    f"for (int i = 0; i <= 4; ++ i) {{ for (int j = i + 1; j < 9; ++ j) {{ if (j < m && a[i] > a[j]) {SWAPS} }} }} "
    "y[0] = m ? a[m / 2] : 0.f;"
)


def edited(body: str, known: dict[str, int] | None = None, types: tuple[str, ...] = ()) -> str | None:
    code = "__global__ void f(const float* x, float* y, int n) {\n" + body + "\n}"
    one = asked(code, known or {}, types)
    if one is None:
        return None
    for start, end, new in sorted(one.spans, reverse=True):
        code = code[:start] + new + code[end:]
    return " ".join(code[code.index("{") + 1 : -1].split())


def test_a_list_that_is_filled_sorted_and_read_at_its_middle() -> None:
    assert edited(PICKED) == (
        "float a[9]; int m = 0; for (int k = 0; k < 9; ++ k) { if (x[k] == 0.f) continue; set_element(a, m, x[k]); "
        "++m; } #pragma unroll for (int i = 0; i <= 4; ++ i) { #pragma unroll for (int j = i + 1; j < 9; ++ j) { "
        f"if (j < m && a[i] > a[j]) {SWAPS} }} }} y[0] = m ? element_at(a, m / 2) : 0.f;"
    )


def test_a_list_that_is_sorted_up_to_its_length() -> None:
    body = (
        "T v[N]; for (int q = 0; q < n; q++) v[q] = x[q]; for (int i = 0; i < n - 1; i++) "
        "for (int j = i + 1; j < n; j++) if (v[j] < v[i]) { T t = v[i]; v[i] = v[j]; v[j] = t; } y[0] = v[n / 2];"
    )
    one = asked("template <class T> __global__ void f(T* x, T* y, int n) {\n" + body + "\n}", {"N": 7}, ("T",))
    assert one is not None and [(x.name, x.limit, x.sure) for x in one.ended] == [("q", 7, True), ("i", 7, True),
                                                                                  ("j", 7, True)]  # fmt: skip
    assert edited(body, {"N": 7}, ("T",)) == (
        "T v[N]; #pragma unroll for (int q = 0; q < 7; q++) if (q < n) v[q] = x[q]; "
        "#pragma unroll for (int i = 0; i < 7; i++) if (i < n - 1) #pragma unroll for (int j = i + 1; j < 7; j++) "
        "if (j < n) if (v[j] < v[i]) { T t = v[i]; v[i] = v[j]; v[j] = t; } y[0] = element_at(v, n / 2);"
    )


def test_rows_of_a_small_matrix() -> None:
    body = (
        "float a[3][N]; for (int i = 0; i < 3; i++) for (int j = 0; j < N; j++) a[i][j] = x[i * N + j]; "
        "for (int i = 0; i < 3; i++) { a[i][n] -= a[0] [n - 1]; y[i] = a[i][n]; }"
    )
    assert edited(body, {"N": 4}) == (
        "float a[3][N]; #pragma unroll for (int i = 0; i < 3; i++) #pragma unroll for (int j = 0; j < N; j++) "
        "a[i][j] = x[i * N + j]; #pragma unroll for (int i = 0; i < 3; i++) { { const auto element_place = n; "
        "set_element(a[i], element_place, element_at(a[i], element_place) - ( element_at(a[0], n - 1))); } "
        "y[i] = element_at(a[i], n); }"
    )


def test_records_of_numbers() -> None:
    lines = ["struct Cell { float x, y; int n; };", "struct alignas(8) Two { int a; int b; };",
             "struct No { float* p; };", "struct Made { int a; Made() {} };"]  # fmt: skip
    assert _records(lines) == {"Cell": 12, "Two": 8}
    body = "Cell a[5]; for (int i = 0; i < 5; i++) a[i].n = 2; a[n] = a[n + 1]; y[0] = a[n].x;"
    assert edited(body, types=("Cell",)) == (
        "Cell a[5]; #pragma unroll for (int i = 0; i < 5; i++) a[i].n = 2; "
        "set_element(a, n, element_at(a, n + 1)); y[0] = element_at(a, n).x;"
    )
    for other in ("a[n].n = 2;", "a[n].set(2);", "a[n].n++;", "--a[n].n;", "g(a[n].n);", "int& m = a[n].n;"):
        assert edited(f"Cell a[5]; {other}", types=("Cell",)) is None


def test_rounds_that_need_not_use_the_array_are_for_the_reader() -> None:
    body = "float a[4]; for (int i = 0; i < n; i++) { if (x[i] > 0) a[i] = x[i]; } y[0] = a[n - 1];"
    one = asked("__global__ void f(const float* x, float* y, int n) {\n" + body + "\n}", {})
    assert one is not None and [x.sure for x in one.ended] == [False]


def test_arrays_that_stay_are_told() -> None:
    body = f"{FILL} unsigned int t[64];\n Cell<3> m, c[2], d[2][2];\n __shared__ float s[4]; g(c, d, t); "
    body += "if (n) y[1] = 0;\n else y[0] = a[n];"
    one = asked("__global__ void f(const float* x, float* y, int n) {\n" + body + "\n}", {})
    assert one is not None and [a.name for a in one.arrays] == ["a"] and one.others == ("c", "d", "t")


def test_an_end_that_is_the_least_of_two() -> None:
    assert "for (int i = 0; i < 4; i++) if (i < min(n, 3)) y[i] = a[i];" in (
        edited(f"{FILL} for (int i = 0; i < min(n, 3); i++) y[i] = a[i];") or ""
    )


@pytest.mark.parametrize(
    ("body", "now"),
    [
        (f"{FILL} a[n] = a[n + 1];", "set_element(a, n, element_at(a, n + 1));"),
        (f"{FILL} if (n) a[n] -= y[0]; else ++a[n & 1];",
         "if (n) { const auto element_place = n; "
         "set_element(a, element_place, element_at(a, element_place) - ( y[0])); } "
         "else { const auto element_place = n & 1; "
         "set_element(a, element_place, element_at(a, element_place) + 1); }"),
        (f"{FILL} int b[3] = {{2, 1, 0}}; y[0] = a[b[n]];",
         "int b[3] = {2, 1, 0}; y[0] = element_at(a, element_at(b, n));"),
        (f"{FILL} int m = 0; a[m++] = x[9]; y[0] = fmaxf(a[--m], a[3]);",
         "int m = 0; set_element(a, m++, x[9]); y[0] = fmaxf(element_at(a, --m), a[3]);"),
        (f"{FILL} for (int i = 3; i >= 0; i -= 2) y[i] = a[i ^ 1] * a[n];",
         "#pragma unroll for (int i = 3; i >= 0; i -= 2) y[i] = a[i ^ 1] * element_at(a, n);"),
    ],
)  # fmt: skip
def test_other_ways_to_use_an_element(body: str, now: str) -> None:
    filled = "float a[4]; #pragma unroll for (int i = 0; i < 4; ++i) a[i] = x[i]; "
    assert edited(body) == filled + now


@pytest.mark.parametrize(
    "body",
    [
        f"{FILL} float* p = &a[n]; *p = 1;",
        f"{FILL} float& e = a[n]; e = 1;",
        f"{FILL} g(a); y[0] = a[n];",
        f"{FILL} asm(\"mov.f32 %0, 0f00000000;\" : \"=f\"(a[n]));",
        f"{FILL} g(a[n]);",  # it may take a reference
        f"{FILL} std::swap(a[n], a[0]);",
        f"{FILL} y[0] = a[n] = 3;",
        f"{FILL} a[n] = next(n);",  # which may change n, before the place is found
        f"{FILL} a[n] = 2, y[0] = a[0];",
        f"{FILL} a[n] = n++;",
        f"{FILL}\n#define AT(i) a[i]\ny[0] = a[n];",
        "float2 a[4]; a[n].x = 1;",
        "float a[4][4]; for (int i = 0; i < 4; i++) a[i][i] = 1; y[0] = a[n][2];",  # a row at a run-time index
        "float a[4][4]; for (int i = 0; i < 4; i++) a[i][i] = 1; g(a[n & 1]);",
        "float a[9][4]; y[0] = a[0][n];",
        "float a[40]; y[0] = a[n];",  # more than registers hold
        "__shared__ float a[4]; y[0] = a[n];",
    ],
)
def test_what_stays_in_memory(body: str) -> None:
    assert edited(body) is None


@pytest.mark.parametrize(
    "body",
    [
        f"{FILL}\n#pragma unroll 2\nfor (int i = 0; i < n; i++) y[i] = a[i];",
        f"{FILL} for (int i = 0; i < n; i++) {{ if (a[i] > 0) i++; y[i] = a[i]; }}",
        f"{FILL} if (n > 2) for (int i = 0; i < n; i++) y[i] = a[i]; else y[0] = 1;",
        f"{FILL} for (int i = 0; i < y[i]; i++) y[i] = a[i];",
        f"{FILL} for (int i = 0; i < n; i++) {{ if (i < 4) y[i] = a[i]; else y[i] = 2; }}",
        f"{FILL} for (int i = 0; i <= n; i++) y[i] = 3 >= i ? a[i] : 2;",
        f"{FILL} for (int i = 0; i < next(); i++) y[i] = a[i];",
        f"{FILL} for (int i = 0; i < n; i++) {{ y[i] = a[i]; __syncthreads(); }}",
    ],
)
def test_loops_that_keep_their_end(body: str) -> None:
    assert (edited(body) or "").count("for (int i = 0; i < 4;") == 1
    assert "element_at(a, i)" in (edited(body) or "")


def test_both_texts_do_the_same() -> None:
    get = "float found = a[0]; for (int q = 1; q < 9; q++) if (q == {}) found = a[q];"
    put = "for (int q = 0; q < 9; q++) if (q == m) a[q] = x[k];"
    now = (edited(PICKED) or "").replace("set_element(a, m, x[k]);", put)
    now = now.replace("y[0] = m ? element_at(a, m / 2)", f"{get.format('(m / 2)')} y[0] = m ? found")
    results = []
    for text in (PICKED, now.replace("#pragma unroll ", "")):
        at = "int row = blockIdx.x * blockDim.x + threadIdx.x; "
        body = text.replace("x[k]", "given[row * 9 + k]").replace("y[0]", "out[row]")
        drawn = np.random.default_rng(5).integers(0, 6, 512 * 9)
        memory = {"given": drawn, "out": np.zeros(512, dtype=np.int64)}
        play("{" + at + body + "}", (4, 1), (128, 1), memory, {})
        results.append(memory["out"])
    assert (results[0] == results[1]).all() and results[0].max() > 3


@pytest.mark.parametrize("count", [2, 9, 32])
def test_places_that_are_asked_are_those_at_the_index(count: int) -> None:
    assert played(count) == count * count


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_nothing_is_left_in_local_memory(tmp_path: Path) -> None:
    source = tmp_path / "picked.cu"
    body = (edited(PICKED) or "").replace("#pragma unroll ", "\n#pragma unroll\n")
    source.write_text(f"{CODE}\n__global__ void f(const float* x, float* y, int n) {{\n{body}\n}}\n")
    command = ["nvcc", "-O3", "-std=c++17", "-arch=sm_90a", "-cubin", "-Xptxas", "-v", "-o", "picked.cubin"]
    said = subprocess.run([*command, str(source)], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "0 bytes stack frame" in said.stderr


def test_a_function_that_a_kernel_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    (subject,) = subjects(str(fixture("lbm.directions")), None, BELOW)
    setting, finding = subject.setting, next(f for f in subject.findings if f.code == "MEM105")
    assert not fixes(Asked(setting, finding))  # loops alone, that something else answers
    monkeypatch.setattr(unrolled, "fixes", lambda given: [])
    (own,) = fixes(Asked(setting, finding))

    def lines(file: str) -> list[str]:
        return [x.replace("__global__ void", "__device__ int") for x in setting.lines(file)]

    (fix,) = fixes(Asked(msgspec.structs.replace(setting, lines=lines), finding))
    assert fix.edits == own.edits and fix.price == finding.estimate is not None
    assert fix.edits[0].becomes.startswith("  for (int q = 0; q < 9; q++) if (q < nq) { int ax = q % 3 - 1")
    assert setting.launch is not None
    few = msgspec.structs.replace(setting.launch, registers=250)  # and 18 words more
    assert not fixes(Asked(msgspec.structs.replace(setting, launch=few), finding))
