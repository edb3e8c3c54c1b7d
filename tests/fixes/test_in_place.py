"""Parameters that each thread copies because code picks members of them: the word that leaves them where they are."""

from __future__ import annotations

import pytest

from kscope.features.sass.listing import Listing
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.memory.qualifiers import _needed, in_place
from kscope.model.contract.analysis import Finding
from kscope.parsers.sass.instructions import parse_program
from tests.features.patterns.test_local_memory import PARAMETERS

SOURCE = """struct Shape { int dims; int size[8]; int step[8]; };
__global__ void permute(const float* __restrict__ x,
                        float* __restrict__ y, {shape}) {{
  int t = blockIdx.x * 256 + threadIdx.x, at = 0, left = t;
  for (int d = s.dims - 1; d >= 0; d--) {{ at += (left & s.size[d]) * s.step[d]; left /= 2; }}
  y[t] = x[at];{more}
}}
"""


def asked(shape: str, more: str = "", sm: int = 90) -> Asked:
    """The finding on the listing of this source, whose lines are all from its fifth."""
    text = SOURCE.replace("{{", "{").replace("}}", "}").replace("{shape}", shape).replace("{more}", more)
    rows = [(int(pc, 16), ins, "k.cu", 5) for pc, _, ins in (r.partition(" ") for r in PARAMETERS.strip().splitlines())]
    setting = Setting(Listing(parse_program("permute", sm, rows)), lambda file: text.splitlines(), name="permute")
    finding = Finding(code="MEM105", rule="local-memory-indexing", title="", regime="memory")
    return Asked(setting, finding)


@pytest.mark.parametrize("shape", ["const Shape s", "Shape s", "Shape const s"])
def test_the_word_is_put_before_the_parameter(shape: str) -> None:
    (fix,) = in_place(asked(shape))
    (edit,) = fix.edits
    assert (edit.line, edit.was) == (3, f"                        float* __restrict__ y, {shape}) {{")
    assert edit.becomes == "                        float* __restrict__ y, const __grid_constant__ Shape s) {"
    assert fix.proof[0].after == 0 and fix.proof[0].before > 0


@pytest.mark.parametrize(
    ("shape", "more"),
    [
        ("const __grid_constant__ Shape s", ""),
        ("Shape s, Shape z", " y[t] = z.dims;"),  # which one is meant is not clear
        ("Shape s", " s.dims = 3;"),
        ("Shape s", " s.step[0] += 3;"),
        ("Shape s", " fill(&s);"),
        ("Shape s", " s.step[t & s.dims]++;"),
        ("Shape s", " s.step[left & s.size[0]] = 3;"),
        ("Shape s", " Shape& mine = s;"),
        ("Shape s", "\n}\n__global__ void permute(const float* x, float* y, Shape s);\nint f() {"),  # so, too
        ("const Shape* s", ""),
        ("int s", ""),
    ],
)
def test_not_where_it_is_there_unclear_or_written(shape: str, more: str) -> None:
    assert in_place(asked(shape, more)) == []


def test_another_parameter_whose_type_ends_alike_stays() -> None:
    (fix,) = in_place(asked("OddShape s2, Shape s"))
    assert fix.edits[0].becomes.endswith("y, OddShape s2, const __grid_constant__ Shape s) {")


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        ("y[0] = x[1] + c[0];", False),
        ("for (int k = 0; k < 4; k++) { y[k] = c[k]; __syncthreads(); }", False),
        ("while (c[0] == 0) ; y[0] = 1;", True),  # others write it
        ("for (int k = 0; c[k] < 2; k++) y[k] = 1;", True),
        ("c[y[0]] = 1;", True),
        ("y[0] = c[0]; __threadfence();", True),
        ("volatile float* d = c + 1; y[0] = d[0];", True),  # which a pointer to constants is none for
    ],
)
def test_volatile_is_needed_where_others_write_or_take_it_on(line: str, needed: bool) -> None:
    head = "__global__ void k(const float* x, volatile float* c, float* y) {"
    assert _needed(head, [head, f"  {line}", "}", "__global__ void g(float* c) { c[0] = 1; }"], 1) is needed


def test_another_kernel_says_nothing_of_this_one() -> None:
    """Its members are changed, or it has two structures: both behind the end of the one that is meant."""
    other = "\n}\n__global__ void other(Shape s, Shape z, int* y) { s.dims = 1; y[0] = s.dims + z.dims;"
    assert len(in_place(asked("const Shape s", other))) == 1


def test_not_for_chips_that_cannot() -> None:
    assert in_place(asked("const Shape s", sm=61)) == []


@pytest.mark.parametrize(("before", "found"), [("", 1), ("__global__ void other(Shape s) { }\n", 1)])
def test_members_read_by_a_function_that_it_is_handed_to(before: str, found: int) -> None:
    """The loads' lines are the function's, those of the copy the kernel's: not what stands before it."""
    text = f"""struct Shape {{ int dims; unsigned size[8]; }};
{before}__device__ int place(const Shape& s, int i) {{
  int at = 0;
  for (int d = s.dims - 1; d >= 0; d--) at += i % s.size[d];
  return at;
}}
__global__ void permute(const float* x, float* y, Shape s) {{
  int t = blockIdx.x * 256 + threadIdx.x;
  y[t] = x[place(s, t)];
}}"""
    lines = text.splitlines()
    head = next(n for n, line in enumerate(lines, 1) if "void permute" in line)
    rows = [
        (int(pc, 16), ins, "k.cu", head - 3 if "LDL" in ins else head)
        for pc, _, ins in (r.partition(" ") for r in PARAMETERS.strip().splitlines())
    ]
    setting = Setting(Listing(parse_program("permute", 90, rows)), lambda file: lines)
    fixes = in_place(Asked(setting, Finding(code="MEM105", rule="local-memory-indexing", title="", regime="memory")))
    assert [edit.line for fix in fixes for edit in fix.edits] == [head] * found
