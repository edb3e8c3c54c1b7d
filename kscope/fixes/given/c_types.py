"""Types of C++ in texts that are played: their names, what an operation makes of two, what a number's literal says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

QUALIFIERS = {"const", "volatile", "static", "constexpr", "__restrict__", "register"}
VECTORS = {f"{kind}{n}": n for kind in ("float", "int", "uint", "double") for n in (2, 3, 4)}
"""Elements of a vector type."""

HALVES, PAIRS = ("__half", "__nv_bfloat16"), ("__half2", "__nv_bfloat162")  # numbers of two bytes, two of them
WHOLE = {"int32_t", "uint32_t", "int64_t", "uint64_t", "uint"}
TYPES = {"int", "unsigned", "float", "double", "size_t", "long", "short", "char", "bool", "auto", *WHOLE, *VECTORS,
          *HALVES, *PAIRS}  # fmt: skip

FLOAT = "float"
"""Of any size: fractions are played as what they are, or as whole numbers."""
WIDE, WORD = 64, 32  # bits


class Whole(NamedTuple):
    """An integer."""

    bits: int
    signed: bool

    def holds(self, other: Whole) -> bool:
        """Whether every number of another type is one of this."""
        if self.signed == other.signed:
            return self.bits >= other.bits
        return self.signed and self.bits > other.bits

    def has(self, number: int) -> bool:
        low = -(1 << self.bits - 1) if self.signed else 0
        return low <= number < 1 << self.bits - self.signed


class To(NamedTuple):
    """A pointer, or an array's row."""

    kind: Any


class Parts(NamedTuple):
    """A vector."""

    kind: Any


BOOL, INT, UNSIGNED = Whole(1, signed=False), Whole(WORD, signed=True), Whole(WORD, signed=False)
LONG, SIZE = Whole(WIDE, signed=True), Whole(WIDE, signed=False)
Kind = Any
"""A Whole, FLOAT, a To, Parts; None for what is not known."""

_BITS = {"bool": 1, "char": 8, "short": 16, "long": WIDE, "size_t": WIDE, "ptrdiff_t": WIDE, "int": WORD,
         "unsigned": WORD, "uint": WORD}  # fmt: skip
_NAMED = {f"{'' if signed else 'u'}int{bits}_t": Whole(bits, signed) for bits in (8, 16, 32, 64)
          for signed in (True, False)}  # fmt: skip
_FRACTIONS = ("float", "double", "half", "nv_bfloat16", *HALVES)
_QUALIFIERS = ("const", "constexpr", "static", "volatile", "signed")


def named(text: str) -> Kind:
    """What the words of a declaration name."""
    words = [w for w in text.split() if w not in _QUALIFIERS] or ["int"]
    last = words[-1]
    if last in VECTORS:
        return Parts(named(last[:-1]))
    if last in _FRACTIONS:
        return FLOAT
    if last in _NAMED:
        return _NAMED[last]
    if not all(w in _BITS for w in words):
        return None
    unsigned = bool({"unsigned", "uint", "size_t", "bool"} & set(words))
    return Whole(next((b for w, b in _BITS.items() if w in words), WORD), not unsigned)


def promoted(kind: Kind) -> Kind:
    """What arithmetic takes it for."""
    return INT if isinstance(kind, Whole) and kind.bits < WORD else kind


def common(one: Kind, other: Kind) -> Kind:
    """The type in which two numbers are added or compared."""
    if FLOAT in (one, other):
        return None if any(isinstance(x, (To, Parts)) for x in (one, other)) else FLOAT
    if not (isinstance(one, Whole) and isinstance(other, Whole)):
        return None
    a, b = promoted(one), promoted(other)
    return Whole(a.bits, a.signed and b.signed) if a.bits == b.bits else max(a, b)


def literal(word: str) -> Kind:
    """The type of a literal."""
    low = word.lower()
    if not low.startswith("0x") and any(c in low for c in ".ef"):
        return FLOAT
    digits = low.rstrip("ul")
    end, value = low[len(digits) :], integer(word)
    bits = WIDE if "l" in end or not UNSIGNED.has(value) else WORD
    if "u" in end or not Whole(bits, signed=True).has(value):
        if "u" in end or digits[0] == "0" or bits == WIDE:
            return Whole(bits, signed=False)
        return LONG  # a decimal number without a suffix has a sign
    return Whole(bits, signed=True)


def integer(word: str) -> int:
    """What a whole number's literal says: one that begins with 0 has octal digits."""
    digits = word.rstrip("uUlL")
    return int(digits, 8 if re.fullmatch("0[0-7]+", digits) else 0)


class Number(int):
    """A literal's number, with its type."""

    kind: Kind = None


def typed(word: str, value: float) -> float:
    """A literal's value that knows its type: fractions are no whole numbers, however they are played."""
    if not isinstance(value, int):
        return value
    made = Number(value)
    made.kind = literal(word)
    return made


def of_names(kinds: Mapping[str, str], pointers: Mapping[str, Any]) -> dict[str, Kind]:
    """Of names that a play is given; pointers: those that lead to arrays."""
    out: dict[str, Kind] = {}
    for name, kind in kinds.items():
        out[name] = To(named(kind)) if name in pointers else named(kind)
    return out
