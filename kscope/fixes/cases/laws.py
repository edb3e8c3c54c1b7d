"""Numbers that follow from where they stand: of the case and of the round, each checked, or as a table."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from msgspec import Struct

from kscope.fixes.cases.folded import BITS, FLOATS, Number, number, representable, word
from kscope.fixes.given.grammar import Unplayable

TABLE = 32 << 10  # bytes of numbers that are looked up: what L1 has beside a kernel's own data (judged)
BYTES = {"int": 4, "unsigned": 4, "float": 4, "double": 8, "long long": 8, "unsigned long long": 8}


class Law(Struct, frozen=True):
    """base + case * label + step * round, every product and every sum a number of the type: in whatever order, fused or
    not, it is rounded nowhere."""

    kind: str
    base: Fraction
    case: Fraction
    step: Fraction

    def text(self, amount: Fraction) -> str:
        whole = self.kind in BITS
        return word(Number(self.kind if not whole else "int", int(amount) if whole else float(amount)))

    def by_case(self, name: str) -> str:
        """The part that is the same in all rounds."""
        if not self.case:
            return self.text(self.base)
        product = name if self.case == 1 and self.kind in BITS else f"{self.text(self.case)} * {name}"
        return f"{self.text(self.base)} + {product}" if self.base else product

    def by_step(self, name: str) -> str:
        return name if self.step == 1 and self.kind in BITS else f"{self.text(self.step)} * {name}"


def law(words: Sequence[Sequence[str]], labels: Sequence[int]) -> Law | None:
    """words: by case, by round. None where they are no such law, or one of them is no number that was read."""
    read = [[number(w) for w in row] for row in words]
    kinds = {n.kind if n is not None else "" for row in read for n in row}
    kind = kinds.pop()
    if kinds or kind not in {**BITS, **FLOATS} or any(w.startswith("-0.0") for row in words for w in row):
        return None
    exact = [[n.exact for n in row if n is not None] for row in read]
    step = exact[0][1] - exact[0][0] if len(exact[0]) > 1 else Fraction(0)
    apart = labels[1] - labels[0] if len(labels) > 1 else 1
    case = (exact[1][0] - exact[0][0]) / apart if len(exact) > 1 else Fraction(0)
    found = Law(kind, exact[0][0] - case * labels[0], case, step)
    return found if _holds(found, exact, labels) else None


def _holds(found: Law, exact: Sequence[Sequence[Fraction]], labels: Sequence[int]) -> bool:
    """Every number, and every one on the way to it."""
    steps = [found.step * n for n in range(len(exact[0]))]
    ways = {found.base, found.case, found.step, *steps, *map(Fraction, labels)}
    ways |= set(map(Fraction, range(len(steps))))
    for label, row in zip(labels, exact, strict=True):
        first = found.base + found.case * label
        if any(first + step != value for step, value in zip(steps, row, strict=True)):
            return False
        ways |= {found.case * label, first, *row, *(found.base + step for step in steps)}
    return all(representable(one, found.kind) for one in ways)


def table(name: str, words: Sequence[Sequence[str]]) -> str:
    """A table of the numbers, by case, where there are several by round."""
    kinds = {n.kind for row in words for w in row if (n := number(w)) is not None}
    if len(kinds) != 1 or (kind := kinds.pop()) not in BYTES:
        raise Unplayable("numbers of several types")
    rounds = len(words[0])
    if BYTES[kind] * rounds * len(words) > TABLE:
        raise Unplayable("more numbers than are looked up fast")
    if rounds == 1:
        return f"__device__ const {kind} {name}[{len(words)}] = {{{_wrapped([row[0] for row in words])}}};"
    rows = ",\n".join(f"  {{{_wrapped(row)}}}" for row in words)
    return f"__device__ const {kind} {name}[{len(words)}][{rounds}] = {{\n{rows}}};"


def _wrapped(words: Sequence[str], width: int = 12) -> str:
    """A dozen a line."""
    return ",\n  ".join(", ".join(words[n : n + width]) for n in range(0, len(words), width))
