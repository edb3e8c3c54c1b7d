"""What one integer instruction makes of its operands in 32 lanes (`kscope.features.lanes.values` runs them).

What they compute is checked where it shows: the bank conflicts derived from them are those that captures measured. An
opcode that is not here makes its result unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kscope.isa.purpose import constant_of
from kscope.model.operand import PREDICATE_BASE, Operand
from kscope.model.program import Instruction

Value = int | tuple[int, ...] | None
"""The same number in all lanes, one number a lane, or unknown. Registers are modulo 2**32, predicates 0 or 1."""

LANES = 32
MASK = (1 << 32) - 1


class Reader(Protocol):
    """Where operands get their values from (`kscope.features.lanes.values.Lanes`)."""

    def operand(self, index: int, place: int) -> Value:
        """The source operand at a place of an instruction."""

    def source(self, index: int, operand: Operand, word: int = 0) -> Value:
        """An operand that an instruction reads; `word`: which 32-bit word of it, from the lowest."""


def flat(values: tuple[int, ...]) -> int | tuple[int, ...]:
    return values[0] if values.count(values[0]) == len(values) else values


def each(f: Callable[..., int], *values: Value) -> Value:
    """f on each lane's values; once where all are uniform."""
    uniform = True
    for v in values:
        if v is None:
            return None
        if v.__class__ is tuple:
            uniform = False
    if uniform:
        return f(*values)
    return flat(tuple(map(f, *[v if isinstance(v, tuple) else (v,) * LANES for v in values])))


def wide(value: Value, signed: bool) -> Value:
    return each(lambda a: a - (1 << 32) if signed and a >> 31 else a, value)


def _imad(v: Reader, i: int, ins: Instruction, place: int) -> Value:
    if "HI" in ins.mods or "X" in ins.mods:
        return None
    a, b = v.operand(i, _first(ins)), v.operand(i, _first(ins) + 1)
    if "WIDE" not in ins.mods:
        c = v.operand(i, _first(ins) + 2)
        return each(lambda x, y, z: (x * y + z) & MASK, a, b, c)
    if place == 0:
        return each(lambda x, y, z: (x * y + z) & MASK, a, b, v.operand(i, _first(ins) + 2))
    signed = "U32" not in ins.mods
    low = v.operand(i, _first(ins) + 2)
    high = v.source(i, ins.operands[_first(ins) + 2], 1)
    return each(
        lambda x, y, z, h: ((x * y + z + (h << 32)) >> 32) & MASK, wide(a, signed), wide(b, signed), low, high
    )


def _first(ins: Instruction) -> int:
    """Place of the first source: behind the destination and its predicates."""
    at = 1
    while at < len(ins.operands) and ins.operands[at].kind == "predicate" and not ins.operands[at].negated:
        at += 1
    return at


def _iadd3(v: Reader, i: int, ins: Instruction, place: int) -> Value:
    if ins.defs[place] >= PREDICATE_BASE:
        return None  # a carry
    if "X" in ins.mods:
        return None  # the upper half of a 64-bit address: nobody asks for it
    at = _first(ins)
    values = [v.source(i, o) for o in ins.operands[at : at + 3]]
    return each(lambda *row: sum(row) & MASK, *values)


def _lea(v: Reader, i: int, ins: Instruction, place: int) -> Value:
    if ins.defs[place] >= PREDICATE_BASE or "X" in ins.mods:
        return None
    at = _first(ins)
    a, b = v.operand(i, at), v.operand(i, at + 1)
    if "HI" in ins.mods:
        if len(ins.operands) < at + 4 or "SX32" in ins.mods:
            return None
        left = ins.operands[at + 3].shift
        if left is None:
            return None
        return each(lambda x, y, h: ((((h << 32 | x) << left) >> 32) + y) & MASK, a, b, v.operand(i, at + 2))
    shift = ins.operands[at + 2].shift if len(ins.operands) > at + 2 else 0
    return each(lambda x, y: ((x << shift) + y) & MASK, a, b) if shift is not None else None


def _lop3(v: Reader, i: int, ins: Instruction, place: int) -> Value:
    if ins.defs[place] >= PREDICATE_BASE:
        return None
    at = 2 if ins.operands[0].kind == "predicate" else _first(ins)  # `LOP3.LUT P0, R5, ..`: the predicate comes first
    if len(ins.operands) < at + 4 or ins.operands[at + 3].kind != "integer":
        return None
    table = ins.operands[at + 3].value
    values = [v.source(i, o) for o in ins.operands[at : at + 3]]

    def bits(a: int, b: int, c: int) -> int:
        out = 0
        for n in range(8):
            if table >> n & 1:
                out |= (a if n & 4 else ~a) & (b if n & 2 else ~b) & (c if n & 1 else ~c)
        return out & MASK

    if any(value is None for value in values):  # a mask of zero bits hides what is unknown only if all of it is
        return None
    return each(bits, *values)


def _shf(v: Reader, i: int, ins: Instruction, place: int) -> Value:
    low, amount, high = v.operand(i, 1), v.operand(i, 2), v.operand(i, 3)
    mods = ins.mods
    if "L" in mods:
        if "HI" in mods:
            return each(lambda a, s, h: ((h << 32 | a) << min(s & 63, 32) >> 32) & MASK, low, amount, high)
        return each(lambda a, s: (a << s) & MASK if s < 32 else 0, low, amount)
    if "HI" in mods:
        signed = "S32" in mods or "S64" in mods
        return each(lambda h, s: (h - (1 << 32) if signed and h >> 31 else h) >> min(s, 32) & MASK, high, amount)
    signed = "S32" in mods
    return each(lambda a, s, h: ((h << 32 | a) >> min(s & 63, 32)) & MASK, low, amount, high) if not signed else None


def _halves(v: Reader, i: int, ins: Instruction, place: int) -> Value:
    """`HFMA2.MMA R9, -RZ, RZ, 0, 2.38e-07`: how the compiler writes a constant on a pipe that is free."""
    return constant_of(ins)


def _mov(v: Reader, i: int, ins: Instruction, place: int) -> Value:
    return v.source(i, ins.operands[1], place)


def _first_lane(v: Reader, i: int, ins: Instruction, place: int) -> Value:
    operand = next((o for o in ins.operands[1:] if o.register >= 0), None)
    value = v.source(i, operand) if operand is not None else None
    return value[0] if isinstance(value, tuple) else value


def _sel(v: Reader, i: int, ins: Instruction, place: int) -> Value:
    a, b, p = v.operand(i, 1), v.operand(i, 2), v.operand(i, 3)
    return each(lambda x, y, z: x if z else y, a, b, p)


def _viadd(v: Reader, i: int, ins: Instruction, place: int) -> Value:
    return each(lambda a, b: (a + b) & MASK, v.operand(i, 1), v.operand(i, 2))


def _prmt(v: Reader, i: int, ins: Instruction, place: int) -> Value:
    if ins.mods:
        return None
    def pick(a: int, s: int, b: int) -> int:
        both = b << 32 | a
        out = 0
        for n in range(4):
            code = s >> (4 * n) & 15
            byte = both >> (8 * (code & 7)) & 255
            out |= (255 * (byte >> 7) if code & 8 else byte) << (8 * n)
        return out
    return each(pick, v.operand(i, 1), v.operand(i, 2), v.operand(i, 3))


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
}  # fmt: skip


def _isetp(v: Reader, i: int, ins: Instruction, place: int) -> Value:
    if not ins.mods or ins.mods[0] not in _COMPARE or "EX" in ins.mods or "U64" in ins.mods:
        return None
    compare, signed = _COMPARE[ins.mods[0]], "U32" not in ins.mods
    a, b = wide(v.operand(i, 2), signed), wide(v.operand(i, 3), signed)
    result = each(lambda x, y: int(compare(x, y)), a, b)
    if place:
        result = each(lambda r: 1 - r, result)
    other = v.operand(i, 4)
    joined: Callable[[int, int], int] = (
        (lambda r, p: r | p) if "OR" in ins.mods else (lambda r, p: r ^ p) if "XOR" in ins.mods else lambda r, p: r & p
    )
    return each(joined, result, other)


OPERATIONS: dict[str, Callable[[Reader, int, Instruction, int], Value]] = {
    "IMAD": _imad, "IADD3": _iadd3, "IADD": _iadd3, "LEA": _lea, "LOP3": _lop3, "SHF": _shf, "MOV": _mov,
    "R2UR": _first_lane, "SEL": _sel, "VIADD": _viadd, "PRMT": _prmt, "ISETP": _isetp,
    "HFMA2": _halves,
}  # fmt: skip
