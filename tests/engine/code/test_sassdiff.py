"""A normalised SASS diff on our own kernels: what a fix changed, and nothing where only names differ."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from msgspec import structs

from kscope.engine.code.sassdiff import match, sass_diff
from kscope.features.sass.align import align, code_of
from kscope.model.contract.sass_diff import FunctionDiff, sass_diff_json
from kscope.model.program import Cubin, Program
from kscope.parsers.sass.instructions import parse_program
from kscope.reports import Options
from kscope.reports.text.sass_diff import render_sass_diff
from tests.support.sass import EXPECTED, functions
from tests.support.thorough import some

PAIRS = {  # source, before, after, what must be fixed
    "vector": ("memory.cu", "scale4_scalar", "scale4_vector", ["MEM102"]),
    "spill": ("memory.cu", "mix80_capped", "mix80_free", ["MEM104"]),
    "fence": ("tma.cu", "put_unfenced", "put_fenced", ["ASY505"]),
    "barrier": ("tiles.cu", "shift_two_barriers", "shift_one_barrier", ["LAT309"]),
}


def pair(source: str, arch: str, before: str, after: str) -> FunctionDiff:
    left, right = (Cubin(arch, 90, (functions(source, arch)[name],)) for name in (before, after))
    (found,) = sass_diff("a", "b", [left], [right]).functions
    return found


def renamed(program: Program, change: Callable[[str], str]) -> Program:
    rows = [(ins.pc, change(ins.text), ins.file, ins.line) for ins in program.instructions]
    return structs.replace(parse_program(program.name, program.sm, rows), arch=program.arch)


@pytest.mark.parametrize("name", PAIRS)
def test_what_a_fix_changed(name: str) -> None:
    source, before, after, fixed = PAIRS[name]
    found = pair(source, "sm_90a", before, after)
    assert found.fixed == fixed and found.new == [] and not found.identical
    assert found.matched_by in ("code", "elimination") and found.removed + found.added > 0
    shown = [line for hunk in found.hunks for line in hunk]
    assert sum(line.kind == "removed" for line in shown) == found.removed
    assert sum(line.kind == "added" for line in shown) == found.added


def test_widths_and_spills_moved() -> None:
    vector = pair(*_at("vector"))
    assert {c.what: (c.before, c.after) for c in vector.accesses} == {
        "LDG.32": (4, 0), "LDG.128": (0, 1), "STG.32": (4, 0), "STG.128": (0, 1)
    }  # fmt: skip
    spill = {c.what: (c.before, c.after) for c in pair(*_at("spill")).figures}
    assert spill["spill stores"][0] > 0 == spill["spill stores"][1] and spill["registers"][0] < spill["registers"][1]


def _at(name: str) -> tuple[str, str, str, str]:
    source, before, after, _ = PAIRS[name]
    return source, "sm_90a", before, after


SOME = some([key for key in EXPECTED if key[1] in ("sm_80", "sm_100a")], 40)


@pytest.mark.parametrize(("source", "arch", "kernel"), SOME, ids="-".join)
def test_the_same_code_is_the_same(source: str, arch: str, kernel: str) -> None:
    code = code_of(functions(source, arch)[kernel])
    assert all(same and a == b for a, b, same in align(code, code))


@pytest.mark.parametrize("kernel", ["scale4_scalar", "mix80_capped", "palette_local"])
def test_other_register_numbers_are_no_difference(kernel: str) -> None:
    """Registers moved up by eight (pairs stay aligned): the form and the flow are the same."""
    program = functions("memory.cu", "sm_90a")[kernel]
    moved = renamed(program, lambda text: re.sub(r"\bR(\d+)", lambda m: f"R{int(m[1]) + 8}", text))
    (found,) = sass_diff("a", "b", [Cubin("sm_90a", 90, (program,))], [Cubin("sm_90a", 90, (moved,))]).functions
    assert found.identical and found.same == len(code_of(program)) and found.hunks == []


def test_two_registers_swapped_once_is_a_difference() -> None:
    program = functions("memory.cu", "sm_90a")["scale4_scalar"]
    at = next(i for i, ins in enumerate(program.instructions) if ins.opcode == "STG")
    text = program.instructions[at].text
    other = next(ins for ins in program.instructions[at + 1 :] if ins.opcode == "STG").text
    rows = [(ins.pc, ins.text, None, None) for ins in program.instructions]
    rows[at] = (rows[at][0], text.replace(text.rpartition(" ")[2], other.rpartition(" ")[2]), None, None)
    swapped = parse_program(program.name, 90, rows)
    (found,) = sass_diff("a", "b", [Cubin("sm_90a", 90, (program,))], [Cubin("sm_90a", 90, (swapped,))]).functions
    assert (found.changed, found.removed, found.added) == (1, 0, 0)
    (line,) = [line for hunk in found.hunks for line in hunk if line.kind == "changed"]
    assert line.before == text and line.after != text


def test_functions_find_their_partners() -> None:
    scale, copy = (parse_program(n, 90, [(0, "EXIT", None, None)]) for n in ("_Z5scaleIfEvPf", "copy"))
    again = structs.replace(scale, name="_Z5scaleIdEvPd", demangled="void scale<double>(double*)")
    first = structs.replace(scale, demangled="void scale<float>(float*)")
    found, left, right = match([first, copy], [again, copy])
    assert [(a.name, b.name, by) for a, b, by in found] == [
        ("copy", "copy", "name"), ("_Z5scaleIfEvPf", "_Z5scaleIdEvPd", "name without arguments"),
    ]  # fmt: skip
    assert left == right == []
    _, left, right = match([first, copy], [])
    assert (left, right) == (["void scale<float>(float*)", "copy"], [])


def test_only_images_of_one_target_are_compared() -> None:
    a, b = (Cubin(f"sm_{sm}", sm, tuple(functions("memory.cu", f"sm_{sm}").values())) for sm in (80, 86))
    found = sass_diff("a", "b", [a, b], [b])
    assert {f.arch_before for f in found.functions} == {"sm_86"} and all(f.identical for f in found.functions)
    assert found.notes == ["on one side only: sm_80"]
    across = sass_diff("a", "b", [a], [b])
    assert across.notes == ["different targets: sm_80 and sm_86"] and len(across.functions) == len(a.functions)


def test_reports() -> None:
    kernels = functions("memory.cu", "sm_90a")
    left, right = (Cubin("sm_90a", 90, (kernels[name],)) for name in ("scale4_scalar", "scale4_vector"))
    found = sass_diff("a", "b", [left], [right])
    text = render_sass_diff(found, Options(width=100))
    assert "LDG.32 4 -> 0" in text and "fixed  MEM102" in text and max(map(len, text.splitlines())) <= 100
    assert re.search(r"^-  00a0 +LDG\.E\.CONSTANT", text, re.MULTILINE)
    assert re.search(r"^\+ +0090  LDG\.E\.128", text, re.MULTILINE)
    parsed = json.loads(sass_diff_json(found))
    assert parsed["schema"] == "kscope.sass-diff/1" and parsed["functions"][0]["fixed"] == ["MEM102"]

