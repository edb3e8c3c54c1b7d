"""Operands as values, and that nobody but the parser reads their text."""

from __future__ import annotations

import ast
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.model.operand import PREDICATE_BASE, UNIFORM_BASE, Base, Operand, ends_with, memory_operand, uniform_base
from kscope.parsers.sass.instructions import parse_instruction
from kscope.parsers.sass.operands import operand

UR, P, UP = UNIFORM_BASE, PREDICATE_BASE, 544
CASES = {
    "R12": Operand("R12", "register", 12),
    "UR4": Operand("UR4", "register", UR + 4),
    "-R7.reuse": Operand("-R7.reuse", "register", 7, negated=True, reuse=True),
    "|R4|": Operand("|R4|", "register", 4, absolute=True),
    "-|R4.reuse|": Operand("-|R4.reuse|", "register", 4, negated=True, absolute=True, reuse=True),
    "~R4": Operand("~R4", "register", 4, inverted=True),
    "R2.H0_H0": Operand("R2.H0_H0", "register", 2, part="H0_H0"),
    "RZ": Operand("RZ", "register"),
    "!UP3": Operand("!UP3", "predicate", UP + 3, negated=True),
    "PT": Operand("PT", "predicate"),
    "!PT": Operand("!PT", "predicate", negated=True),
    "PR": Operand("PR", "predicates"),
    "0x1f": Operand("0x1f", "integer", value=31),
    "-0x10": Operand("-0x10", "integer", value=-16),
    "2": Operand("2", "integer", value=2),
    "1.875": Operand("1.875", "float"),
    "-1.0000000000000000e+30": Operand("-1.0000000000000000e+30", "float"),
    "+INF": Operand("+INF", "float"),
    "+QNAN": Operand("+QNAN", "float"),
    "c[0x0][0x210]": Operand("c[0x0][0x210]", "constant", value=0x210, bank=0, prefix="c"),
    "-c[0x3][0x8].reuse": Operand(
        "-c[0x3][0x8].reuse", "constant", value=8, bank=3, prefix="c", negated=True, reuse=True
    ),
    "c[0x3][R4+0x10]": Operand("c[0x3][R4+0x10]", "constant", value=16, bank=3, bases=(Base(4),), prefix="c"),
    "c[UR4][0x10]": Operand("c[UR4][0x10]", "constant", value=16, bases=(Base(UR + 4),), prefix="c"),
    "[R1+0x8]": Operand("[R1+0x8]", "memory", value=8, bases=(Base(1),)),
    "[R7.X8+UR4+-0x20]": Operand("[R7.X8+UR4+-0x20]", "memory", value=-32, bases=(Base(7, 8, 1), Base(UR + 4))),
    "desc[UR6][R2.64+0x10]": Operand(
        "desc[UR6][R2.64+0x10]", "memory", value=16, bases=(Base(2, 1, 2),), prefix="desc", descriptor=UR + 6
    ),
    "gdesc[UR8]": Operand("gdesc[UR8]", "memory", bases=(Base(UR + 8, 1, 2),), prefix="gdesc"),
    "tmem[UR5]": Operand("tmem[UR5]", "memory", bases=(Base(UR + 5),), prefix="tmem"),
    "[0x4000]": Operand("[0x4000]", "memory", value=0x4000),
    "SR_TID.X": Operand("SR_TID.X", "special"),
    "B3": Operand("B3", "barrier", value=3),
    "SB0": Operand("SB0", "scoreboard"),
    "`(.L_x_3)": Operand("`(.L_x_3)", "word"),
    "2D": Operand("2D", "word"),
    "gsb0": Operand("gsb0", "word"),
}


@pytest.mark.parametrize("text", CASES)
def test_values(text: str) -> None:
    assert operand(text) == CASES[text] and str(operand(text)) == text
    assert operand(text) is operand(text), "shared by all instructions that have it"


def test_questions() -> None:
    assert [operand(t).vector for t in ("R12", "-R12", "|R12|", "R12.reuse", "RZ", "UR4", "P0", "0xc")] == [
        12, 12, 12, 12, None, None, None, None,
    ]  # fmt: skip
    assert [operand(t).zero for t in ("RZ", "-URZ", "PT", "R0", "0x0")] == [True, True, False, False, False]
    assert [operand(t).number for t in ("1.5", "2", "-INF", "0x2", "R2")] == [1.5, 2.0, float("-inf"), None, None]
    assert [operand(t).constant for t in ("0x1", "c[0x0][0x8]", "RZ", "!PT", "R1", "1.5")] == [True] * 4 + [False] * 2
    assert operand("`(cosf)").symbol == "cosf" and operand("R4").symbol == ""
    assert operand("desc[UR6][R2.64+UR4]").mentioned == (2, UR + 4)
    assert [uniform_base(operand(t)) for t in ("[UR4+0x8]", "[R4]", "gdesc[UR4]", "UR4")] == [UR + 4, None, None, None]
    load = parse_instruction("LDG.E R4, desc[UR6][R2.64+0x10]", 0, 0).operands
    assert memory_operand(load) is load[1] and memory_operand(load[:1]) is None
    assert ends_with(parse_instruction("DEPBAR.LE SB0, 0x0", 0, 0).operands, 0) and not ends_with((), 0)


@given(st.text(alphabet="RUPZT0123456789xabcdef[]+-~!|.XcdescgSB`()HL_ ", max_size=24))
def test_odd_text_never_raises(text: str) -> None:
    found = operand(text)
    assert found.text == text and all(b.register >= 0 and b.words in (0, 1, 2) for b in found.bases)


@given(st.floats(width=16, allow_nan=False, allow_infinity=False))
def test_decimal_immediates(value: float) -> None:
    found = operand(f"{value!r}")
    assert found.number == value and struct.pack("<e", found.number) == struct.pack("<e", value)


KSCOPE = Path(__file__).resolve().parents[3] / "kscope"
OTHER_TEXT = {
    "features/sass/code_identity.py": "whole instructions, for a hash", "features/sass/library_code.py": "paths",
    "features/sass/align.py": "compares whole instructions with their registers renamed",
    "features/timeline/operations/kernel_kinds.py": "names of kernels",
    "features/timeline/operations/launches.py": "names of kernels",
    "features/timeline/communication/communication.py": "names of collectives",
    "features/timeline/operations/profiling.py": "names of kernels",
    "features/timeline/operations/operator_work.py": "names of operators",
    "features/timeline/operations/api_names.py": "names of API calls",
    "features/timeline/operations/counters.py": "names of sampled counters",
    "features/timeline/operations/projected.py": "names of ranges",
    "features/timeline/operations/single_precision.py": "names of kernels",
    "features/timeline/operations/steps.py": "names of ranges",
    "features/timeline/operations/torch_compile.py": "names of ranges",
}  # fmt: skip
"""Modules that search text with regular expressions, and what text that is."""
TAKES_APART = {"startswith", "endswith", "split", "partition", "rpartition", "strip", "lstrip", "rstrip", "find",
               "removeprefix", "removesuffix", "replace", "index"}  # fmt: skip


def takes_apart(node: ast.AST) -> bool:
    """`x.text.startswith(...)`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKES_APART):
        return False
    return isinstance(node.func.value, ast.Attribute) and node.func.value.attr == "text"


@pytest.mark.parametrize("room", ["features", "rules"])
def test_nobody_parses_operands_again(room: str) -> None:
    """Features and rules ask operands for their values: no regular expressions, no slicing of their text."""
    searching, parsing = set(), set()
    for path in sorted((KSCOPE / room).rglob("*.py")):
        name = path.relative_to(KSCOPE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import) and any(alias.name == "re" for alias in node.names):
                searching.add(name)
            if takes_apart(node):
                parsing.add(name)
    assert searching == {name for name in OTHER_TEXT if name.startswith(room)}
    assert parsing == set()
