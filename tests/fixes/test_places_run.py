"""Local arrays whose places are asked one by one, on the host: before and after they leave the same numbers behind."""

from __future__ import annotations

from pathlib import Path

from kscope.fixes.local.places_asked import CODE, asked
from tests.support.on_host import wrong

HEAD = "__global__ void f(const float* x, float* y, int n) {\n"
FILL = "float a[4]; for (int i = 0; i < 4; ++i) a[i] = x[i];"
PUT, ALL = "int a[4] = {1, 2, 3, 4}; int k = n & 3;", "for (int i = 0; i < 4; i++) y[i] = a[i];"
BODIES = [
    f"{FILL} int m = n & 3; a[m] += a[m ^ 1] * 2; y[4] = a[m]; {ALL}",
    f"{FILL} for (int i = 0; i < n; i++) {{ y[i] = a[i]; if (a[i] > 5) break; }} y[9] = a[n & 3];",
    f"{FILL} for (int i = 0; i < n; i++) {{ y[i] = a[i]; if (a[i] > 5) n--; }} y[9] = a[n & 3];",
    f"{FILL} for (unsigned i = 0; i < n; i += 2) {{ if (a[i] > 5) continue; y[i] += 7; }} y[9] = a[n & 3];",
    f"{FILL} if (n > 2) a[n & 3]++;\n else if (n > 1) a[n & 1] *= 3; else a[0] = 1; {ALL}",
    f"short a[4] = {{1, 2, 3, 4}}; a[n & 3] <<= 14; a[n & 1] -= 40000; {ALL}",
    f"bool a[4] = {{true, false}}; int k = n & 3; a[k] = n; a[k ^ 1] |= 6; a[k ^ 2] = !a[k]; {ALL}",
    f"{PUT} a[k] = x[0] * 1.5f; a[k ^ 1] += n > 1 ? 5 : 6; a[k ^ 2] *= 2 + n; {ALL}",
    f"{PUT} int b[4] = {{3, 2, 1, 0}}; a[b[k]] = b[a[0] & 3]; b[k]++; y[5] = b[k]; {ALL}",
    f"{PUT} y[k] = -a[k]; y[4] = !a[k]; y[5] = ~a[k]; y[6] = a[k] & a[0]; y[7] = (float)a[k]; y[8] = n & a[k];",
    f"{PUT} for (int i = 0; i < a[k]; i++) y[i] = a[i] * a[k];",
    f"{PUT} auto g = [&](int q) {{ return a[q]; }}; a[k] = 9; y[0] = g(2) + g(k);",
    f"{PUT} for (int i = 0; i < n; i++) {{ y[i] += a[i]; for (int j = 0; j < i; j++) y[i] += a[j] * a[k]; }}",
    f"{PUT} for (int i = 0; i < n + 3; i++) {{ if (i < n) a[i] += i; y[i] = i; }} y[9] = a[k];",
    f"{PUT} {{ int k = 2; a[k] = 8; }} for (int k = 0; k < 3; k++) a[k] += k; {ALL}",
]


def test_each_access_finds_its_element(tmp_path: Path) -> None:
    pairs = []
    for body in BODIES:
        code = f"{HEAD}{body}\n}}"
        one = asked(code, {})
        assert one is not None
        new = code
        for start, end, put in sorted(one.spans, reverse=True):
            new = new[:start] + put + new[end:]
        pairs.append((code, new))
    found = wrong(
        tmp_path, pairs, name="f", call="a + m, out, n & 3", above=f"#define __forceinline__ inline\n{CODE}",
        blocks=(1, 1), shifts="0",
    )  # fmt: skip
    assert found == [0] * len(BODIES)
