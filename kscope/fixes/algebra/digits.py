"""Quotients and remainders of one number as its digits, `number / over % of`, and sums of them. Digits beside each
other are put together again: `x / n * n + x % n` is x. It holds for numbers of either sign, as C rounds to zero."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from kscope.fixes.given.grammar import Node

Factors = tuple[str, ...]
"""Names and prime numbers of a product, sorted."""
LARGEST = 1 << 20  # numbers that are taken apart
MOST = 24  # terms of a sum
WITHIN = "remainder_within"  # what takes a remainder by a product of sizes in new texts


class Digit(NamedTuple):
    """`base / over % of`; of None where nothing is left out."""

    base: str
    over: Factors = ()
    of: Factors | None = None

    @property
    def divided(self) -> bool:
        return bool(self.over) or self.of is not None


class Term(NamedTuple):
    """sign * by * digit; by alone where there is no digit."""

    sign: int
    by: Factors
    digit: Digit | None = None


Sum = tuple[Term, ...]


class Unknown(Exception):
    """An expression that is no sum of digits."""


class Digits:
    """Sums of expressions. names: what local names are defined as; sizes: names that are numbers of the launch."""

    def __init__(self, names: Mapping[str, Node], sizes: frozenset[str]) -> None:
        self.names, self.sizes = names, sizes
        self.used: set[Digit] = set()  # those that a division or a remainder makes
        self.open: list[str] = []

    def of(self, node: Node) -> Sum:
        kind = node[0]
        if kind == "number" and node[1] == int(node[1]) and abs(node[1]) <= LARGEST:
            return (Term(1, primes(int(node[1]))),) if node[1] else ()
        if kind == "name":
            return self._name(node[1])
        if kind == "cast" and not node[3]:
            return self.of(node[2])
        if kind == "unary" and node[1] == "-":
            return tuple(t._replace(sign=-t.sign) for t in self.of(node[2]))
        if kind != "binary":
            raise Unknown(kind)
        _, op, left, right = node
        a, b = self.of(left), self.of(right)
        if op in ("+", "-"):
            return joined((*a, *(t._replace(sign=t.sign if op == "+" else -t.sign) for t in b)))
        if op == "*":
            return joined(tuple(_times(s, t) for s in a for t in b))
        return self._parted(op, a, b)

    def _name(self, name: str) -> Sum:
        if name in self.sizes:
            return (Term(1, (name,)),)
        if name in self.names and name not in self.open:
            self.open.append(name)
            used = set(self.used)
            try:
                found = self.of(self.names[name])
                if any(t.digit is not None and t.digit.divided for t in found) or all(t.digit is None for t in found):
                    return found
            except Unknown:
                pass
            finally:
                self.open.pop()
            self.used = used
        return (Term(1, (), Digit(name)),)

    def _parted(self, op: str, a: Sum, b: Sum) -> Sum:
        if len(a) != 1 or len(b) != 1 or a[0].digit is None or b[0].digit is not None or a[0].by or a[0].sign < 0:
            raise Unknown(op)
        digit, by = a[0].digit, b[0].by
        if b[0].sign < 0 or op not in ("/", "%", ">>", "&"):
            raise Unknown(op)
        if op == ">>":
            op, by = "/", ("2",) * _number(by)
        if op == "&":
            op, by = "%", primes(_number(by) + 1)
            if set(by) != {"2"}:
                raise Unknown(op)
        rest = None if digit.of is None else less(digit.of, by)
        if digit.of is not None and rest is None:
            raise Unknown(op)
        made = Digit(digit.base, more(digit.over, by), rest) if op == "/" else Digit(digit.base, digit.over, by)
        self.used.add(made)
        return (Term(1, (), made),) if made.of != () else ()


def _number(factors: Factors) -> int:
    out = 1
    for f in factors:
        if not f.isdigit():
            raise Unknown(f)
        out *= int(f)
    return out


def primes(number: int) -> Factors:
    out, by = list[str](), 2
    while by * by <= number:
        while number % by == 0:
            out.append(str(by))
            number //= by
        by += 1
    return tuple(sorted([*out, *([str(number)] if number > 1 else [])]))


def more(a: Factors, b: Factors) -> Factors:
    return tuple(sorted((*a, *b)))


def less(a: Factors, b: Factors) -> Factors | None:
    """a / b; None where that is no product."""
    left = Counter(a)
    left.subtract(Counter(b))
    return tuple(sorted(left.elements())) if min(left.values(), default=0) >= 0 else None


def _times(s: Term, t: Term) -> Term:
    if s.digit is not None and t.digit is not None:
        raise Unknown("*")
    return Term(s.sign * t.sign, more(s.by, t.by), s.digit or t.digit)


def joined(terms: Sum) -> Sum:
    """With digits that lie beside each other as one, and what is subtracted again gone."""
    found = list(terms)
    if len(found) > MOST:
        raise Unknown("long")
    while True:
        for n, s in enumerate(found):
            other = next(((m, one) for m, t in enumerate(found) if m != n and (one := _joined(s, t)) is not None), None)
            if other is not None:
                m, one = other
                found = [t for k, t in enumerate(found) if k not in (n, m)] + list(one)
                break
        else:
            return tuple(found)


def _joined(s: Term, t: Term) -> Sum | None:
    """What two terms are together."""
    if (s.by, s.digit, s.sign) == (t.by, t.digit, -t.sign):
        return ()
    a, b = s.digit, t.digit
    if a is None or b is None or a.base != b.base:
        return None
    step = less(b.over, a.over)
    if not step or more(s.by, step) != t.by:
        return None
    if s.sign == t.sign and a.of == step:  # the digit above it
        return (Term(s.sign, s.by, Digit(a.base, a.over, None if b.of is None else more(step, b.of))),)
    whole = (a.of is None and b.of is None) or (a.of is not None and b.of is not None and a.of == more(step, b.of))
    if s.sign == -t.sign and whole:  # without the digits above
        return (Term(s.sign, s.by, Digit(a.base, a.over, step)),)
    return None


def known(factors: Factors) -> bool:
    return all(f.isdigit() for f in factors)


def product_of(factors: Factors) -> str:
    number = math.prod(int(f) for f in factors if f.isdigit())
    return " * ".join([*(f for f in factors if not f.isdigit()), *([str(number)] if number > 1 else [])]) or "1"


def term(by: Factors, digit: Digit | None) -> str:
    if digit is None:
        return product_of(by)
    made, of = digit.base, digit.of
    if of is not None and known(of):
        made = f"{made} % {product_of(of)}"
    elif of is not None:
        end = product_of(of) if len(of) == 1 else f"({product_of(of)})"
        made = f"{WITHIN}({made}, {end.strip('()')})"
    return f"{product_of(by)} * {made if '%' not in made else f'({made})'}" if by else made
