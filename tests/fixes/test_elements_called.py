"""Elements side by side of which more is done than a value: functions called for them, texts that the preprocessor
chooses, arrays that the rest of the kernel uses too."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kscope.fixes.given.text import Text
from kscope.fixes.thread.callees import defined, handed_on
from kscope.fixes.thread.directives import ways
from kscope.fixes.thread.elements import Elements, elements
from kscope.fixes.thread.elementwise import _asked_of_reader, _Taken, spans
from kscope.fixes.thread.launched import elsewhere
from kscope.model.contract.fixes import Condition
from tests.support.with_sources import changes

REPORT = """
__device__ void report(float v, long long i, int* seen) {
  int at = atomicAdd(seen, 1);
  if (at < 10) { printf("%f", v); seen[at + 1] = i; }
}
"""
LOAD = "template <class T> __device__ float first(T* p) { return p[0]; }\n"


def kernel(*lines: str, head: str = "float* x, long long n, int* seen") -> str:
    return f"__global__ void check({head}) {{\n" + "\n".join(lines) + "\n}"


INDEX = "  int64 i = threadIdx.x + blockIdx.x * (int64)blockDim.x;"
CHECKED = kernel(INDEX, "  if (i < n) { if (isnan(x[i]) || isinf(x[i])) report(x[i], i, seen); }")


def found(text: str, functions: str = REPORT) -> list[Elements]:
    return list(elements(text, defined({"h.inc": functions}, text)))


def rewritten(text: str, one: Elements) -> str:
    for start, end, new in sorted(spans(text, one, 4), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def test_a_function_that_is_handed_a_counter_is_called_for_each_element() -> None:
    (one,) = found(CHECKED)
    assert [(r.name, r.written, r.loaded) for r in one.rows] == [("x", False, True)]
    assert one.handed == (("report", "seen"),)
    new = rewritten(CHECKED, one)
    assert "int64 i = (threadIdx.x + blockIdx.x * (int64)blockDim.x) * 4;" in new
    assert "if (isnan(x_v.at[k]) || isinf(x_v.at[k])) report(x_v.at[k], (i + k), seen);" in new
    assert "*reinterpret_cast<Several<float, 4>*>(&x[i]) =" not in new  # nothing is stored


@pytest.mark.parametrize(
    "functions",
    [
        "",  # its text is elsewhere
        REPORT.replace("int at", "__syncwarp(); int at"),
        REPORT.replace("int at", "while (*seen < i) {} int at"),  # waits for another element's
        REPORT.replace("if (at < 10)", "if (threadIdx.x == 0)"),
        REPORT.replace("if (at < 10)", "if (unknown(at))"),
        REPORT.replace("if (at < 10)", "if (lane())") + "__device__ int lane() { return __activemask(); }",
    ],
)
def test_a_function_that_may_hang_on_other_threads_is_not(functions: str) -> None:
    assert found(CHECKED, functions) == []


@pytest.mark.parametrize(
    "text",
    [
        CHECKED.replace("  if (i", "  seen[5] = 0; if (i"),  # used elsewhere too
        CHECKED.replace("x[i], i, seen)", "x[i], i, seen + i)"),
        CHECKED.replace("x[i], i, seen)", "x[i], i, seen); seen[i] = 1"),  # an element's own array
        CHECKED.replace("report(x[i], i, seen)", "report(x[i + 1], i, seen)"),
    ],
)
def test_what_its_pointer_leads_to_is_used_nowhere_else(text: str) -> None:
    assert found(text) == []


def test_a_function_that_meets_other_threads_makes_no_element() -> None:
    body = kernel("  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = total(x[i]);")
    assert len(found(body, "__device__ float total(float v) { return v + 1; }")) == 1
    assert found(body, "__device__ float total(float v) { return __shfl_xor_sync(~0u, v, 1); }") == []


def test_a_function_that_changes_a_variable_of_the_thread_makes_no_element() -> None:
    body = kernel("  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = next(s, x[i]);")
    assert len(found(body, "__device__ float next(const float& s, float v) { return s + v; }")) == 1
    assert found(body, "__device__ float next(float& s, float v) { s = v; return s; }") == []


@pytest.mark.parametrize(
    ("called", "functions", "written"),
    [
        ("f(x[i])", "__device__ float f(float v) { return v; }", False),
        ("f(x[i])", "__device__ float f(float& v) { return v = 2; }", True),
        ("f(x[i])", "__device__ float f(float v) { return v; } __device__ float f(half& v) { return 1; }", True),
        ("f(x[i])", "", True),
        ("f((1), x[i])", "", True),
        ("f<float>(x[i])", "", True),
        ("f((1), x[i])", "__device__ float f(int& a, float b) { return b; }", False),
        ("static_cast<float>(x[i])", "", False),
    ],
)  # fmt: skip
def test_what_takes_a_value_leaves_the_element_as_it_is(called: str, functions: str, written: bool) -> None:
    head = "float* x, float* out, int n"
    (one,) = found(kernel(INDEX, f"  if (i < n) out[i] = {called};", head=head), functions)
    assert {r.name: r.written for r in one.rows} == {"out": True, "x": written}


def stated(head: str) -> list[Condition]:
    text = CHECKED.replace("float* x", head)
    return _asked_of_reader(text, [_Taken(found(text)[0], (0,), 4)], ["x"])


def test_what_the_function_changes_is_no_element() -> None:
    assert [c.state for c in stated("float* __restrict__ x")] == ["assumed", "check"]
    assert [c.state for c in stated("float* x")] == ["check", "check"]
    assert "report changes through seen is no element of x" in stated("float* x")[0].holds


CHOSEN = kernel(
    INDEX, "  if (i < n) {", "#if WHICH == 2", "    if (isnan(x[i]))", "#else", "    if (isinf(x[i]))", "#endif",
    "      report(x[i], i, seen);", "  }",
)  # fmt: skip


def test_a_text_is_read_in_each_way_that_the_preprocessor_may_take() -> None:
    first, second = ways(CHOSEN)
    assert ("isnan" in first, "isinf" in first) == (True, False)
    assert ("isnan" in second, "isinf" in second) == (False, True)
    assert {len(first), len(second)} == {len(CHOSEN)}
    (one,) = found(CHOSEN)
    assert len(one.rows[0].spans) == 3
    new = rewritten(CHOSEN, one).split("\n")
    assert [line for line in new if "#" in line and "pragma" not in line] == ["#if WHICH == 2", "#else", "#endif"] * 2
    assert "    if (isinf(x_v.at[k]))" in new


@pytest.mark.parametrize(
    "text",
    [
        CHOSEN.replace("isinf(x[i])", "isinf(x[i + 1])"),  # a neighbour's in one way
        CHOSEN.replace("if (isinf(x[i]))", "x[i] = 0;"),  # stored in one way
        CHOSEN.replace("if (isinf(x[i]))", "__syncthreads();"),
        CHOSEN.replace("#else", "#else\n#ifdef OTHER\n#endif"),
        CHOSEN.replace("#else", "#define x y\n#else"),
    ],
)
def test_ways_that_differ_are_left_alone(text: str) -> None:
    assert found(text) == []


HEADED = kernel(
    "  int idx = blockIdx.x * blockDim.x + threadIdx.x;",
    "  int row = blockIdx.y;",
    "  float most = first(reinterpret_cast<float*>(out + row * pitch));",
    "  for (int i = idx; i < n; i += blockDim.x * gridDim.x) {",
    "    int o = row * pitch + 32 + i;",
    "    out[o] = a[row * n + i] * most;",
    "  }",
    "  if (idx == 0) first(reinterpret_cast<float*>(out + row * pitch));",
    head="const float* a, unsigned char* out, int pitch, int n",
)


def test_a_place_that_all_threads_read_is_no_element() -> None:
    (one,) = found(HEADED, LOAD)
    assert [r.name for r in one.rows] == ["out", "a"]
    assert one.apart == ("reinterpret_cast<float*>(out + row * pitch)",)
    assert not elsewhere(one, HEADED, ("blockIdx.x", "gridDim.x"))  # idx == 0 is one thread in each launch
    assert elsewhere(one, HEADED.replace("idx == 0", "idx == 7"), ("blockIdx.x", "gridDim.x"))


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("out + row * pitch));\n  for", "out + row * pitch + threadIdx.x));\n  for"),  # each thread another
        ("out + row * pitch));\n  for", "out + row * pitch)); __syncthreads();\n  for"),
        ("  float most = first", "  float most = 1; if (row) most = first"),
        ("  if (idx == 0) first(reinterpret_cast<float*>(out + row", "  first(reinterpret_cast<float*>(out + 8 + row"),
        ("(out + row * pitch));\n  for", "(out + held));\n  for"),  # of what held is made is not seen
    ],
)
def test_another_place_may_be_one(was: str, becomes: str) -> None:
    assert was in HEADED
    assert found(HEADED.replace(was, becomes), LOAD) == []


def test_a_function_that_goes_on_from_the_place_may_use_elements() -> None:
    assert found(HEADED, LOAD.replace("p[0]", "p[0] + p[9]")) == []
    assert found(HEADED, "") == []


def test_a_product_in_brackets_is_no_pointer() -> None:
    text = kernel(INDEX, "  float s = f(n * q);", "  if (i < n) x[i] = s * (n * q);")
    assert [one.rows[0].name for one in found(text)] == ["x"]


FILL = """template <typename T>
__device__ void fill(T* x, T value, const size_t n) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) { x[i] = value; }
}
"""


def inner(text: str, functions: str) -> Text | None:
    setting = SimpleNamespace(lines=lambda file: functions.split("\n"))
    return handed_on(setting, Text("k.cu", 1, text), defined({"h.inc": functions}, text))  # type: ignore[arg-type]


def test_a_kernel_that_is_one_call_has_its_function_s_elements() -> None:
    text = "__global__ void fill_half(half* x, half value, size_t n) { fill(x, value, n); }"
    found = inner(text, FILL)
    assert found is not None and (found.file, found.first) == ("h.inc", 2)
    (one,) = elements(found.code)
    assert [(r.name, r.written, r.loaded) for r in one.rows] == [("x", True, False)]


@pytest.mark.parametrize(
    ("body", "functions"),
    [
        ("fill(x, value, n); x[0] = 1;", FILL),
        ("fill(x + 1, value, n);", FILL),  # another place: of what it starts with nothing is known
        ("fill(x, value, n);", FILL + FILL.replace("T value", "int value")),
        ("fill(x, value, n);", ""),
    ],
)
def test_a_kernel_that_does_more_has_none(body: str, functions: str) -> None:
    assert inner(f"__global__ void fill_half(half* x, half value, size_t n) {{ {body} }}", functions) is None


WHILE = kernel(
    "  unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;",
    "  while (at < n) {",
    "    float v = x[at];",
    "    out[at] = v * v;",
    "    at += blockDim.x * gridDim.x;",
    "  }",
    head="const float* x, float* out, unsigned n",
)


def test_a_while_loop_over_the_grid_has_elements() -> None:
    (one,) = elements(WHILE)
    assert (one.shape, one.kind, one.name, one.step) == ("loop", "unsigned int", "at", "blockDim.x * gridDim.x")
    assert not elsewhere(one, WHILE, ("blockIdx.x", "gridDim.x"))
    new = rewritten(WHILE, one)
    assert "for (at = (blockIdx.x * blockDim.x + threadIdx.x) * 4; at < at_whole; " in new
    assert "; at += (blockDim.x * gridDim.x) * 4) {" in new
    assert "float v = x_v.at[k];\n    out_v.at[k] = v * v;" in new
    assert "  at = at_whole + (blockIdx.x * blockDim.x + threadIdx.x);\n  while (at < n) {\n    float v = x[at];" in new
    assert new.count("at += blockDim.x * gridDim.x;") == 1  # of the rest alone


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("gridDim.x;\n  }", "gridDim.x;\n  }\n  out[at] = 0;"),
        ("gridDim.x;\n", "gridDim.x;\n    out[at] += 1;\n"),  # the next element's
        ("float v = x[at];", "float v = x[at]; if (v < 0) at += 2;"),
        ("    at += ", "    if (v > 0) at += "),
        ("at < n", "at < n && x[at] > 0"),
        ("  while", "  at += 5;\n  while"),
    ],
)
def test_a_while_loop_that_does_more_is_left_alone(was: str, becomes: str) -> None:
    assert list(elements(WHILE.replace(was, becomes))) == []


def test_waits_for_loads_promise_nothing_in_figures() -> None:
    every = [fix for code in ("MEM102", "LAT302") for fix in changes("small_grid.slow", code)]
    assert [fix.price is not None for fix in every if fix.kind == "neighbours"] == [True, False]
