"""Source text as makers of changes read it: without comments and what is left out, which stand where they stood in what
is printed."""

from __future__ import annotations

import msgspec
import pytest

from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.sass.listing import Listing
from kscope.fixes.given.setting import Setting
from kscope.fixes.given.source import Seen, constants
from kscope.fixes.given.text import blanked
from kscope.fixes.seen import restored, seen, with_seen
from kscope.model.contract.fixes import Edit, Fix
from kscope.model.kernel import source_lines
from kscope.parsers.files.inputs import open_input
from kscope.parsers.ncu.kernels import read_kernels
from kscope.parsers.sass.instructions import parse_program
from tests.support.reports import fixture

TEXT = """int a = 1; // x[0] = {
int b /* c */ = 2; /* d
  y[3] */ int e = 4;
#if 0
 foo {
# ifdef X
# endif
#else
 bar
#endif
char* s = "a // b /* "; // t
 /* whole */
int n = 1'000 / 2; // 'q
x = '"'; // z
#if 1
 f();
#else
 g();
#endif
#if defined(A)
 h();
#else // of A
 k();
#endif""".split("\n")


def test_comments_and_what_is_left_out_are_blanks() -> None:
    read = seen(TEXT)
    assert [line.rstrip() for line in read] == [
        "int a = 1;", "int b         = 2;", "          int e = 4;", "", "", "", "", "", " bar", "",
        'char* s = "a // b /* ";', "", "int n = 1'000 / 2;", "x = '\"';", "", " f();", "", "", "",
        "#if defined(A)", " h();", "#else", " k();", "#endif",
    ]  # fmt: skip
    assert all(len(read[n]) == len(raw) for n, raw in enumerate(TEXT) if n not in read.dead)
    assert seen([]) == [] and list(seen(["a / b"])) == ["a / b"]


def test_branches_are_kept_for_who_takes_them_all() -> None:
    raw = ["#ifdef A", " x = 1; // one", "#else", " x = 2;", "#endif"]
    code = Listing(parse_program("k", 90, [(0, "MOV R0, 0x1", "k.cu", 2), (16, "EXIT", "k.cu", 9)]))
    setting = Setting(code, lambda file: raw)
    assert [x.strip() for x in with_seen(setting).lines("k.cu")] == ["", "x = 1;", "", "", ""]
    assert [x.strip() for x in with_seen(setting, branches=True).lines("k.cu")] == [
        "#ifdef A", "x = 1;", "#else", "x = 2;", "#endif",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "becomes", "printed"),
    [
        (0, "int a = 22;", "int a = 22; // x[0] = {"),
        (0, "int a = 1; { }", "int a = 1; { } // x[0] = {"),  # not behind the comment
        (0, "long z = 1;\nint a = z;", "long z = 1;\nint a = z; // x[0] = {"),
        (0, "", ""),
        (1, "int b         = 33;     ", "int b /* c */ = 33; /* d"),
        (1, "int q     = 2;     ", None),  # in the way of a comment that goes on
        (2, "          int f = 4;", "  y[3] */ int f = 4;"),
        (2, "", None),
        (4, "foo", None),  # what is left out
        (10, 'char* s = "a // b /* ", q;', 'char* s = "a // b /* ", q; // t'),
        (11, "a;", "a;"),
    ],
)  # fmt: skip
def test_changes_are_put_beside_the_comments(row: int, becomes: str, printed: str | None) -> None:
    read = seen(TEXT)
    edits = [Edit(file="a.cu", line=row + 1, was=read[row], becomes=becomes)]
    made = restored(Fix(kind="jam", title="", edits=edits), [("a.cu", read)])
    assert (made.edits[0].becomes if made is not None else None) == printed
    assert made is None or made.edits[0].was == TEXT[row]


BRANCHES = """#ifndef GUARD
__global__ void k(int* x) {
#ifdef FAST \\
  && FASTER
  x[0] = 1;
#elif defined(B)
  x[1] = 2;
#else
  x[2] = 3;
#endif
  x[4] = 5;
}
#endif""".split("\n")


def test_what_was_not_compiled_is_left_out() -> None:
    whole = seen(BRANCHES)
    assert list(whole) == BRANCHES  # nobody knows
    read = seen(BRANCHES, frozenset({2, 7, 11}))
    assert [line for line in read if line] == [BRANCHES[1], BRANCHES[6], BRANCHES[10], "}"]
    assert list(seen(BRANCHES, frozenset({2, 7, 9, 11})))[2:10] == BRANCHES[2:10]  # compiled twice
    for row, stays in ((10, True), (6, True), (4, None)):
        edits = [Edit(file="a.cu", line=row + 1, was=read[row], becomes="y;")]
        made = restored(Fix(kind="jam", title="", edits=edits), [("a.cu", read)])
        assert (None if made is None else any("other macros" in c.holds for c in made.conditions)) is stays


def test_slashes_in_strings_are_no_comments() -> None:
    assert blanked('f("a//b"); // c').rstrip() == 'f("a//b");'


CONSTANTS = """constexpr int A = 4, B = A * 2;
namespace n {
// constexpr int A = 9;
constexpr int C = B + 1;
__global__ void f(int* x) {
  constexpr int T = 32;
  x[T] = 0;
}
__global__ void g(int* x)
{
  constexpr int T = 64; constexpr int A = 5;
  { constexpr int Q = A * T; x[Q] = 0; }
}
struct S { static constexpr int T = 1; };
}
extern "C" {
__global__ void h(int* x) { constexpr int T = 16; x[T] = 1; }
constexpr int U = 3;
}
constexpr int V = A;""".split("\n")


@pytest.mark.parametrize(
    ("run", "known"),
    [
        ({7}, {"A": 4, "T": 32}), ({12}, {"A": 5, "T": 64, "Q": 320}), ({17}, {"A": 4, "T": 16}),
        ({7, 12}, {"A": 5, "Q": 320}),  # T is one of two
        ((), {"A": 5, "Q": 320}),
    ],
)  # fmt: skip
def test_constants_are_those_of_the_kernels_own_functions(run: set[int], known: dict[str, int]) -> None:
    read = Seen(CONSTANTS, CONSTANTS, {}, frozenset(), frozenset(run))
    assert constants(read) == {"B": 8, "C": 9, "U": 3, "V": 4, **known}


def test_a_kernel_full_of_comments_gets_the_same_change() -> None:
    with open_input(fixture("levels.each")) as path:
        kernel = next(iter(read_kernels(path)))

    def changed(comment: str) -> list[tuple[int, str]]:
        plain = ("#", "\\", "//", "/*", '"')
        sources = {
            file: "\n".join(x if any(p in x for p in plain) else x + comment for x in text.split("\n"))
            for file, text in kernel.sources.items()
        }
        found = analyze_kernel(msgspec.structs.replace(kernel, sources=sources), "levels.each").findings
        edits = [e for f in found for fix in f.fixes for e in fix.edits]
        assert all(comment in e.becomes for e in edits if comment in e.was and e.becomes)
        return [(e.line, e.becomes.replace(comment, "")) for e in edits]

    wanted = changed("")
    assert wanted and changed(" // if (x) { y[i] = 0") == wanted == changed(" /* } for (;;) x[0]++; { */")


def test_lines_are_those_that_compilers_count() -> None:
    assert source_lines("a\f\nb\x0bc\r\nd\x85e\n") == ["a\f", "b\x0bc", "d\x85e"]
    assert source_lines("") == [] and source_lines("a\n\n") == ["a", ""]
