"""The text of kernels as changes read it: loops, statements, indices."""

from __future__ import annotations

import pytest

from kscope.fixes.given import rewrite, source, text
from kscope.fixes.rows import function

START, STEP = "blockIdx.x * (size_t)blockDim.x + threadIdx.x", "(size_t)gridDim.x * blockDim.x"
GRID = f"for (size_t i = {START}; i < n; i += {STEP}) s += x[i];"


def test_a_loop_over_the_grid_is_told_from_others() -> None:
    (one,) = text.loops(GRID)
    assert (one.name, one.end, GRID[slice(*one.body)]) == ("i", "n", "s += x[i];")
    assert text.strided(one, GRID) == "blockDim.x"
    (other,) = text.loops(GRID.replace("i += (size_t)gridDim.x * blockDim.x", "i += 2 * gridDim.x * blockDim.x"))
    assert text.strided(other, "") is None
    (named,) = text.loops("for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += step) f(i);")
    assert text.strided(named, "int step = gridDim.x * 256;") == "256"
    assert text.strided(named, "int step = gridDim.x * 128;") is None
    assert text.strided(named, "int step = gridDim.x * 256; step += 1;") is None


@pytest.mark.parametrize(
    ("test", "end"),
    [
        ("i < n", "n"), ("i <= n", "n + 1"), ("i <= 2 * n", "(2 * n) + 1"), ("i <= n - 1", "(n - 1) + 1"),
        ("i <= n && x[i]", "= n && x[i]"),
    ],
)  # fmt: skip
def test_ends_of_loops(test: str, end: str) -> None:
    (one,) = text.loops(f"for (int i = 0; {test}; i++) f(i);")
    assert one.end == end


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("a = b; c", "a = b;"),
        ("{ a; { b; } } c;", "{ a; { b; } }"),
        ("for (int i = 0; i < 4; i++) if (i) { a; } b;", "for (int i = 0; i < 4; i++) if (i) { a; }"),
        ("f(a, {1, 2}); b", "f(a, {1, 2});"),
    ],
)
def test_statements_end(code: str, end: str) -> None:
    stop = text.statement_end(code, 0)
    assert stop is not None
    assert code[:stop] == end


@pytest.mark.parametrize(
    ("index", "per"),
    [
        ("blockIdx.x * blockDim.x + threadIdx.x", "blockDim.x"),
        ("(size_t)blockIdx.x * 256ul + threadIdx.x", "256"),
        ("threadIdx.x + blockIdx.x * B", "B"),
        ("blockIdx.x * 256 + threadIdx.x * 4", None),
        ("blockIdx.y * 256 + threadIdx.x", None),
    ],
)
def test_indices(index: str, per: str | None) -> None:
    assert text.index_of(index, "") == per


def test_comments_keep_their_columns() -> None:
    assert text.blanked("a; // b") == "a;     "


def test_spans_that_overlap_or_leave_their_line_are_no_edits() -> None:
    from kscope.fixes.given.setting import Setting

    setting = Setting(None, lambda file: ["a b c", "d"])  # type: ignore[arg-type]
    one = text.Text("k.cu", 1, "a b c\nd")
    (edit,) = text.spans_edited(setting, one, [(0, 1, "x"), (4, 5, "z")])
    assert (edit.line, edit.was, edit.becomes) == (1, "a b c", "x b z")
    assert text.spans_edited(setting, one, [(0, 3, "x"), (2, 5, "z")]) == []
    assert text.spans_edited(setting, one, [(4, 7, "x")]) == []


@pytest.mark.parametrize(("line", "first"), [(6, 2), (7, 2), (14, 10), (17, 17)])
def test_functions_stand_before_a_head_of_several_lines(line: int, first: int) -> None:
    lines = ["#define X", "__global__ void f", "(  int* a,", "   int b", ")", "{ int i;", " a[i]=1;", "}", "",
            "template <class T>", "__global__", "void g(T* a)", "{", "  a[0]=1;", "}", "CASE(a, b)",
            "__global__ void h(int a) { }"]  # fmt: skip
    assert text.declared_at(lines, line) == first


def test_numbers_of_two_functions_are_none_of_a_file() -> None:
    """What one kernel calls TILE says nothing about another one's."""
    lines = ["constexpr int ROWS = 32, WIDE = 2 * ROWS;", "  constexpr int TILE = 16;", "  constexpr int TILE = 32;"]
    lines += ["  constexpr int ROWS = 32;", "  constexpr int WIDE = N / 2;"]
    assert source.constants(lines) == {"ROWS": 32}
    for head in ("template <int ROWS> __global__ void k(int* x) {", "__global__ void k(int* x, int ROWS) {"):
        assert source.constants([*lines, head]) == {}
    lines = ["#define TILE 16", "#define ROWS 4", "const int TILE = 32;", "constexpr int ROWS = 4;"]
    assert function.constants(lines, "x[TILE] + y[ROWS]") == {"ROWS": 4}


def test_what_a_text_declares() -> None:
    code = "__global__ void k(const float4* a, int n) { char4 b = p[n], c; for (int i = 0; i < n; i++) return b; }"
    assert rewrite.declarations(code) == [
        ("float4", "a"), ("int", "n"), ("char4", "b"), ("char4", "c"), ("int", "i"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "body",
    ["if (a) x = 1; else y = 2;", "if (a) { x = 1; } else if (b) y = 2; else { z = 3; }", "if (a) x = 1;",
     "for (int j = 0; j < 3; j++) if (a) x = 1; else y = 2;", "while (a) if (b) x = 1; else y = 2;"],
)  # fmt: skip
def test_the_body_of_a_loop_has_its_else(body: str) -> None:
    code = f"for (int i = 0; i < n; i++) {body} z = 4;"
    assert code[slice(*text.loops(code)[0].body)] == body
@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("for (int i = 0; i < n; i++) if (x[i]) a(); else b(); c();", "if (x[i]) a(); else b();"),
        ("for (int i = 0; i < n; i++) for (;;) if (i) a(); else if (n) { b(); } else d(); c();",
         "for (;;) if (i) a(); else if (n) { b(); } else d();"),
        ("if (n) for (int i = 0; i < n; i++) { a(); } else b();", "{ a(); }"),
    ],
)  # fmt: skip
def test_a_loops_statement_has_its_else(code: str, body: str) -> None:
    (one, *_) = text.loops(code)
    assert code[slice(*one.body)] == body
