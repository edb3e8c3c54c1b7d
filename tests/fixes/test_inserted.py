"""Sorted lists in local arrays that keys are put into: each place asked, in registers."""

from __future__ import annotations

import pytest

from kscope.fixes.local.inserted import lists, rewritten
from kscope.fixes.local.lists import place_by_place
from kscope.fixes.local.registers import arrays

KNOWN = {"K": 6}
HEAD = "float best[K]; int who[K]; for (int i = 0; i < K; i++) { best[i] = 1e30f; who[i] = -1; } "
TAIL = " for (int i = 0; i < K; i++) y[i] = best[i] + who[i];"
SHIFT = "while (j > 0 && best[j - 1] > d) { best[j] = best[j - 1]; who[j] = who[j - 1]; j--; }"
PUT = "best[j] = d; who[j] = base + p;"


def changed(body: str) -> str | None:
    code = "__global__ void f(const float* x, float* y, int n, int base) {\n" + body + "\n}"
    for one in lists(code, list(arrays(code, KNOWN)), KNOWN):
        made = rewritten(code, one, KNOWN)
        if made is not None:
            for start, end, new in sorted(made[0], reverse=True):
                code = code[:start] + new + code[end:]
            return " ".join(code[code.index("{\n") + 2 : -2].split())
    return None


ASKED = (
    "if (best[K - 1] > d) { #pragma unroll for (int list_at = K - 1; list_at >= 0; list_at--) { "
    "const bool here = best[list_at] > d, on = list_at > 0 && best[list_at > 0 ? list_at - 1 : 0] > d; "
    "who[list_at] = on ? who[list_at > 0 ? list_at - 1 : 0] : here ? base + p : who[list_at]; "
    "best[list_at] = on ? best[list_at > 0 ? list_at - 1 : 0] : here ? d : best[list_at]; } }"
)  # fmt: skip


@pytest.mark.parametrize(
    "piece",
    [
        f"if (d < best[K - 1]) {{ int j = K - 1; {SHIFT} {PUT} }}",
        f"if (d >= best[K - 1]) continue; int j = K - 1; {SHIFT} {PUT}",
        f"int j = K - 1; if (best[j] > d) {{ {SHIFT} {PUT} }}",
        f"const float worst = best[K - 1]; if (d < worst) {{ int j = K - 1; {SHIFT} {PUT} }}",
        "if (best[K - 1] > d) { int j = K - 2; for (; j >= 0; j--) { if (best[j] <= d) break; "
        "best[j + 1] = best[j]; who[j + 1] = who[j]; } best[j + 1] = d; who[j + 1] = base + p; }",
    ],
)  # fmt: skip
def test_a_list_of_the_least_keys_and_where_they_were(piece: str) -> None:
    made = changed(f"{HEAD}for (int p = 0; p < n; p++) {{ float d = x[p]; {piece} }}{TAIL}")
    assert made == (
        "float best[K]; int who[K]; #pragma unroll for (int i = 0; i < K; i++) { best[i] = 1e30f; who[i] = -1; } "
        f"for (int p = 0; p < n; p++) {{ float d = x[p]; {ASKED} }} "
        "#pragma unroll for (int i = 0; i < K; i++) y[i] = best[i] + who[i];"
    )


def test_the_greatest_keys_alone() -> None:
    made = changed(
        "int top[4]; for (int i = 0; i < 4; i++) top[i] = -1; for (int p = 0; p < n; p++) { int v = x[p]; "
        "if (v >= top[3]) { int j = 3; while (j > 0 && top[j - 1] <= v) { top[j] = top[j - 1]; j--; } top[j] = v; } } "
        "y[0] = top[2];"
    )
    assert made is not None and "if (top[3] < v) {" in made and "y[0] = top[2];" in made


@pytest.mark.parametrize(
    "body",
    [
        # not in order from the start, or not any more
        "float best[K]; int who[K]; for (int i = 0; i < K; i++) { best[i] = x[i]; who[i] = -1; } "
        f"for (int p = 0; p < n; p++) {{ float d = x[p]; if (d < best[K - 1]) {{ int j = K - 1; {SHIFT} {PUT} }} }}"
        f"{TAIL}",
        f"{HEAD}for (int p = 0; p < n; p++) {{ float d = x[p]; if (d < best[K - 1]) {{ int j = K - 1; {SHIFT} {PUT} }} "
        f"}} best[2] = 3.f;{TAIL}",
        # a key that is put behind one place only, or is more than compared
        f"{HEAD}for (int p = 0; p < n; p++) {{ float d = x[p]; if (d < best[K - 1]) {{ int j = K - 1; "
        f"{SHIFT.replace('while', 'if')} {PUT} }} }}{TAIL}",
        f"{HEAD}for (int p = 0; p < n; p++) {{ float d = x[p]; if (d < best[K - 1]) {{ int j = K - 1; "
        f"{SHIFT.replace('> d', '> d + 1')} {PUT} }} }}{TAIL}",
        # not all keys are put in
        f"{HEAD}for (int p = 0; p < n; p++) {{ float d = x[p]; if (p == base || d >= best[K - 1]) continue; "
        f"int j = K - 1; {SHIFT} {PUT} }}{TAIL}",
        f"{HEAD}for (int p = 0; p < n; p++) {{ float d = x[p]; if (base < 0 || d >= best[K - 1]) continue; "
        f"int j = K - 1; {SHIFT} {PUT} }}{TAIL}",
        # the place is used elsewhere, or the data choose what is read
        f"{HEAD}for (int p = 0; p < n; p++) {{ float d = x[p]; if (d < best[K - 1]) {{ int j = K - 1; {SHIFT} {PUT} "
        f"y[j] = 1; }} }}{TAIL}",
        f"{HEAD}for (int p = 0; p < n; p++) {{ float d = x[p]; int j = K - 1; if (d < best[j]) {{ {SHIFT} {PUT} }} "
        f"y[j] = 1; }}{TAIL}",
        f"{HEAD}for (int p = 0; p < n; p++) {{ float d = x[p]; if (d < best[K - 1]) {{ int j = K - 1; {SHIFT} {PUT} }} "
        f"}} y[0] = best[base];{TAIL}",
        f"{HEAD}for (int p = 0; p < n; p++) {{ float d = x[p]; if (d < best[K - 1]) {{ int j = K - 1; {SHIFT} "
        f"best[j] = d; who[j] = x[p]; }} else y[p] = 0; }}{TAIL}",
    ],
)  # fmt: skip
def test_what_is_no_list_in_order_stays(body: str) -> None:
    assert changed(body) is None


def test_the_text_asks_from_the_last_place_on() -> None:
    code = f"{{ {HEAD} for (int p = 0; p < n; p++) {{ float d = x[p]; int j = K - 1; {SHIFT} {PUT} }} }}"
    one = next(iter(lists(code, list(arrays(code, KNOWN)), KNOWN)))
    assert one.put == ("d", "base + p") and one.free == ("base", "p")
    assert place_by_place(one, ">").startswith("if (best[K - 1] > d) {\n")
