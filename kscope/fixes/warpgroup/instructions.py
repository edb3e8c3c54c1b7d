"""Statements of assembly as instructions with operands."""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.roles.macros import parts

_PREDICATE = re.compile(r"\.reg\s*\.pred\s+(\w+)")
_SET = re.compile(r"setp\.(ne|eq)\.[bsu]32\s+(\w+)\s*,\s*(%?\w+)\s*,\s*(\d+)")


class Instruction(Struct, frozen=True):
    """operands: names, numbers and "%n", each in a list of as many as stand in one brace. predicates: (name, whether it
    is "not equal", operand, number)."""

    name: str
    operands: tuple[tuple[str, ...], ...]
    predicates: tuple[tuple[str, bool, str, int], ...] = ()


@cache
def instructions(text: str) -> tuple[Instruction, ...]:
    """Raises Unplayable where it has labels, jumps or predicated instructions."""
    text = re.sub(r"\\[nt]", " ", text).strip()
    if re.search(r"[@:](?!:)", text.replace("::", "")):
        raise Unplayable("assembly with jumps")
    known: list[tuple[str, bool, str, int]] = []
    out = []
    for one in map(str.strip, _statements(text)):
        if not one or _PREDICATE.fullmatch(one):
            continue
        if (m := _SET.fullmatch(one)) is not None:
            known.append((m[2], m[1] == "ne", m[3], int(m[4])))
            continue
        name, _, rest = one.partition(" ")
        out.append(Instruction(name, tuple(_operand(x) for x in parts(rest)), tuple(known)))
    return tuple(out)


def _statements(text: str) -> list[str]:
    """Without the braces around all of them or some."""
    out = []
    for one in text.split(";"):
        one = one.strip()
        while one.startswith(("{", "}")) and not one.startswith("{%"):
            one = one[1:].strip()
        out.append(one)
    return out


def _operand(text: str) -> tuple[str, ...]:
    text = " ".join(text.split())
    if text[:1] in "[{":
        text = text[1:-1]
    found = tuple(x.strip() for x in text.split(","))
    if not all(re.fullmatch(r"%?\w+|-\d+|%\w+ ?\+ ?\d+", x) for x in found):
        raise Unplayable("an operand of another kind")
    return found
