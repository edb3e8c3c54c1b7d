"""Products that each round of a loop makes of the same numbers."""

from __future__ import annotations

import pytest

from kscope.fixes.algebra.repeated import Repeated, deviation, repeated
from tests.support.with_sources import changes

MMA = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
WHOLE = "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"
SUMS = "float acc[2][4] = {}; unsigned p[4] = {1, 2, 3, 4}, q[2] = {x, x};"
LOOP = "for (int t = 0; t < n; t++)"


def assembly(name: str = MMA, sums: str = "acc[0]", inside: str = "p[0]") -> str:
    outs = ", ".join(f'"+f"({sums}[{n}])' for n in range(4))
    ins = f'"r"({inside}), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(q[0]), "r"(q[1])'
    return f'asm volatile("{name} {{%0,%1,%2,%3}}, {{%4,%5,%6,%7}}, {{%8,%9}}, {{%0,%1,%2,%3}};" : {outs} : {ins});'


def kernel(*lines: str, head: str = "float* out, int n, unsigned x") -> str:
    body = "\n  ".join(lines)
    return f"__global__ void k({head}) {{\n  {body}\n  out[threadIdx.x] = acc[0][0];\n}}"


def found(*lines: str, head: str = "float* out, int n, unsigned x") -> Repeated | None:
    (one,) = repeated(kernel(*lines, head=head)) or [None]
    return one


def rewritten(*lines: str, head: str = "float* out, int n, unsigned x") -> str:
    code, one = kernel(*lines, head=head), found(*lines, head=head)
    assert one is not None
    for start, end, new in sorted(one.spans, reverse=True):
        code = code[:start] + new + code[end:]
    return code


def test_the_capture_makes_its_products_once() -> None:
    (fix,) = [f for f in changes("tensor_loop.mma_sync", "CMP202") if f.kind == "hoist"]
    assert [(e.line, e.becomes.strip()[:21]) for e in fix.edits] == [
        (503, ""), (504, "if (0 < iters)"), (507, "{ float product_n[4] "),
    ]  # fmt: skip
    assert fix.edits[2].becomes.count("= fmaf((float)iters, product_n[") == 4
    assert '"+f"(product_n[3]) : "r"(a[0])' in fix.edits[2].becomes
    assert [c.state for c in fix.conditions] == ["proved", "assumed", "check", "check"]
    assert (fix.proof[0].before, fix.proof[0].after) == (16 * 1081344, 8 * 8 * 264)


def test_other_names_and_loops_around_what_is_added() -> None:
    text = rewritten(SUMS, LOOP, "{", "#pragma unroll", "for (int s = 0; s < 2; s++) {", assembly(sums="acc[s]"), "}}")
    assert "if (0 < n)" in text
    assert "t++" not in text
    assert "acc[s][2] = fmaf((float)n, product_n[2], acc[s][2]);" in text
    one = found(SUMS, LOOP, "for (int s = 0; s < 2; s++)", assembly(sums="acc[s]"))
    assert one is not None
    assert one.products == 2


def test_rounds_are_counted_as_the_loop_does() -> None:
    text = rewritten(SUMS, "for (unsigned t = 3; t < n; t++)", assembly())
    assert "if ((unsigned)3 < n)" in text
    assert "fmaf((float)(unsigned)(n - 3), product_n[0]" in text
    assert found(SUMS, "for (short t = 0; t < n; t++)", assembly()) is None


def test_sums_that_are_read_and_written_by_name() -> None:
    apart = assembly().replace('"+f"', '"=f"').replace("{%0,%1,%2,%3};", "{%10,%11,%12,%13};")
    ends = ", ".join(f'"f"(acc[0][{n}])' for n in range(4))
    text = rewritten(SUMS, LOOP, apart.replace("(q[1]));", f"(q[1]), {ends});"))
    assert '"r"(q[1]), "f"(product_n[0])' in text
    others = ends.replace("acc[0]", "acc[1]")
    assert found(SUMS, LOOP, apart.replace("(q[1]));", f"(q[1]), {others});")) is None


def test_sums_of_names_of_their_own() -> None:
    line = assembly()
    for n in range(4):
        line = line.replace(f"acc[0][{n}]", f"d{n}")
    text = rewritten(SUMS + " float d0 = 0, d1 = 0, d2 = 0, d3 = 0;", LOOP, line)
    assert "d1 = fmaf((float)n, product_n[1], d1); d2 = fmaf(" in text
    assert found(SUMS + " float d0 = 0, d1 = 0, d2 = 0; double d3 = 0;", LOOP, line) is None
    assert found(SUMS + " float d0 = 0, d1 = 0, d2 = 0, d3 = 0;", LOOP, line.replace('"r"(p[1])', '"r"(d2)')) is None


def test_whole_numbers_are_exact() -> None:
    line = f'asm("{WHOLE} {{%0,%1}}, {{%2}}, {{%3}}, {{%0,%1}};" : "+r"(c[0]), "+r"(c[1]) : "r"(x), "r"(x));'
    text = rewritten("int c[2] = {0, 0}; float acc[1][1];", LOOP, line)
    assert "c[1] = (int)((unsigned)c[1] + (unsigned)n * (unsigned)(product_n[1]));" in text
    one = found("int c[2] = {0, 0}; float acc[1][1];", LOOP, line)
    assert one is not None
    assert one.kinds == {"int"}
    cut = line.replace("col.s32", "col.satfinite.s32")
    assert found("int c[2] = {0, 0}; float acc[1][1];", LOOP, cut) is None


def test_fragments_of_wmma() -> None:
    given = " ".join(f"wmma::fragment<wmma::matrix_{x}, 16, 16, 16, half, wmma::row_major> {x};" for x in "ab")
    sums = "wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[2];"
    text = rewritten(given, sums, "for (int r = 2; r < n; ++r) { wmma::mma_sync(c[0], a, b, c[0]); }")
    assert "{ auto product_n = c[0]; wmma::fill_fragment(product_n, 0.0f); wmma::mma_sync(product_n, a, b, p" in text
    assert "c[0].x[element_n] = fmaf((float)(n - 2), product_n.x[element_n], c[0].x[element_n]);" in text
    assert found(given, sums.replace("float", "half"), LOOP, "wmma::mma_sync(c[0], a, b, c[0]);") is None
    assert found(given, sums, LOOP, "wmma::mma_sync(c[0], a, b, c[1]);") is None


@pytest.mark.parametrize(
    "lines",
    [
        [SUMS, LOOP, "{", assembly(), "p[0] ^= 1; }"],  # an operand changes
        [SUMS, LOOP, "{", assembly(), "if (acc[0][0] > 9) break; }"],
        [SUMS, LOOP, assembly(inside="p[t]")],
        [SUMS, "if (x)", LOOP, assembly(), "else acc[1][0] = 1;"],  # whose else it would be
        [SUMS, LOOP, assembly(inside="x + t")],
        [SUMS, LOOP, assembly(inside="next()")],
        ["volatile unsigned p[4] = {}; unsigned q[2] = {}; float acc[2][4];", LOOP, assembly()],
        ["__shared__ unsigned p[4]; unsigned q[2] = {}; float acc[2][4];", LOOP, assembly()],
        ["unsigned* p = other; unsigned q[2] = {}; float acc[2][4];", LOOP, assembly()],
        [SUMS + " change(&p);", LOOP, assembly()],
        [SUMS + " unsigned& r = p[0];", LOOP, assembly(inside="r")],
        [SUMS, "for (int t = 0; t < out[0]; t++)", assembly()],  # how many rounds is not known
        [SUMS, "for (int t = 0; t < n; t += x)", assembly()],
        [SUMS, "for (int t = 0; t < n - t; t++)", assembly()],
        [SUMS, "while (n > 0) { n -= 3; ", LOOP, assembly(), "}"],
        [SUMS, "for (int t = 0; t < n; t++) { n--; ", assembly(), "}"],
        [SUMS, "for (int u = 0; u < n; u++) { acc[0][0] = 0;", LOOP, assembly(), "}"],
        [SUMS, LOOP, assembly(MMA.replace("f32.tf32.tf32.f32", "f16.f16.f16.f16"))],
        [SUMS, LOOP, assembly().replace("(q[1]));", '(q[1]) : "memory");')],
        [SUMS, LOOP, "{", assembly(), "__syncthreads(); }"],
        [SUMS, LOOP, "{", assembly(), "out[t] = acc[0][1]; }"],
    ],
)
def test_what_may_differ_from_round_to_round_stays(lines: list[str]) -> None:
    assert found(SUMS, LOOP, assembly()) is not None
    assert found(*lines) is None


def test_a_chain_of_doubles_in_which_lanes_load_the_matrices() -> None:
    (fix,) = changes("dmma.chain", "CMP208")
    assert fix.edits[-1].becomes.count("fma((double)n, product_n[") == 2
    assert "rounds / 2^52" in fix.conditions[2].holds
    assert fix.price is None


@pytest.mark.parametrize(("kind", "bits"), [("float", 23), ("double", 52)])
def test_rounding_is_what_rounds_make_of_it(kind: str, bits: int) -> None:
    apart, ran = deviation(1024, kind)
    assert 0 < apart < 1024 / 2**bits
    assert ran == 128
    assert deviation(1, kind)[0] <= 2.0**-bits
