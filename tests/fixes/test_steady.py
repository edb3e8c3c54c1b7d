"""What a loop loads in each round because it stores elsewhere: once, in front of it."""

from __future__ import annotations

import lzma

import pytest

from kscope.engine.code.fixing import Subject, subjects
from kscope.engine.code.programs import sources_below
from kscope.fixes.algebra.steady import AGAIN, kept_in_front
from kscope.fixes.algebra.steady_values import spans, steady
from kscope.fixes.given.text import loops
from kscope.fixes.left import left
from tests.support.patches import FIXTURES

HERE = FIXTURES / "fixes"
HEAD = "const float* x, float* y, const float* by, volatile float* seen, unsigned long long* odd, float e, int n, int i"
HEAD += ", const half* h, const Args* args, const float4* four"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Subject]:
    path = tmp_path_factory.mktemp("steady") / "steady.cubin"
    path.write_bytes(lzma.decompress((HERE / "steady.sm_90.cubin.xz").read_bytes()))
    return {s.name: s for s in subjects(str(path), None, sources_below(HERE))}


def test_the_kernel_becomes_the_one_that_keeps_its_values(compiled: dict[str, Subject]) -> None:
    (fix,) = kept_in_front(compiled["scaled"].setting)
    (edit,) = fix.edits
    lines = (HERE / "steady.cu").read_text("utf-8").split("\n")
    assert edit.becomes == lines[edit.line - 1 + 4]  # as scaled_once has it
    assert [c.state for c in fix.conditions] == ["proved", "assumed", "check"]
    assert "does not overlap mean, var" in fix.conditions[2].holds
    assert fix.price is None
    slow, fast = (left("register", compiled[name].setting, "CMP204") for name in ("scaled", "scaled_once"))
    assert slow is not None and slow[0] == AGAIN and slow[1] > 0
    assert fast == (AGAIN, 0)


def test_a_function_of_what_is_read_goes_along_with_an_atomic_behind(compiled: dict[str, Subject]) -> None:
    (fix,) = kept_in_front(compiled["weighed"].setting)
    first, second = fix.edits
    assert first.becomes == (
        "const auto weight_once = (int)(rows[row] + threadIdx.x) < rows[row + 1] ? pow(weight[row], 1.5) : 0;\n"
        "#pragma unroll 1"
    )
    assert second.becomes.strip() == "double w = weight_once + 1;"


@pytest.mark.parametrize("name", ["scaled_once", "in_place", "told", "perhaps", "meets"])
def test_where_others_may_write_or_a_compiler_knows_nothing_is_said(name: str, compiled: dict[str, Subject]) -> None:
    assert not kept_in_front(compiled[name].setting)


def kept(*lines: str) -> list[str]:
    code = f"__global__ void k({HEAD}) {{\n  " + "\n  ".join(lines) + "\n}"
    (loop,) = loops(code)
    return [code[slice(*one.span)] for one in steady(code, loop)]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["for (int k = 0; k < n; k++) y[k] = x[k] * expf(-by[i] / (e + 1.f)) + by[i];"],
         ["expf(-by[i] / (e + 1.f))", "by[i]"]),
        (["int a = i & 3;", "for (int k = 0; k < n; k++) { float v = x[k]; y[k] = v * rsqrtf(by[a & 1]); }"],
         ["rsqrtf(by[a & 1])"]),
        (["for (int k = 0; k < n; k++) y[k] = fmaf(x[k], by[threadIdx.x], by[(int)e]);"],
         ["by[threadIdx.x]", "by[(int)e]"]),
        (["for (int k = 0; k < n; k++) y[k] = x[k] * powf(args->base, 2.f) + args->last + four[i].x;"],
         ["powf(args->base, 2.f)", "args->last", "four[i]"]),
    ],
)  # fmt: skip
def test_what_stays_is_taken_as_wide_as_it_goes(lines: list[str], found: list[str]) -> None:
    assert kept(*lines) == found


@pytest.mark.parametrize(
    "lines",
    [
        ["for (int k = 0; k < n; k++) y[k] = by[k];"],
        ["for (int k = 0; k < n; k++) { y[k] = by[i]; i += 2; }"],
        ["for (int k = 0; k < n; k++) { int a = k / 2; y[k] = by[a]; }"],
        ["float* o = (float*)by;", "for (int k = 0; k < n; k++) { o[k] = x[k] * by[i]; }"],
        ["float* o = &by[4];", "for (int k = 0; k < n; k++) { o[k] = x[k] * by[i]; }"],
        ["for (int k = 0; k < n; k++) { by[k] = 1; y[k] = by[i]; }"],
        ["for (int k = 0; k < n; k++) { fill(by); y[k] = by[i]; }"],
        ["for (int k = 0; k < n; k++) { y[k] = seen[i]; }"],
        ["for (int k = 0; k < n; k++) { if (x[k] < 0) break; y[k] = by[i]; }"],
        ["for (int k = 0; k < n; k++) { if (x[k] < 0) continue; y[k] = by[i]; }"],
        ["for (int k = 0; k < n; k++) y[k] = k < i ? by[i] : 0;"],
        ["for (int k = 0; k < n; k++) { bool b = k < i && by[i] > 0; y[k] = b; }"],
        ["if (n > 2) for (int k = 0; k < n; k++) y[k] = by[i];"],
        ["if (n > 2) y[0] = 1; else", "#pragma unroll", "for (int k = 0; k < n; k++) y[k] = by[i];"],
        ["for (int k = 0; k < n; k++) { y[k] = by[i]; __threadfence(); }"],
        ["for (int k = 0; k < n; k++) { while (by[i] == 0) ; y[k] = 1; }"],
        ["int& a = n; for (int k = 0; k < 9; k++) { y[k] = by[n]; a++; }"],
        ["for (int k = 0; k < n; k++) { y[k] = args->base; args->base += 1; }"],
        ["for (int k = 0; k < n; k++) y[k] = args->rows[k];"],
        ["for (int k = 0; k < n; k++) y[k] = args->of(k);"],
        ["for (int k = 0; k < n; k++) y[k] = args->first.second;"],
        ["for (int k = 0; k < n; k++) y[k] = args->first->second;"],
        ["for (int k = 0; k < n; k++) y[k] = odd[i].of(k);"],
        ["for (int k = 0; k < n; k++) y[k] = by[next(k)];"],
        ["for (int k = 0; k < n; k++, i += 4) y[k] = by[i];"],
        ["for (int k = 0; k < n; k++) y[k] = by[i>k];"],
        ["for (int k = 0; k < n; k++) y[k] = by[stray];"],
        ["for (int k = 0; k < n; k++) { atomicAdd(&by[i], 1.f); y[k] = by[i]; }"],
    ],
)
def test_what_may_change_or_not_be_read_at_all_stays(lines: list[str]) -> None:
    assert kept("for (int k = 0; k < n; k++) y[k] = by[i];") == ["by[i]"]
    assert kept(*lines) == []


def test_where_no_round_is_nothing_is_read() -> None:
    lines = "for (int k = 2; k < n; k++) y[k] = x[k] * h[i] + by[i] + args->base + expf(args->last);"
    code = f"__global__ void k({HEAD}) {{\n  {lines}\n}}"
    (loop,) = loops(code)
    made = spans(code, loop, steady(code, loop))[0][2]
    assert made == (
        "const auto h_once = 2 < n ? h[i] : half(); const auto by_once = 2 < n ? by[i] : 0; "
        "const auto args_once = 2 < n ? args->base : decltype(args->base)(); "
        "const auto args_once1 = 2 < n ? expf(args->last) : decltype(expf(args->last))(); "
    )


def test_rounds_are_compared_as_the_loop_does() -> None:
    code = f"__global__ void k({HEAD}) {{\n  for (unsigned k = 0; k < n; k++) y[k] = x[k] * by[i];\n}}"
    (loop,) = loops(code)
    assert spans(code, loop, steady(code, loop))[0][2] == "const auto by_once = (unsigned)(0) < n ? by[i] : 0; "


def test_a_number_of_rounds_that_is_told_asks_for_none() -> None:
    code = f"__global__ void k({HEAD}) {{\n  for (int k = 0; k < 16; k++) y[k] = x[k] * by[i];\n}}"
    (loop,) = loops(code)
    assert spans(code, loop, steady(code, loop))[0][2] == "const auto by_once = by[i]; "
