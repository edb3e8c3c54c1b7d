"""Rows that all threads of a block read alike, in tiles of shared memory."""

from __future__ import annotations

import pytest

from kscope.fixes.given.text import loops
from kscope.fixes.pipeline import read_alike
from kscope.fixes.pipeline.read_alike import written
from kscope.fixes.pipeline.row_reads import alike
from kscope.model.kernel import Launch
from tests.support.with_sources import changes

KNOWN = {"D": 8, "WIDE": 12}
CODE = """__global__ void near(const float* __restrict__ x, const float* means, const int* w, float* out, int count) {
  int mine = blockIdx.x * 32 + threadIdx.x; float least = 1e30f; means += blockIdx.y * D;
  for (int q = 0; q < count; ++q) {
    float far = 0;
    for (int c = 0; c < D; c++) { float d = x[mine * D + c] - means[q * D + c]; far += d * d * w[WIDE * q + 11]; }
    least = fminf(least, far);
  }
  out[blockIdx.y * 64 + mine] = least;
}"""
LAUNCH = Launch((4, 2, 1), (32, 1, 1), (1, 1, 1), 32, 0, 0, None)


def found(code: str) -> list[tuple[str, int, int]]:
    every = [(one, alike(code, one, KNOWN, code)) for one in loops(code)]
    return [(r.name, r.words, len(r.uses)) for _, rows in every for r in rows]


def test_the_capture_whose_threads_all_read_the_same_keys() -> None:
    (fix,) = changes("attn.global", "MEM112")
    edit, *others = fix.edits
    assert edit.line == 13 and not any(e.becomes.strip() for e in others)
    assert "k_rows[e] = k[j_first * AD + e]; v_rows[e] = v[j_first * AD + e];" in edit.becomes
    assert "s += a[c] * k_rows[(j - j_first) * AD + c];" in edit.becomes
    assert [c.state for c in fix.conditions] == ["proved", "proved", "assumed", "proved", "check", "check"]
    assert fix.conditions[1].ran == 128 * 32
    assert fix.proof[0].before == 128 * fix.proof[0].after


def test_other_names_sizes_and_types_and_a_number_of_rows_that_is_given() -> None:
    assert found(CODE) == [("means", 8, 1), ("w", 12, 1)]
    (loop,) = [one for one in loops(CODE) if one.name == "q"]
    rows = alike(CODE, loop, KNOWN, CODE)
    new = written(CODE, loop, rows, 16, KNOWN, (32, 2, 1))
    assert "__shared__ __align__(16) int w_rows[16 * WIDE];" in new
    assert "e < 16 * D && e < (count - q_first) * D; e += 64" in new and "threadIdx.x + 32 * threadIdx.y" in new
    assert "for (int q = q_first; q < count && q < q_first + 16; ++q) {" in new
    assert "means_rows[(q - q_first) * D + c]" in new and "w_rows[(q - q_first) * WIDE + 11]" in new
    assert read_alike.played(CODE, loop, rows, KNOWN, LAUNCH) == 2 * 32


@pytest.mark.parametrize(
    ("was", "becomes", "begin"),
    [
        ("means[q * D + c]", "means[(blockIdx.y * count + q) * D + c]", "(blockIdx.y * count + q_first) * D + 0"),
        ("means[q * D + c]", "means[c + D * q + 1]", "0 + D * q_first + 1"),
        ("float far = 0;", "float far = 0; const float* one = means + q * D;", "q_first * D"),
        ("least = fminf(least", "least = fminf(fminf(INFINITY, least)", "q_first * D"),
        ("float far = 0;", "float far = 0; const float* one = &means[(q + 2) * D];", "(q_first + 2) * D + 0"),
    ],
)
def test_rows_that_begin_elsewhere_or_have_a_pointer_of_their_own(was: str, becomes: str, begin: str) -> None:
    code = CODE.replace(was, becomes, 1)
    code = code.replace("means[q * D + c]", "one[c]") if " one =" in becomes else code
    (loop,) = [one for one in loops(code) if one.name == "q"]
    rows = alike(code, loop, KNOWN, code)
    assert [(r.name, r.begin, r.words) for r in rows][:1] == [("means", begin, 8)]
    assert read_alike.played(code, loop, rows, KNOWN, LAUNCH) == 2 * 32


def test_what_comes_out_otherwise_is_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    (loop,) = [one for one in loops(CODE) if one.name == "q"]
    rows = alike(CODE, loop, KNOWN, CODE)
    for was, becomes in (("(q - q_first)", "(q - q_first + 1)"), ("__syncthreads();", ""), ("e += 32", "e += 64")):
        other = lambda *given, w=was, b=becomes: written(*given).replace(w, b)  # noqa: E731
        monkeypatch.setattr(read_alike, "written", other)
        assert not read_alike.played(CODE, loop, rows, KNOWN, LAUNCH), was


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("float least", "if (mine >= count) return; float least"),  # not all come to the barriers
        ("least = fminf", "if (far > 9) break; least = fminf"),
        ("least = fminf", "__syncthreads(); least = fminf"),
        ("q < count", "q < mine"),  # other rounds in each thread
        ("int q = 0", "int q = mine"),
        ("++q", "q += 2"),
        ("means += blockIdx.y * D;", "count += mine;"),
        ("  for (int q", "  if (mine) for (int q"),
        ("  for (int q", "  for (int twice = 0; twice < 2; twice++) for (int q"),
    ],
)
def test_loops_that_threads_do_not_pass_alike_have_none(was: str, becomes: str) -> None:
    assert was in CODE
    assert not found(CODE.replace(was, becomes, 1))


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("means[q * D + c]", "means[q * D + 2 * c]"),
        ("means[q * D + c]", "means[q * q * D + c]"),
        ("means[q * D + c]", "means[(q + far) * D + c]"),  # which changes in the round
        ("means[q * D + c]", "means[q * D + c] + means[(q + 1) * D + c]"),
        ("means[q * D + c]", "means[q * D + mine]"),
        ("means[q * D + c]", "means[q * count + c]"),
        ("means[q * D + c]", "(means + 1)[q * D + c]"),
        ("means[q * D + c]", "means[q * D + c] + means[c]"),
        ("c < D", "c < WIDE"),
        ("float far = 0;", "float far = 0; if (q == 3) continue;"),  # a row that may not be there
        ("float far = 0;", "float far = 0; if (q < count / 2)"),
        ("float far = 0;", "float far = 0; for (int h = 0; h < count; h++)"),
        ("c < D", "c < 7"),  # who says that the last row is whole
        ("least = fminf", "means++; least = fminf"),
        ("const float* means", "float* means"),
    ],
)
def test_arrays_that_are_read_in_other_ways_stay(was: str, becomes: str) -> None:
    assert was in CODE
    assert "means" not in [name for name, _, _ in found(CODE.replace(was, becomes, 1))]
