"""Operations of C on whole numbers, for one number or an array of one for each thread."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

from kscope.fixes.given.grammar import Unplayable
from kscope.model.lazily import np, of_numpy

HUGE = 2**40  # what larger literals are taken for: no number that is drawn or summed is as large
LARGEST = 2**62  # numbers that all threads share have no end of their own
LONGEST = 63  # bits of a shift


def combined(op: str, a: Any, b: Any) -> Any:
    """a op b. Raises Unplayable where C and Python differ, or numbers have no end."""
    if op in ("/", "%"):
        if np.any(np.asarray(a) < 0) or np.any(np.asarray(b) <= 0):
            raise Unplayable("a division of negative numbers")
        return a // b if op == "/" else a % b
    if op in ("<<", ">>") and not np.all((np.asarray(b) >= 0) & (np.asarray(b) < LONGEST)):
        raise Unplayable("a long shift")
    if op in "+-*":
        a, b = counted(a), counted(b)
    made = _OPERATIONS[op](a, b)
    if isinstance(made, int) and abs(made) > LARGEST:
        raise Unplayable("a large number")
    return made


def counted(value: Any) -> Any:
    """What a comparison gives, as the number that it is in C: two that hold are 2."""
    return value.astype(np.int64) if getattr(value, "dtype", None) == np.bool_ else value


_OPERATIONS: dict[str, Any] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "&": lambda a, b: a & b,
    "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
    "<": lambda a, b: np.less(a, b), ">": lambda a, b: np.greater(a, b), "<=": lambda a, b: np.less_equal(a, b),
    ">=": lambda a, b: np.greater_equal(a, b), "==": lambda a, b: np.equal(a, b), ",": lambda a, b: b,
    "!=": lambda a, b: np.not_equal(a, b), "&&": lambda a, b: np.logical_and(np.asarray(a) != 0, np.asarray(b) != 0),
    "||": lambda a, b: np.logical_or(np.asarray(a) != 0, np.asarray(b) != 0),
}  # fmt: skip


REAL: dict[str, Any] = {
    "expf": of_numpy("exp"), "__expf": of_numpy("exp"), "exp2f": of_numpy("exp2"), "logf": of_numpy("log"),
    "__logf": of_numpy("log"), "log2f": of_numpy("log2"),
    "sqrtf": of_numpy("sqrt"), "rsqrtf": lambda v: 1 / np.sqrt(v), "tanhf": of_numpy("tanh"), "powf": of_numpy("power"),
    "__fdividef": lambda a, b: a / b,
}  # fmt: skip
"""Functions of fractions, where those are played as what they are."""


def real(word: str) -> float:
    """What a literal says."""
    if re.fullmatch(r"0[xX].*|\d+[uUlL]*", word):
        return int(word.rstrip("uUlL"), 0)
    return float(word.rstrip("fFlL"))


def mixed(name: str, given: Sequence[Any]) -> Any:
    """A whole number for a function and what it is given: another one for almost each. Vectors and pointers are none.
    """
    made: Any = sum(map(ord, name))
    for one in given:
        if not isinstance(one, (int, float, np.ndarray, np.generic)):
            raise Unplayable(name)
        made = (made * 31 + np.asarray(one) * 7919) % 1000003
    return made


def drawn(word: str) -> int:
    """A whole number for a literal: for a fraction an odd one of its own, as no power of it is lost at a word's end."""
    value = real(word)
    if value != int(value):
        return random.Random(word.rstrip("fF")).randrange(1001, 9999, 2)
    return min(int(value), HUGE)


NUMBERS = {"drawn": drawn, "real": real}
"""How literals are read, by what `Rules` says of them."""


def before(places: Any, added: Any) -> Any:
    """Of each number the sum of those in front of it that are added to the same place."""
    order = np.argsort(places, kind="stable")
    sums = np.cumsum(added[order]) - added[order]
    first = np.searchsorted(places[order], places[order], side="left")
    out = np.zeros_like(sums)
    out[order] = sums - sums[first] if len(sums) else sums
    return out


def within(where: Any, count: int) -> None:
    """Raises Unplayable where a place is none of so many."""
    if where.size and not where.astype(np.uint64).max() < count:  # what is negative is large
        raise Unplayable("out of bounds")
