"""Kernels' text played on whole numbers: what is understood, what is refused, and which products are proved by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.engine.findings.mended import setting_of
from kscope.fixes.compute import fragments, instances, multiplied
from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.played import Rules, play
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.text import Text, kernel_text
from tests.support import thorough
from tests.support.with_sources import changes, diagnosed
from tools.fixes_built import lines_of, pasted, source_of
from tools.fixes_pairs import facts, setting

REVERSED = """{
  __shared__ int tile[64]; int t = threadIdx.x, i = blockIdx.x * blockDim.x + t; int own[2] = {}, s = 0;
  tile[t] = i < n ? x[i] : 0;
  __syncthreads();
  #pragma unroll
  for (int k = 0; k <= t; k++) { if (k % 2 == 0) s += tile[k]; else s -= tile[k]; own[k & 1] += tile[k]; }
  if (i >= n) return;
  y[n - 1 - i] = s + 10 * own[1];
}"""


LEAVING = """{
  int i = threadIdx.x, s = 0;
  for (int k = 0; k < 9; k++) {
    if (k == i) continue;
    switch (x[k] % 4) {
      case 0: case 1: s += 1; break;
      default: s += 100; if (k > i) break; s += 1000;
      case 2: if (i == 3) continue; s += 7;
    }
    if (s > 2000) break;
  }
  while (true) { s++; if (s % 5 == i % 5) break; }
  y[i] = s;
}"""


def left_behind(x: list[int], i: int) -> int:
    s = 0
    for k in range(9):
        if k == i:
            continue
        if x[k] % 4 < 2:
            s += 1
        elif x[k] % 4 == 3:
            s += 100
            if k <= i:
                s += 1000
                if i == 3:
                    continue
                s += 7
        else:
            if i == 3:
                continue
            s += 7
        if s > 2000:
            break
    s += 1
    while s % 5 != i % 5:
        s += 1
    return s


@given(st.lists(st.integers(0, 9), min_size=9, max_size=9))
def test_threads_leave_loops_and_switches_one_by_one(numbers: list[int]) -> None:
    x, y = np.array(numbers), np.zeros(32, dtype=np.int64)
    play(LEAVING, (1, 1), (32, 1), {"x": x, "y": y}, {})
    assert y.tolist() == [left_behind(numbers, i) for i in range(32)]


def test_a_barrier_that_threads_have_left_behind() -> None:
    for word in ("break", "continue", "return"):
        text = f"{{ for (int k = 0; k < 2; k++) {{ if (threadIdx.x == 3) {word}; __syncthreads(); }} }}"
        if word == "return":
            play(text, (1, 1), (32, 1), {}, {})
        else:
            with pytest.raises(Unplayable, match="not all come to"):
                play(text, (1, 1), (32, 1), {}, {})


def test_tickets_are_taken_in_the_order_of_the_threads() -> None:
    text = "{ int i = threadIdx.x; y[i] = atomicAdd(&n[i % 3], i); }"
    n, y = np.array([5, 6, 7]), np.zeros(32, dtype=np.int64)
    play(text, (1, 1), (32, 1), {"n": n, "y": y}, {}, Rules(tickets=True))
    wanted = [5 + i % 3 + sum(k for k in range(i) if k % 3 == i % 3) for i in range(32)]
    assert y.tolist() == wanted and n.sum() == 18 + 31 * 16
    with pytest.raises(Unplayable):
        play(text, (1, 1), (32, 1), {"n": n, "y": y}, {})


@given(st.integers(1, 100), st.integers(0, 2**32 - 1))
def test_threads_barriers_and_branches(n: int, seed: int) -> None:
    x = np.random.default_rng(seed).integers(-50, 50, 100)
    y = np.zeros(100, dtype=np.int64)
    play(REVERSED, (4, 1), (32, 1), {"x": x, "y": y}, {"n": n})
    wanted = np.zeros(100, dtype=np.int64)
    for i in range(n):
        tile = x[i // 32 * 32 : i + 1]
        wanted[n - 1 - i] = sum(tile[::2]) - sum(tile[1::2]) + 10 * sum(tile[1::2])
    assert (y == wanted).all()


@pytest.mark.parametrize(
    "body",
    [
        "y[0] = expf(x[0]);", "y[0] = 0.5f;", "y[100] = 1;", "y[-1] = 1;", "while (1) y[0] = 1;", "asm volatile(\"\");",
        "y[0] = unknown;", "int a = 3; for (int i = 0; i < 4000; i++) a = a * a; y[0] = a;", "y[0] = 1 << 999999999;",
        "for (;;) for (;;) for (;;) ;", "int a[1 << 20][1 << 20][1 << 20]; y[0] = 1;", "y[0] = 99999999999999999999;",
        "for (int i = 0; i < 4000; i++) for (int k = 0; k < 4000; k++) y[0] = k;",
        "if (threadIdx.x) __syncthreads();", "for (int i = 0; i < 1000000; i++) y[0] = i;",
        "y[0] = -3 / 2;", "y[0] = 1 / 0;", "int *p = 3; p[0] = 1;", "y[0] = __import__(\"os\");", "y = x[0]; y[0] = 1;",
        "if (threadIdx.x) y = x; y[0] = 1;", "float a[2] = {1, 2, 3}; y[0] = a[0];", "#define A 1\n y[0] = A;",
        "y[0] = " + "(" * 200 + "1" + ")" * 200 + ";", "unsigned char a[100000000]; y[0] = a[0];", "",
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(body: str) -> None:
    memory: dict[str, Any] = {name: np.zeros(100, dtype=np.int64) for name in "xy"}
    text = f"{{ {body} }}" if body else "{ y[0] = 1;"
    with pytest.raises(Unplayable):
        play(text, (1, 1), (32, 1), memory, {})


def with_text(case: str) -> tuple[Setting, Text]:
    found = setting_of(facts(case), lines_of)
    text = kernel_text(found)
    assert text is not None
    return found, text


def head(text: Text) -> str:
    return text.code[text.code.index("(", text.code.index("gemm_")) + 1 : text.code.index(") {")]


@pytest.mark.parametrize("case", ["gemm_f32.naive", "gemm_f32.shared", "gemm_f32.reg1d", "gemm_f32.reg2d"])
def test_products_are_told_however_they_are_tiled(case: str) -> None:
    one, text = with_text(case)
    found = multiplied.product(one, text, head(text))
    assert found is not None and (found.a, found.b, found.c, found.n) == ("A", "B", "C", "N")


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("sum[i] += a", "sum[i] -= a"), ("a[row + i][k]", "a[row][k]"), ("k < 8", "k < 7"), ("k0 += 8", "k0 += 16"),
        ("k0 < N", "k0 < N - 8"), ("= sum[i]", "= 2 * sum[i]"), ("= sum[i]", "+= sum[i]"),
        ("i < 8; i++) C", "i < 7; i++) C"),
        ("b[k][col]", "b[k][col ^ 1]"), ("N + k0", "N + k0 + 1"), ("threadIdx.x", "threadIdx.y"),
        ("float y = b", "float y = b[k][col] > 0 ? 0 : b"),
    ],
)  # fmt: skip
def test_what_is_nearly_a_product_is_none(was: str, becomes: str) -> None:
    one, text = with_text("gemm_f32.reg1d")
    assert was in text.code
    wrong = Text(text.file, text.first, text.code.replace(was, becomes))
    assert multiplied.product(one, wrong, head(text)) is None


def test_the_proof_is_said() -> None:
    (fix,) = changes("gemm_f32.reg1d", "MEM112")
    assert (fix.conditions[0].state, fix.conditions[0].by) == ("proved", "values")
    assert [p.before for p in fix.proof] == [0.0312, 1.125]  # 2/64 of a tile of 64; 8 + 1 values for 8 products
    assert all(p.after < p.before for p in fix.proof)


def test_tiles_that_save_nothing_are_not_proposed() -> None:
    from kscope.fixes.compute import product
    from kscope.fixes.given.setting import Asked

    one, _ = with_text("gemm_f32.reg2d")
    finding = next(f for f in diagnosed("gemm_f32.reg1d").findings if f.code == "MEM112")
    assert product.fixes(Asked(one, finding)) == []


def test_the_kernel_that_is_printed_is_the_product() -> None:
    """Played as it is printed, in the shape that it is to be launched in."""
    (fix,) = changes("gemm_f32.reg1d", "MEM112")
    n = 128
    a, b = (np.random.default_rng(s).integers(-9, 9, n * n) for s in (1, 2))
    c = np.zeros(n * n, dtype=np.int64)
    body = fix.code[fix.code.index("{") : fix.code.rindex("}") + 1].replace(
        "const float* from_b", "const float* from_b"
    )
    play(body, (1, 1), (256, 1), {"A": a, "B": b, "C": c}, {"N": n})
    assert (c.reshape(n, n) == a.reshape(n, n) @ b.reshape(n, n)).all()


@pytest.mark.parametrize(
    ("case", "rule", "memory", "numbers", "grid"),
    [
        ("levels.each", "MEM118", ("x", "y"), {"n": 64, "dims": 8, "k": 13, "step": 3}, 1),
        ("softmax_rows.threepass", "MEM106", ("x", "y"), {"c4": 130}, 2),
    ],
)
def test_old_and_new_text_make_the_same(
    case: str, rule: str, memory: tuple[str, str], numbers: dict[str, int], grid: int
) -> None:
    """The kernel's text before the change and after it, calls that are no whole numbers put by simpler ones."""
    (fix,) = (f for f in changes(case, rule) if f.kind in ("jam", "register"))
    source = source_of(fix, case)
    assert source is not None
    name = setting(case).name  # type: ignore[union-attr]
    results = []
    for text in (source.read_text("utf-8"), pasted(source.read_text("utf-8"), fix, name)):
        start = text.index("{", text.index(f" {name}("))
        body = (
            text[start : text.index("\n}", start) + 2]
            .replace("0.5f", "1")
            .replace("  // a longer row has more elements a thread", "")
        )
        for call in ("__trap();",):
            body = body.replace(call, "y[-1] = 0;")
        body = body.replace("-1e30f", "-1000").replace("block_max(m, w)", "m").replace("1 / block_sum(s, w)", "s")
        body = body.replace("float4 v", "float v").replace("float4*", "float*").replace("float4 r_row", "float r_row")
        for part in "yzw":
            body = body.replace(f"v.{part}", "v")
        body = body.replace("v.x", "v").replace("make_float4(", "first(").replace("__expf", "fabsf")
        body = body.replace(
            "first(fabsf(v - m) * s, fabsf(v - m) * s, fabsf(v - m) * s, fabsf(v - m) * s)", "(v - m) * s"
        )
        drawn = np.random.default_rng(5).integers(0, 50, 4096)
        made = {memory[0]: drawn, memory[1]: np.zeros(4096, dtype=np.int64)}
        play(body, (grid, 1), (64, 1), made, numbers)
        results.append(made[memory[1]])
    assert (results[0] == results[1]).all() and results[0].any()


def test_fragments_by_the_template() -> None:
    (*_, fix) = changes("fragments.one", "MEM101")
    assert fix.parameters["instance"] == "4, 2" and fix.parameters["grid.x"] == 32
    assert fix.conditions[0].by == "values" and fix.conditions[0].ran == 64
    assert fix.proof[0].after == 0.375 * fix.proof[0].before


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("16 * TM", "16"), ("(col + j * 16)", "(col + i * 16)"), ("(row + i * 16) * N", "row * N"),
        ("k += 16", "k += TM * 16"), ("fill_fragment(acc[i][j], 0.f)", "fill_fragment(acc[i][j], i)"),
        ("mma_sync(acc[i][j], fa[i]", "mma_sync(acc[i][j], fa[0]"),
    ],
)  # fmt: skip
def test_templates_whose_instances_make_something_else(was: str, becomes: str) -> None:
    one, text = with_text("fragments.one")
    assert was in text.code
    more = fragments._Instance({"TM": 4, "TN": 2}, (32, 16))
    names = ("TM", "TN")
    assert fragments._same(one, text, names, more) == 64
    wrong = Text(text.file, text.first, text.code.replace(was, becomes))
    assert fragments._same(one, wrong, names, more) == 0
    assert fragments._same(one, text, names, fragments._Instance({"TM": 4, "TN": 2}, (16, 32))) == 0


@thorough.only
def test_instances_with_more_results() -> None:
    (fix,) = changes("steps.one", "MEM112")
    assert fix.code == "steps<4><<<dim3(16, 16), 256>>>(..., part * 4);"
    assert fix.conditions[0].by == "values" and fix.conditions[0].ran == 8192
    assert fix.proof[0].after == 0.25 * fix.proof[0].before


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("tx * R + r]", "tx + r * 16 + R - 1]"),  # outside of the tile's columns with four
        ("ty * R + r)", "ty * R + r * r)"),
        ("u[r] * v[c]", "u[r] * v[r]"),
        ("u[r] * v[c]", "u[r] * v[c] * R"),
        ("int T = 16 * R", "int T = 16"),
        ("[32][T + 4]", "[32][16 + 4]"),
    ],
)
def test_instances_that_make_something_else(was: str, becomes: str) -> None:
    one, text = with_text("steps.one")
    assert was in text.code
    wrong = Text(text.file, text.first, text.code.replace(was, becomes))
    kernel = instances._kernel(one, wrong)
    assert kernel is not None and instances._larger(kernel, 4) is None


def test_a_number_that_could_be_several_is_not_guessed() -> None:
    """Shared memory that the kernel needs no more than half of: how much of it is filled nobody can tell."""
    one, text = with_text("steps.one")
    free = Text(
        text.file, text.first, text.code.replace("as[32][T + 4], bs[32][T + 4]", "as[99][T + 4], bs[99][T + 4]")
    )
    kernel = instances._kernel(one, free)
    assert kernel is not None and instances._larger(kernel, 4) is None


def test_arrays_that_begin_with_values() -> None:
    memory = {"y": np.zeros(4, dtype=np.int64)}
    body = "{ int a[4] = {threadIdx.x, 7, 9}; for (int i = 0; i < 4; i++) y[i] = a[i]; }"
    play(body, (1, 1), (1, 1), memory, {})
    assert memory["y"].tolist() == [0, 7, 9, 0]


def test_a_name_that_hides_another_gives_it_back() -> None:
    text = """{
      int i = threadIdx.x, s = 0;
      { int i = 5; s += i; }
      for (int i = 0; i < 3; i++) s += 10;
      y[i] = s;
    }"""
    made = {"y": np.zeros(8, dtype=np.int64)}
    play(text, (1, 1), (8, 1), made, {})
    assert made["y"].tolist() == [35] * 8
    with pytest.raises(Unplayable):
        play("{ int a[2] = {}; { int a[2] = {}; y[threadIdx.x] = a[0]; } }", (1, 1), (8, 1), made, {})


def test_statements_that_threads_go_through() -> None:
    text = "{ int i = threadIdx.x; if (i > 4) y[i] = 1; else if (i > 9) y[0] = 2; for (; i < 9; i += 4) y[i] += 1; }"
    made = {"y": np.zeros(16, dtype=np.int64)}
    took = play(text, (1, 1), (8, 1), made, {}, Rules(paths=True))
    assert took.gone == {0: 8, 1: 8, 2: 8, 3: 3, 4: 5, 6: 5, 7: 8, 8: 8, 9: 8}  # not 5: nobody is so large
    assert play(text, (1, 1), (8, 1), made, {}).gone == {}


def test_a_pointer_that_gets_its_place_later() -> None:
    text = "{ const int* p; for (int i = threadIdx.x; i < 6; i += 4) { p = x + i; y[i] = p[1]; } }"
    made = {"x": np.arange(8), "y": np.zeros(8, dtype=np.int64)}
    play(text, (1, 1), (4, 1), made, {})
    assert made["y"].tolist() == [1, 2, 3, 4, 5, 6, 0, 0]
    with pytest.raises(Unplayable):
        play("{ const int* p; if (threadIdx.x > 8) p = x; y[threadIdx.x] = *p; }", (1, 1), (4, 1), made, {})


def test_variables_of_whole_numbers_hold_none_of_a_fraction() -> None:
    text = """{ int i = x[0] * 3; int j; j = x[0] * 5; bool some = x[1]; float s; s = i; s += 0.5f;
      { int s = 2.5f; s = s + x[0]; } s = s + x[0]; unsigned u = 1; u += x[0]; auto a = x[0];
      y[0] = i; y[1] = j; y[2] = some; y[3] = s; y[4] = u; y[5] = a; }"""
    memory = {"x": np.array([0.75, 0.25]), "y": np.zeros(6)}
    play(text, (1, 1), (1, 1), memory, {}, Rules(literals="real", kinds={"x": "float", "y": "float"}))
    assert memory["y"].tolist() == [2, 3, 1, 3.25, 1, 0.75]


def test_tests_are_numbers_and_literals_have_their_base() -> None:
    text = """{ int t = threadIdx.x; bool b = x[t]; int c = x[t] > 0; c += x[t] > 1;
      y[t] = (x[t] > 0) + (x[t] > 1); y[t + 4] = ~(x[t] > 0) - (x[t] > 2); y[t + 8] = b + (bool)(x[t] * 2) + c;
      y[t + 12] = 010 + 0x10u; }"""
    for literals in ("", "drawn", "real"):
        memory = {"x": np.array([3, 1, 0, 2]), "y": np.zeros(16, dtype=np.int64)}
        play(text, (1, 1), (4, 1), memory, {}, Rules(literals=literals))
        assert memory["y"].reshape(4, 4).tolist() == [[2, 1, 0, 2], [-3, -2, -1, -2], [4, 3, 0, 4], [24] * 4]
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("y[i] = (x[i] < 3) + (x[i] < 2);", [2, 1, 0, 0]),
        ("int f = x[i] < 3; f = f + (x[i] < 2); y[i] = f - (x[i] > 3);", [2, 1, 0, -1]),
        ("bool b = x[i] & 3; y[i] = b + b;", [2, 2, 2, 0]),
        ("y[i] = ~(x[i] > 2) - -(x[i] > 3);", [-1, -1, -2, -1]),
        ("y[i] = (unsigned)(i - 2) < 3;", [0, 0, 1, 1]),
    ],
)
def test_comparisons_are_numbers(text: str, left: list[int]) -> None:
    y = np.zeros(4, dtype=np.int64)
    memory = {"x": np.arange(1, 5), "y": y}
    play(f"{{ int i = threadIdx.x; {text} }}", (1, 1), (4, 1), memory, {})
    assert y.tolist() == left


def test_whole_numbers_hold_no_fractions() -> None:
    memory = {"x": np.array([1.0, 2, 3, -5]), "y": np.zeros(4)}
    body = "{ int i = threadIdx.x; int k = x[i] * 0.5f; y[i] = k; }"
    play(body, (1, 1), (4, 1), memory, {}, Rules("real", kinds={"x": "float", "y": "float"}))
    assert memory["y"].tolist() == [0, 1, 1, -2]
