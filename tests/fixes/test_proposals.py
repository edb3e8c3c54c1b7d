"""Changes of single lines: what captures whose fixed version was measured are told, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.fixes.accuracy import literals, math_functions
from kscope.fixes.compute import divisors, fused
from kscope.fixes.given import rewrite
from kscope.fixes.given.text import Text
from kscope.model.contract.analysis import Fix, KernelAnalysis

Diagnosis = Callable[[str], KernelAnalysis]


def change(kernel: KernelAnalysis, code: str) -> Fix:
    return next(fix for finding in kernel.findings if finding.code == code for fix in finding.fixes)


@pytest.mark.parametrize(
    ("case", "code", "line"),
    [
        ("fp64_literal.slow", "CMP203", "(1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)))"),
        ("mie.powf", "CMP204", "sum += power<12>(r) - power<6>(r);"),
        ("potential.ieee", "CMP204", "FAST ? s[i].w * rsqrtf(d) : s[i].w * rsqrtf(d)"),
        ("wave.library", "CMP204", "__expf(-3 * e[k]) * __sinf(40 * e[k] + 1) + __powf(e[k], 2.2f)"),
        ("horner.separate", "CMP206", "FUSED ? fmaf(p[k], a, 0.3f) : fmaf(p[k], a, 0.3f)"),
        ("fir64.rounded", "CMP206", "FUSED ? fmaf(v, fir_w[k], a[j]) : fmaf(v, fir_w[k], a[j])"),
        ("int_division.slow", "CMP205", "s += in[j_within];"),
        ("swap_heads.division", "CMP205", "*(float4*)&y[i] = *(const float4*)&x[((b * S + s) * H + h) * D + d];"),
        ("nearest.debug", "MEM116", "const float* c,"),
        ("lut256.constant", "MEM111", "__shared__ float lut_c_shared[256];"),
        ("nf4.constant", "MEM111", "u = __shfl_sync(~0u, nf4_codes_of_lane, a); v = __shfl_sync("),
        ("local_array.slow", "MEM105", "s += lut_columns[(v & 63) * 128 + threadIdx.x];"),
        ("dct8.capped", "MEM104", "__launch_bounds__(128, 4)"),
        ("ssm.sixteen_blocks", "MEM104", "__launch_bounds__(128, 5)"),
        ("gemm_f32.naive", "MEM101", "int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;"),
        ("ldg32_l2.slow", "MEM102", "reinterpret_cast<const float4*>(&x[i])->w"),
    ],
)  # fmt: skip
def test_captures_get_the_measured_line_or_one_as_good(
    case: str, code: str, line: str, diagnosis: Diagnosis
) -> None:
    fix = change(diagnosis(case), code)
    assert fix.printable
    assert any(line in edit.becomes for edit in fix.edits)
    first = fix.proof[0]
    assert first.after < first.before


def test_blocks_are_the_measured_ones(diagnosis: Diagnosis) -> None:
    fix = change(diagnosis("julia.block6x6"), "GRD404")
    assert fix.code == "dim3 block(32, 4), grid(60, 480);"  # as julia.block32x4 was launched


@pytest.mark.parametrize(
    ("case", "code", "why"),
    [
        ("digits.thread_rows", "MEM103", "does not follow"),
    ],
)
def test_what_cannot_be_proved_is_no_code(case: str, code: str, why: str, diagnosis: Diagnosis) -> None:
    fix = next(x for f in diagnosis(case).findings if f.code == code for x in f.fixes if x.refused)
    assert why in fix.refused
    assert not fix.code and not fix.edits and fix.price is None


def test_every_change_is_proved_or_refused(diagnosis: Diagnosis) -> None:
    for case in ("bank_conflict.slow", "wave.library", "spill.slow", "sort16.insertion", "fft1024.packed"):
        for finding in diagnosis(case).findings:
            for fix in finding.fixes:
                assert bool(fix.refused) != fix.printable
                assert all(c.state in ("proved", "assumed", "check") for c in fix.conditions)


def test_doubles_by_intent_are_left_alone(diagnosis: Diagnosis) -> None:
    for case in ("groupby_f64.shared", "series_f64.base"):
        assert all(not f.fixes for f in diagnosis(case).findings if f.code == "CMP203")


@given(st.integers(0, 2**32 - 1), st.integers(1, 2**32 - 1))
def test_quotients_are_exact(n: int, d: int) -> None:
    assert divisors.quotient(n, d) == n // d


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("y = 2.0 * x;", "y = 2.0f * x;"),
        ("y = exp(1e-3) + .5;", "y = expf(1e-3f) + .5f;"),
        ("y = 2.0f + a.x1.0;", "y = 2.0f + a.x1.0;"),
        ("double y = 2.0;", "double y = 2.0;"),
        ("std::exp(x); v.exp(x); i = 3;", "std::exp(x); v.exp(x); i = 3;"),
    ],
)
def test_float_forms(text: str, becomes: str) -> None:
    assert literals.as_float(text) == becomes


def test_doubles_that_have_a_name_are_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    def why(declared: str) -> str:
        text = Text("k.cu", 1, f"__global__ void k(float* x) {{ {declared}\n  s += x[0] * 2.0; }}")
        monkeypatch.setattr(literals, "kernel_text", lambda setting: text)
        monkeypatch.setattr(literals, "places", lambda setting, found: [rewrite.Place("k.cu", 2, "  s += x[0] * 2.0;")])
        return literals._by_name(None, [0])  # type: ignore[arg-type]

    assert why("double n = 1, s = 0;").startswith("s is a double") and not why("float s = 0;")


def test_functions_of_the_file_keep_their_names() -> None:
    lines = ["__device__ float round(float x) {", "  return fabs(x) + floor(x);"]
    own = [name for name in literals.FUNCTIONS if literals._own(name, lines)]
    assert own == ["round"]
    assert literals.as_float("y = round(x * 2.0) + floor(x);", own) == "y = round(x * 2.0f) + floorf(x);"


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("__fadd_rn(__fmul_rn(a, f(b, c)), d)", "fmaf(a, f(b, c), d)"),
        ("__fadd_rn(d, __fmul_rn(a, b))", "fmaf(a, b, d)"),
        ("__fadd_rn(__fmul_rn(a, b) + 1, d)", "__fadd_rn(__fmul_rn(a, b) + 1, d)"),
        ("x__fadd_rn(__fmul_rn(a, b), d)", "x__fadd_rn(__fmul_rn(a, b), d)"),
    ],
)
def test_fused_forms(text: str, becomes: str) -> None:
    assert fused.as_fma(text) == becomes


def test_powers_count_their_multiplications() -> None:
    powers = math_functions._Powers()
    assert rewrite.replaced("powf(x, 12.f) - powf(y, 2.5f)", "powf", powers.of) == "power<12>(x) - powf(y, 2.5f)"
    assert (powers.count, powers.multiplications) == (1, 4)


def test_calls_end_where_they_end() -> None:
    (call,) = rewrite.calls_of("a + powf(b[f(1, 2)], {3, 4}) + c", "powf")
    assert call.arguments == ("b[f(1, 2)]", "{3, 4}")
    assert rewrite.calls_of("powf(b", "powf") == []
    assert rewrite.calls_of("__powf(b, 1) + x.powf(1)", "powf") == []


def test_triton_is_told_in_its_own_words(diagnosis: Diagnosis) -> None:
    stages = change(diagnosis("triton_matmul.stage1"), "LAT307")
    assert stages.language == "triton" and "num_stages=3" in stages.code
    assert stages.proof[0].after > stages.proof[0].before
    programs = change(diagnosis("triton_gather.block32"), "GRD404")
    assert programs.language == "triton" and "num_warps=4" in programs.code
    assert (programs.proof[0].before, programs.proof[0].after) == (32, 64)
    assert all(not f.fixes for f in diagnosis("triton_matmul.stage4").findings if f.code == "LAT307")


def test_a_change_is_worth_as_much_whichever_finding_asks_for_it(diagnosis: Diagnosis) -> None:
    """Eight lanes a row mend idle lanes, barriers and short threads at once: 17.8x measured, 1.6x for the barriers."""
    found = [(f, x) for f in diagnosis("rank16.block").findings for x in f.fixes if "lanes a row" in x.title]
    assert [f.code for f, _ in found] == ["GRD404", "LAT304", "GRD405"] and len({x.title for _, x in found}) == 1
    assert all(x.price == found[0][0].estimate for _, x in found)
    most = found[0][0].estimate
    assert most is not None
    assert all(f.estimate is not None and f.estimate.speedup < most.speedup / 1.5 for f, _ in found[1:])
