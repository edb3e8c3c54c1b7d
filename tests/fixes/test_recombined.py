"""Places that divisions take apart and sums put together again."""

from __future__ import annotations

import pytest

from kscope.fixes.algebra.recombined import recombined, remainder
from tests.support.with_sources import changes

HEAD = "__global__ void k(const float* a, float* out, int n, int c, int h, int w, long long m) {\n"
FLAT = "  int i = blockIdx.x * 128 + threadIdx.x;\n  "


def rewritten(line: str) -> str | None:
    code = HEAD + FLAT + line + "\n}"
    one = recombined(code)
    if one is None:
        return None
    assert one.ran > 4000
    for start, end, new in sorted(one.spans, reverse=True):
        code = code[:start] + new + code[end:]
    return " ".join(code[len(HEAD + FLAT) : -2].split())


def test_the_capture_that_takes_a_place_apart_and_puts_it_together() -> None:
    fix = changes("int_division.slow", "CMP205")[0]
    assert fix.title.startswith("places that divisions took apart")
    (edit,) = fix.edits
    assert edit.becomes.strip() == (
        "int j_within = i < (c * h * w) ? i : i % (c * h * w), j_step = 977 < (c * h * w) ? 977 : 977 % (c * h * w); "
        "for (int k = 0; k < 8; k++) { s += in[j_within]; "
        "if ((j_within += j_step) >= (c * h * w)) j_within -= (c * h * w); }"
    )
    assert [c.state for c in fix.conditions] == ["proved", "check", "check"]
    assert fix.conditions[2].holds == "2 * c * h * w fits in its factors' type" and not fix.code
    assert fix.conditions[0].by == "values" and fix.price is not None


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("int x = i % w, y = i / w; out[y * w + x] = a[i];", "out[i] = a[i];"),
        ("int x = i % w, y = i / w % h, z = i / w / h; out[x + w * (y + h * z)] = 1;", "out[i] = 1;"),
        ("int x = i % w, y = i / w % h, z = i / (h * w); int at = z * h * w + y * w + x; out[at] = x > 2;",
         "int x = i % w; int at = i; out[at] = x > 2;"),
        ("int z = i / (h * w), r = i - z * h * w, y = r / w, x = r - y * w; out[(z * h + y) * w + x] = 1;",
         "out[i] = 1;"),
        ("int x = i & 31, y = i >> 5; out[y * 32 + x] = a[i / w * w + i % w];", "out[i] = a[i];"),
        ("int hw = h * w, p = i % hw; out[(p / w) * w + p % w + i / hw * hw] = 1;", "out[i] = 1;"),
        ("int x = i % w, y = i / w % h; out[y * w + x + m] = 1;",
         "out[remainder_within(i, h * w) + m] = 1;"),
    ],
)  # fmt: skip
def test_digits_beside_each_other_are_the_number(line: str, becomes: str | None) -> None:
    assert rewritten(line) == becomes


@pytest.mark.parametrize(
    "line",
    [
        "int x = i % w, y = i / w % h, z = i / (w * h); out[(z * w + x) * h + y] = 1;",  # another order
        "int x = i % w, y = i / w; out[y * h + x] = 1;",  # rows of another length
        "int x = i % w, y = i / h; out[y * w + x] = 1;",
        "int x = i % w, y = i / w; out[y * w - x] = 1;",
        "int x = i % w, y = i / w; out[y * w + x + 1] = x; a[x] = y;",  # both are asked for anyway
        "int x = i % w, y = i / w; w = 3; out[y * w + x] = 1;",  # not the same w
        "int x = i % w, y = i / w; y++; out[y * w + x] = 1;",
        "int x = i % w, y = (i + 1) / w; out[y * w + x] = 1;",  # of another number
        "int x = i % w, y = i / w; i += 5; out[y * w + x] = i;",
        "float x = i % w, y = i / w; out[y * w + x] = 1;",
        "out[i] = a[i];",
    ],
)
def test_other_places_stay(line: str) -> None:
    assert rewritten(line) is None


def test_a_remainder_by_a_multiplication_is_exact_where_the_quotient_is_one_too_small() -> None:
    assert all(remainder(n, d) == n % d for d in range(1, 300) for n in (0, d - 1, d, 2 * d - 1, 7 * d, 2**32 - 1))


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("for (int k = 0; k < n; k++) { int j = i + k; out[j / w % h * w + j % w] = k; }", "j_within = i < (h * w)"),
        ("#pragma unroll 4\n  for (int k = 0; k < n; ++k) { int j = 5 * k + i + m; out[j / w % h * w + j % w] = k; }",
         "j_within = (i + m) < (h * w)"),
        ("for (int k = 2; k < n; k++) { int j = i + k; out[j / w % h * w + j % w] = k; }", None),  # starts elsewhere
        ("for (int k = 0; k < n; k += 2) { int j = i + k; out[j / w % h * w + j % w] = k; }", None),
        ("for (int k = 0; k < n; k++) { int j = i - k; out[j / w % h * w + j % w] = k; }", None),
        ("for (int k = 0; k < n; k++) { int j = i + k; if (m) continue; out[j / w % h * w + j % w] = k; }", None),
        ("for (int k = 0; k < n; k++) { int j = i + k; out[j / w % h * w + j % w] = k; i += 3; }", None),
        ("for (int k = 0; k < n; k++) { int j = i * k; out[j / w % h * w + j % w] = k; }", None),
    ],
)  # fmt: skip
def test_a_remainder_is_carried_along_where_each_round_moves_it_by_the_same(text: str, start: str | None) -> None:
    new = rewritten(text)
    assert (new is not None and "j_within" in new) == (start is not None)
    if new is not None and start is not None:
        assert start in new and "for (int k = 0;" in new and new.endswith("j_within -= (h * w); }")
        assert ("#pragma" in new) == ("#pragma" in text) and "; #pragma" not in text
