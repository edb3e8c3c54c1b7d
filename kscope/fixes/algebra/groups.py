"""Expressions of neighbouring elements: whether a group of them has one value, or values that follow each other."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct, field

from kscope.fixes.algebra.rising import parsed
from kscope.fixes.given.grammar import Node

Way = Literal["same", "next", "other"]
"""Of the elements of a group: one value for all, each one more than the one before, anything."""


class Value(Struct, frozen=True):
    """`even`: the first element's is a multiple of the group's size."""

    way: Way
    even: bool = False


OTHER = Value("other")


class Group(Struct):
    """`size` elements whose flat index is `index`, a multiple of the size. `names`: what local names are. `sizes`:
    names that must be multiples of the size, as they part rows of elements. `divided`: how many divisions take part."""

    index: str
    size: int
    names: dict[str, Value] = field(default_factory=dict)
    sizes: list[str] = field(default_factory=list)
    divided: int = 0

    def of(self, text: str) -> Value:
        node = parsed(text)
        return self.value(node) if node is not None else OTHER

    def value(self, node: Node) -> Value:
        kind = node[0]
        if kind == "number":
            return Value("same", node[1] == int(node[1]) and node[1] % self.size == 0)
        if kind == "name":
            if node[1] == self.index:
                return Value("next", even=True)
            return self.names.get(node[1], Value("same", even=node[1] in self.sizes))
        if kind == "cast" and not node[3]:
            return self.value(node[2])
        if kind == "binary":
            return self._combined(node)
        if kind in ("index", "call", "choose", "unary"):
            parts = [x for x in node[1:] if isinstance(x, tuple)]
            parts += [x for xs in node[1:] if isinstance(xs, list) for x in xs]
            return Value("same") if all(self.value(x).way == "same" for x in parts) else OTHER
        return OTHER

    def _combined(self, node: Node) -> Value:
        _, op, left, right = node
        a, b = self.value(left), self.value(right)
        even = (a.even or b.even) if op == "*" else a.even and b.even
        if (a.way, b.way) == ("same", "same"):
            return Value("same", even=even and op in ("+", "-", "*"))
        if op == "+" and {a.way, b.way} == {"same", "next"}:
            return Value("next", even=even)
        if (a.way, b.way) != ("next", "same"):
            return OTHER
        if op == "-":
            return Value("next", even=even)
        return self._parted(op, right) if a.even else OTHER

    def _parted(self, op: str, by: Node) -> Value:
        """Of a group's first index, which is a multiple of its size, by a number that is one, too: no group is in two
        rows."""
        number = int(by[1]) if by[0] == "number" and by[1] == int(by[1]) else None
        if op in ("/", "%") and self._multiple(by):
            self.divided += number is None
            return Value("same") if op == "/" else Value("next", even=True)
        if number is None or number < 0:
            return OTHER
        if op == ">>" and 2**number % self.size == 0:
            return Value("same")
        return Value("next", even=True) if op == "&" and _mask(number) % self.size == 0 else OTHER

    def _multiple(self, node: Node) -> bool:
        """Whether a divisor is a multiple of the size; of a name it will be said."""
        if self.value(node).even:
            return True
        names = factors(node)
        if not names:
            return False
        self.sizes.append(names[0])
        return True


def _mask(number: int) -> int:
    """The power of two that a mask keeps the rest of; 1 of any other number."""
    return number + 1 if number & (number + 1) == 0 else 1


def factors(node: Node) -> list[str]:
    """Names that a product is made of."""
    if node[0] == "name" and re.fullmatch(r"[A-Za-z_]\w*", node[1]):
        return [node[1]]
    if node[0] == "cast" and not node[3]:
        return factors(node[2])
    if node[0] == "binary" and node[1] == "*":
        left, right = factors(node[2]), factors(node[3])
        return left + right
    return []
