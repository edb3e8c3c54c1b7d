"""Operands of integer code as `kscope.features.lanes.values` needs them: parsed once, however many assumptions read
them."""

from __future__ import annotations

import re
from functools import lru_cache

from kscope.features.sass.listing import Listing, once_per_code
from kscope.model.program import PREDICATE_BASE, UNIFORM_BASE, UNIFORM_PREDICATE_BASE

MASK = (1 << 32) - 1
CONSTANT = re.compile(r"^c\[0x([0-9a-f]+)\]\[0x([0-9a-f]+)\]$")
REGISTER = re.compile(r"^(UR|UP|R|P)(\d+)$")
_BASE = re.compile(r"(?<![A-Za-z0-9_])(UR|R)(\d+)((?:\.\w+)*)")
_MEMORY = re.compile(r"\[([^\[\]]*)\]")
_OFFSET = re.compile(r"([-+])0x([0-9a-f]+)(?!\w)")
_BASES = {"R": 0, "UR": UNIFORM_BASE, "P": PREDICATE_BASE, "UP": UNIFORM_PREDICATE_BASE}


@lru_cache(maxsize=1 << 14)
def parsed(text: str) -> tuple[str, str, int]:
    """A source operand as (kind, text, number): a number, a register, a word of a constant bank (its decimal number is
    the text), or the negation or inversion (by a mask) of an operand; kind "" if it is none of these."""
    text = text.removesuffix(".reuse")
    if text.startswith("-") and not text.startswith("-0x"):
        return "-", text[1:], 0
    if text.startswith(("~", "!")):
        return "^", text[1:], MASK if text[0] == "~" else 1
    if text in ("RZ", "URZ", "PT", "UPT"):
        return "number", "", int(text.endswith("PT"))
    if match := REGISTER.match(text):
        return "register", "", _BASES[match[1]] + int(match[2])
    if match := CONSTANT.match(text):
        return "constant", str(int(match[1], 16)), int(match[2], 16)
    try:
        return "number", "", int(text, 0) & MASK
    except ValueError:
        return "", "", 0


@lru_cache(maxsize=1 << 14)
def brackets(operands: tuple[str, ...]) -> tuple[tuple[tuple[tuple[int, int], ...], int], ...]:
    """The memory operands of an instruction: registers with their scales, and the sum of the constants."""
    out = []
    for operand in operands:
        if operand.startswith("c["):
            continue
        for found in _MEMORY.finditer(operand[operand.rfind("][") + 1 :]):
            bases = []
            for kind, number, marks in _BASE.findall(found[1]):
                scale = re.search(r"\.X(\d+)", marks)
                bases.append((_BASES[kind] + int(number), int(scale[1]) if scale else 1))
            offsets = _OFFSET.findall(found[1]) or re.findall(r"^()0x([0-9a-f]+)", found[1])
            out.append((tuple(bases), sum(int(digits, 16) * (-1 if sign == "-" else 1) for sign, digits in offsets)))
    return tuple(out)


@once_per_code  # every assumption about a function asks
def pointers(code: Listing) -> frozenset[int]:
    """Byte offsets in constant bank 0 of the words that are low halves of 64-bit parameters: read as the addend of a
    wide multiply-add, as a pair whose halves meet again in one instruction, or added with a carry into the next word.
    Two 32-bit parameters that are merely loaded together do none of this."""
    found: set[int] = set()
    low: dict[int, int] = {}
    for i, ins in enumerate(code.program.instructions):
        for place, text in enumerate(ins.operands):
            match = CONSTANT.match(text.lstrip("-"))
            if not match or int(match[1], 16):
                continue
            offset = int(match[2], 16)
            if ins.opcode in ("LDC", "ULDC", "LDCU"):
                for pair in range(0, len(ins.defs) - 1, 2):
                    if _meets(code, i, ins.defs[pair], ins.defs[pair + 1]):
                        found.add(offset + 4 * pair)
            elif ("WIDE" in ins.mods and place == 3) or "64" in ins.mods:
                found.add(offset)
            elif "X" in ins.mods:
                low[offset - 4] = low.get(offset - 4, 0) | 1
            elif ins.opcode.lstrip("U") in ("IADD3", "LEA", "IADD"):
                low[offset] = low.get(offset, 0) | 2
    return frozenset(found | {offset for offset, halves in low.items() if halves == 3})


def _meets(code: Listing, index: int, low: int, high: int) -> bool:
    apart = [False, False]
    for j in code.defuse.consumers(index):
        ins = code[j]
        if low in ins.uses and high in ins.uses:
            return True
        apart[0] |= low in ins.uses
        apart[1] |= high in ins.uses and "X" in ins.mods
    return all(apart)
