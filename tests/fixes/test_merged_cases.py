"""A switch whose cases are the same statements with other numbers becomes one body."""

from __future__ import annotations

import re

import pytest

from kscope.fixes.cases.folded import folded, number, representable, word
from kscope.fixes.cases.laws import law
from kscope.fixes.cases.merged import Made, as_one
from kscope.fixes.cases.switches import file_text, switches, without_comments
from kscope.fixes.cases.templates import Templates, expression
from kscope.fixes.cases.variables import local_arrays
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.text import blanked
from kscope.fixes.roles.macros import expanded, macros
from tests.support.with_sources import changes

LARGE, SMALL = 256 << 10, 32 << 10


def merged(source: str, size: int = LARGE) -> Made | None:
    lines = source.split("\n")
    known = macros([lines])

    def plain(text: str) -> str:
        return expanded(text, known)

    first = next(n for n, line in enumerate(lines) if "__global__" in line)
    code = without_comments("\n".join(map(blanked, lines[first:])))
    (one,) = switches(code, plain)
    return as_one(code, one, Templates(file_text(lines), plain), lambda: size)


def kernel(cases: str, head: str = "", value: str = "op[i] & 7", before: str = "") -> str:
    return f"""{head}
__global__ void run(float* out, const int* op, const float* w, int n) {{
  float x = threadIdx.x, y = 1, s = 0.1f; {before}
  for (int i = 0; i < n; i++) {{
    switch ({value}) {{ {cases} }}
  }}
  out[threadIdx.x] = x + y + s;
}}"""


def eight(name: str = "C") -> str:
    return " ".join(f"{name}({n})" for n in range(8))


def test_a_capture_of_operators_has_one_body_for_128_cases() -> None:
    (fix,) = changes("operators.specialised", "LAT306")
    assert fix.kind == "unroll"
    (edit,) = fix.edits
    assert "const int way = mix(w * 977 + i) & 127;" in edit.becomes
    assert "const float number0 = 0.5f + 0.0030517578f * way;" in edit.becomes
    assert "#pragma unroll\n    for (int step = 0; step < 25; step++) {" in edit.becomes
    assert "a = a * m + (number0 + 0.00012207031f * step);" in edit.becomes
    assert not fix.code
    (values,) = [c for c in fix.conditions if c.by == "values"]
    assert values.state == "proved"
    assert values.ran == 128 * 25 * 4
    assert fix.price is not None
    assert fix.proof[0].before > 200 << 10 > fix.proof[0].after


def test_functions_of_a_template_are_written_out_with_their_loops() -> None:
    stage = """template <int K> __device__ __forceinline__ void stage(float& u, float& v, const float* t) {
  #pragma unroll
  for (int r = 0; r < 8; r++) {
    const float f = 1.0f + (K * 8 + r) * 0.25f;
    u = fmaf(u, f, t[K * 8 + r]); v += u * 0.3f;
  }
}
#define C(k) case k: stage<k>(x, y, w); break;"""
    found = merged(kernel(eight() + " default: y = -y;", stage, "op[i]"), SMALL)
    assert found is not None
    assert "if (chosen >= 0 && chosen <= 7) {" in found.text
    assert "} else switch (chosen) {" in found.text
    assert "default: y = -y;" in found.text
    assert "x = fmaf(x, (number0 + 0.25f * step), w[(number1 + step)]);" in found.text
    assert "const float number0 = 1.0f + 2.0f * way;" in found.text
    assert "const int number1 = 8 * way;" in found.text


def test_a_body_that_no_cache_holds_is_unrolled_as_far_as_it_fits() -> None:
    stage = """template <int K> struct Stage { static __device__ void go(float& u) {
  for (int r = 0; r < 64; r++) u = u * 0.5f + (K * 64 + r); } };
#define C(k) case k: Stage<k>::go(x); break;"""
    found = merged(kernel(eight(), stage))
    assert found is not None
    assert "#pragma unroll 16\n" in found.text  # 8 KiB of 32 a case
    assert found.after == pytest.approx(8 << 10)


def test_numbers_that_follow_no_law_are_looked_up() -> None:
    weights = ("0.113f", "0.27f", "0.55f", "0.91f", "0.33f")
    cases = " ".join(f"case {n + 3}: x = x * {one} + s; break;" for n, one in enumerate(weights))
    found = merged(kernel(cases, value="op[i]"))
    assert found is not None
    assert found.writer.tables == [f"__device__ const float run_number0[5] = {{{', '.join(weights)}}};"]
    assert "__ldg(&run_number0[way - 3])" in found.text


def test_a_case_of_other_statements_stays_in_the_switch() -> None:
    cases = " ".join(f"case {n}: x += {n}; break;" for n in range(6)) + " case 6: y = x; break; case 7: s = y;"
    found = merged(kernel(cases))
    assert found is not None
    assert "chosen <= 5" in found.text
    assert "case 6: y = x; break;" in found.text
    assert "case 7: s = y;" in found.text


def test_names_of_a_body_are_no_names_of_the_new_text() -> None:
    stage = """template <int K> __device__ void go(float& u, float by) { float step = u * by; u = step + K; }
#define C(k) case k: go<k>(x, s); break;"""
    found = merged(kernel(eight(), stage, before="float way = 1; x += way;"))
    assert found is not None
    assert "const int way_ = op[i] & 7;" in found.text
    assert "float step = x * s;" in found.text


@pytest.mark.parametrize(
    ("cases", "before", "why"),
    [
        ("x += K;", "", "goes on"),  # falls into the next
        ("r[K] = r[K] * s; break;", "float r[8] = {};", "registers"),
        ("x = x / K.5f; break;", "", "divisor"),
        ("x = x * K.0f + y * s; break;", "", "fused"),
        ("if (x > K) break; y += 1; break;", "", "leave"),
        ("x += K; __syncthreads(); break;", "", "another kind"),
        ("float r[K + 1]; r[0] = x; y += r[0]; break;", "", "length"),
        ("x += __popc(__activemask()) * K; break;", "", "another kind"),
        ("x += K; return;", "", "goes on"),
        ('asm volatile("mov.f32 %0, K;" : "=f"(x)); break;', "", "another kind"),
        ("x += unknown<K>(y); break;", "", "template"),
    ],
)
def test_what_is_not_understood_is_refused(cases: str, before: str, why: str) -> None:
    text = " ".join(f"case {n}: {cases.replace('K', str(n + 1))}" for n in range(8))
    with pytest.raises(Unplayable, match=why):
        merged(kernel(text, before=before))


def test_what_a_template_changes_by_reference_is_no_constant() -> None:
    stage = """template <int K> __device__ void go(float& u, float by) { u = u * by; u = u + by * K; }
#define C(k) case k: go<k>(x, x); break;"""
    found = merged(kernel(eight(), stage))
    assert found is not None
    assert "float by = x;" in found.text  # its value before u changes


def test_what_is_copied_for_a_reference_is_no_other_name() -> None:
    stage = """template <int K> __device__ void go(float& u, const float& by) { u = u * 0.3f + by * K; }
#define C(k) case k: go<k>(x, d); break;"""
    with pytest.raises(Unplayable, match="parameter"):
        merged(kernel(eight(), stage, before="double d = 0.1;"))
    assert merged(kernel(eight(), stage, before="float d = 0.1;")) is not None


def test_a_name_that_the_kernel_hides_is_another() -> None:
    stage = """__constant__ float bias[8];
template <int K> __device__ void go(float& u) { u = u * 0.3f + BIAS[K]; }
#define C(k) case k: go<k>(x); break;"""
    assert merged(kernel(eight(), stage.replace("BIAS", "bias"))) is not None
    with pytest.raises(Unplayable, match="hides"):
        merged(kernel(eight(), stage.replace("BIAS", "w")))


def test_cases_that_are_not_most_of_the_code_are_left_alone() -> None:
    assert merged(kernel(" ".join(f"case {n}: x += {n}; break;" for n in range(8))), 0) is None
    assert merged(kernel("case 0: x += 1; break; case 1: x = y; break; case 2: y = s; break;")) is None


def test_a_law_holds_for_all_numbers_or_for_none() -> None:
    rows = [[word_of(0.5 + (case * 25 + step) / 8192) for step in range(25)] for case in range(16)]
    found = law(rows, range(16))
    assert found is not None
    assert found.by_case("k") == "0.5f + 0.0030517578f * k"
    rows[7][3] = word_of(0.6)
    assert law(rows, range(16)) is None
    assert law([[word_of(0.1 * n)] for n in range(8)], range(8)) is None  # tenths are rounded each in its way
    assert law([["1.0f"], ["2"]], range(2)) is None
    assert law([["2000000000"], ["0"], ["-2000000000"]], range(3)) is None  # 2 * -2000000000
    assert law([["0"], ["2000000000"]], [1, 2]) is None
    assert law([["0.0f"], ["-0.0f"]], range(2)) is None


def word_of(value: float) -> str:
    found = number(f"{value!r}f")
    assert found is not None
    return word(found)


@pytest.mark.parametrize(
    ("text", "gives"),
    [
        ("7 / 2 * 2", "6"), ("-7 / 2", "-3"), ("-7 % 4", "-3"), ("1u - 2", "4294967295u"), ("1 << 4", "16"),
        ("0.1f + 0.2f", "0.3f"), ("0.5f + 325 / 8192.f", "0.53967285f"), ("3 > 2 ? 5 : 6", "5"), ("(float)3", "3.0f"),
        ("(int)2.7f", "2"), ("0x10 | 3", "19"),
    ],
)  # fmt: skip
def test_numbers_are_what_cpp_makes_of_them(text: str, gives: str) -> None:
    from kscope.fixes.cases.instances import Instances

    assert Instances(Templates("", str), {}).put(expression(text), {}) == ("number", gives)


@pytest.mark.parametrize("text", ["1 / 0", "2147483647 + 1", "1.0f / 0", "1 << 40"])
def test_what_cpp_leaves_open_is_not_worked_out(text: str) -> None:
    assert folded(expression(text))[0] == "binary"


def test_a_float_has_24_bits() -> None:
    from fractions import Fraction

    assert representable(Fraction((1 << 24) - 1, 1 << 20), "float")
    assert not representable(Fraction((1 << 24) + 1, 1 << 20), "float")
    assert not representable(Fraction(1, 3), "double")
    assert not representable(Fraction(1, 1 << 140), "float")  # flushed to zero where the compiler may
    assert re.fullmatch(r"[\d.e-]+f", word_of(1e-20))


def test_arrays_of_a_thread_are_found_however_they_are_declared() -> None:
    text = """__global__ void run(float* w, int n) {
  __shared__ float tile[4]; float x = w[0], y[2] = {}, z[3]; Pair<int, 2> pairs[4]; const half2 h[2] = {a, b}, g[1];
  int* p = q; for (int i = 0; i < 4; i++) { unsigned bits[2]; w[i] = x * tile[i]; }
  #pragma unroll
  vec own[2]; return w[3];
}"""
    assert local_arrays(text) == {"y", "z", "pairs", "h", "g", "bits", "own"}


def gone_through(body: str, of: str = "int K", call: str = "go<k>(x, y)") -> str:
    return f"template <{of}> __device__ void go(float& u, float by) {{ {body} }}\n#define C(k) case k: {call}; break;"


def test_what_others_are_compiled_of_is_not_read() -> None:
    body = "\n#ifdef FAST\n u = u + K;\n#else\n u = u * 2 + K;\n#endif\n"
    with pytest.raises(Unplayable):
        merged(kernel(eight(), gone_through(body)))
    found = merged(kernel(eight(), gone_through(body.replace("#ifdef FAST\n", "").partition("#else")[0])))
    assert found is not None


def test_a_number_of_a_template_is_of_its_type() -> None:
    found = merged(kernel(eight(), gone_through("u = u + (K - 5) / 2;", "unsigned K")))
    assert found is not None
    assert "2147483645u" in found.writer.tables[0]


@pytest.mark.parametrize("chosen", ["true", "0x1", "1u"])
def test_a_structure_for_a_number_is_found_however_that_is_written(chosen: str) -> None:
    of = "bool B" if chosen == "true" else "int B"
    head = f"""template <int K, {of}> struct S {{ static __device__ void go(float& u) {{ u = u * 2 + K; }} }};
template <int K> struct S<K, {chosen}> {{ static __device__ void go(float& u) {{ u = u * 3 + K; }} }};
#define C(k) case k: S<k, (k >= 0)>::go(x); break;"""
    found = merged(kernel(eight(), head))
    assert found is not None
    assert "x * 3 + number0" in found.text


@pytest.mark.parametrize(
    "inside",
    ["static constexpr float f = 0.5f; static __device__ void go(float& u) { u = u * f + K; }",
     "static __device__ float f(float u) { return u * K; } static __device__ void go(float& u) { u = f(u) + K; }"],
)  # fmt: skip
def test_what_a_structure_has_beside_is_not_known(inside: str) -> None:
    head = f"template <int K> struct S {{ {inside} }};\n#define C(k) case k: S<k>::go(x); break;"
    with pytest.raises(Unplayable, match="structure"):
        merged(kernel(eight(), head))


def test_a_choice_of_numbers_has_the_type_of_both() -> None:
    found = merged(kernel(eight(), gone_through("u = u + (K >= 0 ? 1 : 0.5f) / 2 * by + K;")))
    assert found is not None
    assert "x + 0.5f * y + number0" in found.text
    other = merged(kernel(eight(), gone_through("u = u + (K >= 0 ? n : 0.5f) / 2 * K;").replace("by", "n")))
    assert other is not None
    assert "? y : 0.5f)" in other.text


def test_a_name_that_a_case_hides_is_another() -> None:
    head = gone_through("u = u * bias + K;").replace("go<k>", "{ float bias = x * y; x += bias; go<k>") + " }"
    head = "__constant__ float bias;\n" + head.replace("; break; }", "; } break;")
    with pytest.raises(Unplayable, match="hides"):
        merged(kernel(eight(), head))


def test_the_rest_of_a_long_number_has_a_sign() -> None:
    cases, before = " ".join(f"case {n}: x = x + {n}; break;" for n in range(8)), "long long far = (long long)w[0];"
    found = merged(kernel(cases, value="far % 8u", before=before))
    assert found is not None
    assert "chosen <= 7" in found.text
    found = merged(kernel(cases, value="far % 8ull", before=before))
    assert found is not None
    assert "chosen" not in found.text
