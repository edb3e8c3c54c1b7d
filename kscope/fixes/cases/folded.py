"""Numbers of C++ with their types, and expressions of them as the compiler works them out."""

from __future__ import annotations

import re
import struct
from fractions import Fraction

from msgspec import Struct

from kscope.fixes.given.grammar import Node, Unplayable

BITS = {"int": 32, "unsigned": 32, "long long": 64, "unsigned long long": 64}
FLOATS = {"float": (24, -126), "double": (53, -1022)}
"""Bits of a mantissa, exponent of the least normal number (IEEE 754)."""
_KINDS = {
    "size_t": "unsigned long long", "uint32_t": "unsigned", "int32_t": "int", "uint64_t": "unsigned long long",
    "int64_t": "long long", "unsigned int": "unsigned", "uint": "unsigned", "long long int": "long long",
}  # fmt: skip
_WHOLE = re.compile(r"(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9]\d*)([uUlL]*)")
_RANK = ("int", "unsigned", "long long", "unsigned long long", "float", "double")
EXACT = 1 << 53


class Number(Struct, frozen=True):
    kind: str
    value: int | float

    @property
    def exact(self) -> Fraction:
        return Fraction(self.value)


def number(word: object) -> Number | None:
    """What a literal stands for."""
    if not isinstance(word, str):
        return Number("int", word) if isinstance(word, int) else None
    sign = -1 if word.startswith("-") else 1
    word = word.lstrip("-")
    if (m := _WHOLE.fullmatch(word)) is not None:
        value, suffix = int(m[1], 0) if not re.fullmatch(r"0[0-7]+", m[1]) else int(m[1], 8), m[2].lower()
        unsigned, wide = "u" in suffix, "l" in suffix
        if not wide and value < (1 << 32 if unsigned or m[1][:2].lower() == "0x" else 1 << 31):
            return Number("unsigned" if unsigned or value >= 1 << 31 else "int", sign * value)
        return Number("unsigned long long" if unsigned else "long long", sign * value) if value < 1 << 63 else None
    if word[-1:] in "fF" and not word.lower().startswith("0x"):
        rounded = _single(float(word[:-1]))
        return Number("float", sign * rounded) if rounded is not None else None
    try:
        return Number("double", sign * float(word))
    except ValueError:
        return None


def word(one: Number) -> str:
    """The literal that is read back as this very number."""
    if one.kind in BITS:
        suffix = {"int": "", "unsigned": "u", "long long": "ll", "unsigned long long": "ull"}[one.kind]
        return f"{one.value}{suffix}"
    if one.kind == "double":
        return repr(float(one.value))
    for digits in range(1, 10):
        text = f"{one.value:.{digits}g}"
        if _single(float(text)) == one.value:
            break
    return f"{text}f" if re.search(r"[.e]", text) else f"{text}.0f"


def node(one: Number) -> Node:
    return ("number", word(one))


def of(tree: Node) -> Number | None:
    return number(tree[1]) if tree[0] == "number" else None


def converted(one: Number, kind: str) -> Number | None:
    """As a value of another type; None where C++ leaves it open, or it is not one of these types."""
    kind = _KINDS.get(kind, kind)
    if kind in ("auto", one.kind):
        return one
    if kind == "bool":
        return Number("int", int(one.value != 0))
    if kind in BITS:
        return _whole(int(one.value), kind, wraps=one.kind in BITS)
    if kind == "double":
        return Number(kind, float(one.value)) if abs(one.value) <= EXACT or one.kind in FLOATS else None
    if kind == "float" and (abs(one.value) <= EXACT or one.kind in FLOATS):
        rounded = _single(float(one.value))
        return Number(kind, rounded) if rounded is not None else None
    return None


def folded(tree: Node) -> Node:
    """An operation on numbers as the number that it gives; the operation where it is none of those that are known."""
    kind = tree[0]
    found: Number | None = None
    if kind == "binary":
        left, right = of(tree[2]), of(tree[3])
        found = _binary(tree[1], left, right) if left is not None and right is not None else None
    elif kind == "unary" and (one := of(tree[2])) is not None:
        found = _unary(tree[1], one)
    elif kind == "cast" and not tree[3] and (one := of(tree[2])) is not None:
        found = converted(one, tree[1])
    elif kind == "choose" and (one := of(tree[1])) is not None:
        found = _side(one, of(tree[2]), of(tree[3]))
    return node(found) if found is not None else tree


def _side(test: Number, first: Number | None, second: Number | None) -> Number | None:
    """What a ?: of numbers gives: of the type of both."""
    if first is None or second is None:
        return None
    return converted(first if test.value else second, max(first.kind, second.kind, key=_RANK.index))


def representable(value: Fraction, kind: str) -> bool:
    """Whether a type has this very number (of floats: none of those below the normal ones)."""
    if kind in BITS:
        return value.denominator == 1 and abs(value) < 1 << 31
    bits, least = FLOATS[kind]
    if not value:
        return True
    below = value.denominator
    if below & (below - 1) or abs(value) < Fraction(2) ** least or abs(value) >= Fraction(2) ** -least:
        return False
    top = abs(value.numerator)
    return (top >> ((top & -top).bit_length() - 1)).bit_length() <= bits


def _single(value: float) -> float | None:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return None


def _whole(value: int, kind: str, *, wraps: bool) -> Number | None:
    bits = BITS[kind]
    if kind.startswith("unsigned"):
        return Number(kind, value % (1 << bits)) if wraps or 0 <= value < 1 << bits else None
    return Number(kind, value) if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def _unary(op: str, one: Number) -> Number | None:
    if op == "!":
        return Number("int", int(not one.value))
    if op == "-":
        return _whole(-int(one.value), one.kind, wraps=True) if one.kind in BITS else Number(one.kind, -one.value)
    if op == "~" and one.kind in BITS:
        return _whole(~int(one.value), one.kind, wraps=True)
    return one if op == "+" else None


def _binary(op: str, left: Number, right: Number) -> Number | None:
    if op in ("&&", "||"):
        yes = (left.value and right.value) if op == "&&" else (left.value or right.value)
        return Number("int", int(bool(yes)))
    if op in ("<<", ">>"):
        kind = left.kind
    else:
        kind = max(left.kind, right.kind, key=_RANK.index)
        first, second = converted(left, kind), converted(right, kind)
        if first is None or second is None:
            return None
        left, right = first, second
    tests = {"<": left.value < right.value, ">": left.value > right.value, "<=": left.value <= right.value,
             ">=": left.value >= right.value, "==": left.value == right.value,
             "!=": left.value != right.value}  # fmt: skip
    if op in tests:
        return Number("int", int(tests[op]))
    return _integers(op, int(left.value), int(right.value), kind) if kind in BITS else _reals(op, left, right, kind)


def _integers(op: str, a: int, b: int, kind: str) -> Number | None:
    if (op in "/%" and b == 0) or (op in ("<<", ">>") and (not 0 <= b < BITS[kind] or a < 0)):
        return None
    quotient = (abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)) if op in "/%" else 0
    found = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: quotient,
             "%": lambda: a - quotient * b, "<<": lambda: a << b, ">>": lambda: a >> b, "&": lambda: a & b,
             "|": lambda: a | b, "^": lambda: a ^ b}.get(op)  # fmt: skip
    return _whole(found(), kind, wraps=kind.startswith("unsigned")) if found is not None else None


def _reals(op: str, left: Number, right: Number, kind: str) -> Number | None:
    a, b = float(left.value), float(right.value)
    if op not in ("+", "-", "*", "/") or (op == "/" and b == 0):
        return None
    value = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0.0}[op]
    if kind == "double":
        return Number(kind, value) if abs(value) < float("inf") else None
    rounded = _single(value)  # of 53 bits to 24: as if rounded once (Figueroa, 1995)
    return Number(kind, rounded) if rounded is not None else None


def truth(tree: Node) -> bool | None:
    """What a test of numbers says."""
    one = of(tree)
    return bool(one.value) if one is not None else None


def whole(tree: Node) -> int:
    """An integer that must be known."""
    one = of(tree)
    if one is None or one.kind not in BITS:
        raise Unplayable("a number that is not known")
    return int(one.value)
