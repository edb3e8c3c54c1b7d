"""Elements side by side, one a thread or a round: several by one access."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from kscope.fixes.given.text import Text
from kscope.fixes.thread import accesses
from kscope.fixes.thread.accesses import elements_at_once
from kscope.fixes.thread.element_types import instantiated
from kscope.fixes.thread.elements import elements
from kscope.fixes.thread.elementwise import spans
from kscope.fixes.thread.launched import covered, dense, launched

INDEX = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"


def kernel(*lines: str, head: str = "const float* a, const float* b, float* out, int n") -> str:
    return f"__global__ void scale({head}) {{\n" + "\n".join(lines) + "\n}"


def rows(text: str) -> list[list[tuple[str, str, bool, bool]]]:
    return [[(r.name, r.at.replace(" ", ""), r.written, r.loaded) for r in one.rows] for one in elements(text)]


def rewritten(text: str, count: int = 4) -> str:
    (one,) = elements(text)
    for start, end, new in sorted(spans(text, one, count), reverse=True):
        text = text[:start] + new + text[end:]
    return text


A, B, OUT = ("a", "i", False, True), ("b", "i", False, True), ("out", "i", True, False)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([INDEX, "  if (i < n) out[i] = a[i] + b[i];"], [OUT, A, B]),
        ([INDEX, "  if (i >= n) return;", "  float x = a[i];", "  out[i] = x * x;"], [A, OUT]),
        ([INDEX, "  if (i < n) { out[i] += a[i]; }"], [("out", "i", True, True), A]),
        ([INDEX, "  if (i < n) out[i] = out[i] * a[i];"], [("out", "i", True, True), A]),
        ([INDEX, "  if (i < n) { if (a[i] > 0) { out[i] = 1; } else { out[i] = out[i] + 1; } }"],
         [A, ("out", "i", True, True)]),
        ([INDEX, "  if (i < n) f(a[i], out[i]);"], [A, ("out", "i", True, True)]),  # it may read what it writes
        ([INDEX, "  if (i < n) out[i] = fmaxf(a[i], 0.f);"], [OUT, A]),
        ([INDEX, "  if (n > 0 && i < n) out[i] = a[(i >> 5)] + b[i];"], [OUT, B]),
        ([INDEX, "  if (i < n) { if (a[i] > 0) out[i] = 1; else out[i] = 2; }"], [A, OUT]),
        (["  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = a[i];"], [OUT, A]),
        (["  float* o = out + 4;", "  for (int i = threadIdx.x; i < n; i += blockDim.x) o[i] = a[i];"],
         [("o", "i", True, False), A]),
        (["  const float* p = a + 4; s = p[0];", "  for (int i = threadIdx.x; i < n; i += blockDim.x) s += p[i];"],
         [("p", "i", False, True)]),
        (["  for (int i = threadIdx.x; i < n; i += blockDim.x) { int at = m + i; float x = a[at]; float y = b[i];",
          "    out[at] = x * y; }"],
         [("a", "(m+i)", False, True), B, ("out", "(m+i)", True, False)]),
        (["  for (int i = threadIdx.x; i < n; i += blockDim.x) { int at = m + i; out[at] = a[at]; }"],
         [("out", "(m+i)", True, False), ("a", "(m+i)", False, True)]),
    ],
)  # fmt: skip
def test_arrays_at_the_element_are_told_from_others(lines: list[str], expected: Any) -> None:
    assert rows(kernel(*lines)) == [expected]


@pytest.mark.parametrize(
    "lines",
    [
        [INDEX, "  if (i < n) out[i] = a[2 * i];", "  out[0] = 1;"],  # something else behind it
        [INDEX, "  if (i < n) out[i] = a[i] + out[i + 1];"],  # a neighbour's element
        [INDEX, "  if (i < n) { if (a[i] > 0) out[i] = b[i]; }"],  # written for some alone
        [INDEX, "  if (i < n) out[i] = a[i] > 0 && b[i] > 0;"],  # read for some alone
        [INDEX, "  if (i < n) { __syncthreads(); out[i] = a[i]; }"],
        [INDEX, "  if (i < n) { out[i] = __shfl_sync(~0u, a[i], 0); }"],
        [INDEX, "  if (i < n) { atomicAdd(&out[i], a[i]); }"],
        [INDEX, "  if (i < n) { for (int q = 0; q < 3; q++) out[i] = a[i]; }"],
        [INDEX, "  if (i < n) { if (a[i] < 0) return; out[i] = a[i]; }"],
        [INDEX, "  if (i < n) { out[i] = a[i]; i += 2; }"],
        [INDEX, "  if (i < n || b[0] > 0) out[i] = a[i];"],  # more than the elements below the bound
        [INDEX, "  if (i < n) { last = a[i]; out[i] = a[i]; }"],  # what only one of them leaves behind
        [INDEX, "  if (i < n) { out[i] = a[i]; swap(out); }"],
        [INDEX, "  i += 32; if (i < n) out[i] = a[i];"],
        ["  for (int i = threadIdx.x; i < n; i += blockDim.x) { s = s * 2 + a[i]; out[i] = s; }"],
        ["  if (n)", "  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = a[i];"],
        ["  for (int i = threadIdx.x; i < n; i += blockDim.x) { if (a[i] > 1) break; out[i] = a[i]; }"],
        # a thread has its elements from one loop to the next, and no barrier is between
        ["  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = a[i];", "  out[threadIdx.x] += 1;"],
        ["  float* s = smem;", "  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = a[i];"],
        ["  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = staged[i];"],  # filled by the same threads
        ["  for (int i = threadIdx.x; i < n; i += blockDim.x) { int at = i + 2; out[i] = staged[at]; }"],
        ["  float y[4];", "  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = a[i];"],
        ["  const float* p = out;", "  for (int i = threadIdx.x; i < n; i += blockDim.x) s += p[i];"],
        ["  for (int i = threadIdx.x; i < n; i += blockDim.x) { out[i] = a[i]; q.at[i] = 1; }"],
        ["  for (int i = threadIdx.x; i < n; i += blockDim.x) { out[i] = a[i]; t[b[i]][0] = 1; }"],
    ],
)
def test_what_is_more_than_elements_is_left_alone(lines: list[str]) -> None:
    assert rows(kernel(*lines)) == []


def test_a_loop_may_sum_up_and_says_so() -> None:
    (one,) = elements(kernel("  float s = 0;", "  for (int i = threadIdx.x; i < n; i += blockDim.x) s += a[i];"))
    assert one.sums == ("s",)


def test_the_guard_that_leaves_becomes_two_ways() -> None:
    new = rewritten(kernel(INDEX, "  if (n < 0 || i >= n) return;", "  out[i] = a[i];"))
    assert "int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4" in new
    assert "if (n < 0) return; if (i + 4 <= n && aligned<Several<float, 4>>(&out[i])" in new
    assert "for (int k = 0; k < 4; k++) { out_v.at[k] = a_v.at[k]; }" in new
    assert re.search(r"else for \(int k = 0; k < 4 && i < n; k\+\+, i\+\+\) \{\s+out\[i\] = a\[i\];\s+\} \}$", new)


def test_other_uses_of_the_index_move_with_the_element() -> None:
    new = rewritten(kernel(INDEX, "  if (i < n) out[i] = a[i] + b[i / 32] * i + p.i;"))
    assert "out_v.at[k] = a_v.at[k] + b[(i + k) / 32] * (i + k) + p.i" in new


def test_a_name_that_is_taken_is_not_taken_again() -> None:
    new = rewritten(kernel(INDEX, "  if (i < n) out[i] = a[i] * k;", head="const float* a, float* out, float k, int n"))
    assert "out_v.at[k_n] = a_v.at[k_n] * k" in new


@pytest.mark.parametrize(
    ("start", "done"),
    [
        ("blockIdx.x*blockDim.x+threadIdx.x", True),
        ("threadIdx.x+(blockIdx.x+blockIdx.y*gridDim.x)*blockDim.x", True),
        ("blockIdx.x*1000+threadIdx.x", False),
        ("blockIdx.x*blockDim.x", False),
    ],
)
def test_the_new_launch_does_each_element_once(start: str, done: bool) -> None:
    assert (covered(start, 4, of_blocks=True) > 0) is done


@pytest.mark.parametrize(
    ("start", "step", "all_of_them"),
    [
        ("threadIdx.x", "blockDim.x", True),
        ("blockIdx.x*blockDim.x+threadIdx.x", "gridDim.x*blockDim.x", True),
        ("threadIdx.x%32", "32", True),
        ("threadIdx.x+7", "blockDim.x", False),  # elements in front of the first are not the loop's
        ("first+threadIdx.x", "blockDim.x", False),
        ("threadIdx.x", "2*blockDim.x", False),
        ("threadIdx.x/2", "blockDim.x", False),
    ],
)
def test_a_loop_begins_with_the_first_elements(start: str, step: str, all_of_them: bool) -> None:
    assert dense(start, step) is all_of_them


def test_a_template_s_names_are_what_the_instance_says() -> None:
    above = "struct S {};\ntemplate <typename T, typename U, int N>"
    assert instantiated(above, "void k<unsigned char, F<short, 3>, 4>(T1 *)") == {
        "T": "unsigned char", "U": "F<short, 3>", "N": "4"
    }  # fmt: skip
    assert instantiated("int x;", "k(int)") == {}
    assert instantiated("typedef unsigned char Byte; using Real = double;", "k(int)") == {
        "Byte": "unsigned char", "Real": "double"
    }  # fmt: skip


def test_loops_that_change_together_have_names_of_their_own() -> None:
    loop = "  for (int i = threadIdx.x; i < n; i += blockDim.x)"
    text = kernel(f"{loop} s += a[i];", f"{loop} out[i] = a[i] * s;")
    one, two = elements(text)
    first, second = (spans(text, x, 4, n)[0][2] for n, x in enumerate((one, two), 1))
    assert "const int i_whole = " in first
    assert "const int i_whole2 = " in second and "i_whole " not in second


def test_types_without_a_known_size_are_as_wide_as_their_accesses() -> None:
    (one,) = elements(kernel(INDEX, "  if (i < n) out[i] = a[i];", head="const Real* a, Real* out, int n"))
    assert elements_at_once(one, {}, 8) == 2
    assert elements_at_once(one, {"Real": "float"}, 16) == 4
    assert elements_at_once(one, {}, 16) == 1


@pytest.mark.parametrize(
    ("lines", "when"),
    [
        (["  if (i < n) { float x = a[i]; if (b != nullptr) x += b[i]; out[i] = x; }"], "b != nullptr"),
        (["  if (i < n) { float x; if (blockIdx.y == 0) { x = 1; } else { x = b[i]; } out[i] = a[i] * x; }"],
         "!(blockIdx.y == 0)"),
        (["  if (i < n) out[i] = a[i] + (m > 2 ? b[i] : 0.f);"], "m > 2"),
        (["  if (i < n) { const float x = m ? 1.f : b[i]; out[i] = a[i] + x; }"], None),
        (["  if (i < n) { if (a[i] > 0) out[i] = b[i]; else out[i] = 0; }"], ""),  # another one for each element
        (["  if (i < n) { if (m && a[i] > 0) out[i] = b[i]; else out[i] = 0; }"], None),  # there may be none
        (["  if (i < n) { if (b && a[i] > 0) out[i] = b[i]; else out[i] = 0; }"], None),
        (["  if (i < n) { if (m) { if (a[i] > 0) out[i] = b[i]; else out[i] = 1; } else out[i] = 0; }"], None),
        (["  if (i < n) { int q = 2 * i; float s = a[i]; if (q < m) s = b[i]; out[i] = s; }"], None),
        (["  if (i < n) { if (i > m) out[i] = b[i]; else out[i] = a[i]; }"], None),
        (["  if (i < n) { int m = a[i]; float x = 0; if (m) x = b[i]; out[i] = x; }"], ""),
        (["  if (i < n) { float x = 0; if (f(m)) x = b[i]; out[i] = a[i] + x; }"], None),
    ],
)  # fmt: skip
def test_arrays_that_are_asked_for_alike(lines: list[str], when: str | None) -> None:
    text = kernel(INDEX, *lines, head="const float* a, const float* b, float* out, int n, int m")
    found = [r.when for one in elements(text) for r in one.rows if r.name == "b"]
    assert found == ([when] if when is not None else [])


def test_an_array_that_some_elements_ask_for_is_said_to_be() -> None:
    text = kernel(INDEX, "  if (i < n) { if (a[i] > 0) out[i] = b[i]; else out[i] = 0; }")
    (one,) = elements(text)
    assert [(r.name, r.some) for r in one.rows] == [("a", False), ("out", False), ("b", True)]
    assert "b_v = *reinterpret_cast<const Several<float, 4>*>(&b[i]);" in rewritten(text)


def test_an_array_is_read_where_it_is_asked_for() -> None:
    new = rewritten(kernel(INDEX, "  if (i < n) { float x = a[i]; if (b != nullptr) x += b[i]; out[i] = x; }"))
    assert "(!(b != nullptr) || aligned<Several<float, 4>>(&b[i]))" in new
    assert "Several<float, 4> b_v; if (b != nullptr) b_v = *reinterpret_cast<const Several<float, 4>*>(&b[i]);" in new
    assert "if (b != nullptr) x += b_v.at[k];" in new


def test_an_index_is_what_it_was_given_last() -> None:
    lines = [INDEX, "  if (i < n) { int at; if (m) { at = i; } else { at = m + i; } at = 2 * m + i; out[at] = a[i]; }"]
    assert rows(kernel(*lines, head="const float* a, float* out, int n, int m")) == [
        [("out", "(2*m+i)", True, False), A]
    ]
    unsure = [INDEX, "  if (i < n) { int at; at = i; if (m) { at = m + i; } out[at] = a[i]; }"]
    assert not rows(kernel(*unsure, head="const float* a, float* out, int n, int m"))


@pytest.mark.parametrize(
    ("lines", "stays"),
    [
        (["  if (i < n) out[i] = a[i] * b[blockIdx.y];"], False),
        (["  if (i < n) out[i] = a[i] * b[blockIdx.x];"], True),  # which is another one in fewer blocks
        (["  if (i < n) out[i] = a[i] * gridDim.x;"], True),
    ],
)
def test_a_block_s_number_serves_for_the_element_alone(lines: list[str], stays: bool) -> None:
    text = kernel(INDEX, *lines)
    (one,) = elements(text)
    assert (launched(one, text, (64, 2, 1), (128, 1, 1), 4) is None) is stays


def test_a_row_a_block_has_fewer_threads() -> None:
    text = kernel("  int i = threadIdx.x;", "  if (i < n) out[blockIdx.x * n + i] = a[i];")
    (one,) = elements(text)
    now = launched(one, text, (64, 2, 1), (512, 1, 1), 4)
    assert now is not None and now[:2] == ((64, 2, 1), (128, 1, 1))
    wide = text.replace("blockIdx.x * n", "blockIdx.x * blockDim.x")
    (one,) = elements(wide)
    assert launched(one, wide, (64, 2, 1), (512, 1, 1), 4) is None


def test_a_loop_that_libraries_name_is_the_grid_s() -> None:
    head = "const float* a, float* out, const int n"
    text = kernel("  CUDA_KERNEL_LOOP(i, n) {", "    out[i] = a[i];", "  }", head=head)
    (one,) = elements(text)
    assert (one.kind, one.bound, one.step) == ("int", "n", "blockDim.x * gridDim.x")
    new = rewritten(text)
    assert "CUDA_KERNEL_LOOP" not in new
    assert "for (int i = i_whole + ((blockIdx.x * blockDim.x + threadIdx.x)); i < n; i += blockDim.x * grid" in new
    far = kernel("  CUDA_KERNEL_LOOP(i, rows * columns) {", "    out[i] = a[i];", "  }")
    assert next(elements(far)).kind == "long long"


@pytest.mark.parametrize(
    ("lines", "same"),
    [
        (["  if (i < n) out[i] = a[i];"], True),
        (["  if (i < n) out[i] = a[i] * t;"], False),
    ],
)  # fmt: skip
def test_the_thread_s_number_has_a_name(lines: list[str], same: bool) -> None:
    index = ["  const int t = threadIdx.x;", "  int i = blockIdx.x * blockDim.x + t;"]
    assert (len(rows(kernel(*index, *lines))) == 1) is same


@pytest.mark.parametrize(("kind", "stride", "line", "taken"), [
    ("Pixel", 4, 3, True), ("Pixel", 12, 3, False), ("Pixel", 12, 77, False), ("float", 12, 3, True),
    ("Pixel", 12, 1, True),  # another line of the kernel: of something else
])  # fmt: skip
def test_members_of_a_structure_are_no_elements(
    kind: str, stride: int, line: int, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three members of twelve bytes, each stored by itself: four such structures are no size of an access."""
    text = Text("k.cu", 1, "__global__ void k(Pixel* out, int n) {\n  int i = threadIdx.x;\n  out[i] = i;\n}")
    op = SimpleNamespace(space="global", access="store", bytes=4)
    code = SimpleNamespace(classes=[op], ran=list, where=lambda asked: [0] if asked(None, op) else [])
    setting = SimpleNamespace(code=code, sites=lambda i: [("k.cu" if line < 9 else "other.h", line)])
    body = (text.code.index("out[i]"), text.code.index(";\n}"))
    one = SimpleNamespace(rows=[SimpleNamespace(kind=kind)], body=body, handed=())
    beside = [0] if stride == op.bytes else []
    assert accesses.whole(setting, text, one, beside, {}) == taken  # type: ignore[arg-type]


@pytest.mark.parametrize(("second", "yes"), [(100, True), (70, True), (20, False), (0, False)])
def test_what_few_elements_ask_for_is_not_read_for_all(
    second: int, yes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    load = SimpleNamespace(access="load")
    monkeypatch.setattr(accesses, "pointer", lambda code, i: str(i))
    code = SimpleNamespace(classes=[load, load], column=lambda name: [100, second])
    assert accesses.mostly(SimpleNamespace(code=code), [0, 1]) is yes  # type: ignore[arg-type]
    code.column = lambda name: None  # nobody counted
    assert accesses.mostly(SimpleNamespace(code=code), [0, 1]) is False  # type: ignore[arg-type]
