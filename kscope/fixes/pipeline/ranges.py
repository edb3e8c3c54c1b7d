"""Between which numbers an expression of a kernel's text lies, for all threads of a block and all rounds of the loops
around it: by intervals, from the numbers that the text and the launch have."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kscope.fixes.given.grammar import Node, Parser, Unplayable
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import Loop, closing, loops

Range = tuple[int, int]
DEEPEST = 12  # names within names that are looked up
_WHOLE = {"int", "unsigned", "unsigned int", "size_t", "uint32_t", "int32_t", "uint64_t", "long", "long long"}
_VALUE = re.compile(
    r"\bauto\s+(?P<name>\w+)\s*=\s*\[[^]]*\]\s*\((?P<given>[^(){}]*)\)\s*\{\s*return\s+(?P<value>[^;{}]*);\s*\}"
)


class Ranges:
    """Of one kernel's text. block, grid: their sides. known: names of numbers; first: functions whose value is the
    address of an array in shared memory, of which there is one: it counts from 0."""

    def __init__(
        self, code: str, block: tuple[int, int, int], grid: tuple[int, int, int], known: Mapping[str, int],
        first: set[str],
    ) -> None:  # fmt: skip
        self.code, self.known, self.first = code, dict(known), first
        self.loops: list[Loop] = loops(code)
        self.lambdas = {m["name"]: m for m in _VALUE.finditer(code)}
        self.sides = {
            **{f"threadIdx.{a}": (0, n - 1) for a, n in zip("xyz", block, strict=True)},
            **{f"blockIdx.{a}": (0, n - 1) for a, n in zip("xyz", grid, strict=True)},
            **{f"blockDim.{a}": (n, n) for a, n in zip("xyz", block, strict=True)},
            **{f"gridDim.{a}": (n, n) for a, n in zip("xyz", grid, strict=True)},
        }

    def of(self, text: str, at: int) -> Range:
        """Of an expression that stands at a place of the text. Raises Unplayable where that is not told."""
        parser = Parser(text)
        node = parser.comma()
        if parser.next():
            raise Unplayable(parser.next())
        return self._of(node, at, {}, 0)

    def _of(self, node: Node, at: int, own: Mapping[str, Range], deep: int) -> Range:
        if deep > DEEPEST:
            raise Unplayable("deep")
        if node[0] == "number":
            return int(node[1]), int(node[1])
        if node[0] == "name":
            return own[node[1]] if node[1] in own else self._named(node[1], at, deep)
        if node[0] == "cast" and node[1] in _WHOLE and not node[3]:
            return self._of(node[2], at, own, deep)
        if node[0] == "binary":
            return combined(node[1], self._of(node[2], at, own, deep), self._of(node[3], at, own, deep))
        if node[0] == "choose":
            test = self._of(node[1], at, own, deep)
            here = ([2] if test != (0, 0) else []) + ([3] if test[0] <= 0 <= test[1] else [])
            sides = [self._of(node[n], at, own, deep) for n in here]
            return min(s[0] for s in sides), max(s[1] for s in sides)
        if node[0] == "call":
            return self._called(node, at, own, deep)
        raise Unplayable(node[0])

    def _called(self, node: Node, at: int, own: Mapping[str, Range], deep: int) -> Range:
        if node[1] in self.first and len(node[2]) == 1 and node[2][0][0] == "name":
            return 0, 0
        match = self.lambdas.get(node[1])
        given = [self._of(x, at, own, deep) for x in node[2]]
        names = [p.split()[-1] for p in split_declarators(match["given"]) if p.split()] if match is not None else []
        if match is None or len(names) != len(given) or match.start() > at:
            raise Unplayable(node[1])
        return self._of(Parser(match["value"]).comma(), match.start(), dict(zip(names, given, strict=True)), deep + 1)

    def _named(self, name: str, at: int, deep: int) -> Range:
        if name in self.sides:
            return self.sides[name]
        around = [x for x in self.loops if x.name == name and x.body[0] <= at < x.body[1]]
        if around:
            loop = around[-1]
            if self._changes(name, self.code[slice(*loop.body)]):
                raise Unplayable(name)
            low = self._of(Parser(loop.start).comma(), loop.span[0], {}, deep + 1)[0]
            return low, max(low, self._of(Parser(loop.end).comma(), loop.span[0], {}, deep + 1)[1] - 1)
        made = list(re.finditer(rf"(?<![\w.])(?<!->){name}\s*=(?!=)", self.code))
        if not made and name in self.known:
            return self.known[name], self.known[name]
        if len(made) != 1 or made[0].start() > at or self._changes(name, self.code) > 1:
            raise Unplayable(name)
        value = self.code[made[0].end() : self._stop(made[0].end())]
        return self._of(Parser(value).comma(), made[0].start(), {}, deep + 1)

    def _stop(self, at: int) -> int:
        """Where a declarator's value ends."""
        while self.code[at : at + 1] not in (",", ";", ""):
            close = closing(self.code, at + 1) if self.code[at] in "([{" else None
            at = close + 1 if close is not None else at + 1
        return at

    @staticmethod
    def _changes(name: str, text: str) -> int:
        after = rf"(?<![\w.])(?<!->){name}\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)"
        return len(re.findall(rf"{after}|(?:\+\+|--)\s*{name}\b|[(,=]\s*&\s*{name}\b", text))


def combined(op: str, a: Range, b: Range) -> Range:
    """Of a op b. Raises Unplayable where it is not told."""
    (p, q), (r, s) = a, b
    if op in ("+", "-", "*"):
        every = [{"+": x + y, "-": x - y, "*": x * y}[op] for x in a for y in b]
        return min(every), max(every)
    if op in ("==", "!=", "<", ">", "<=", ">="):
        return _compared(op, a, b)
    if p < 0 or r < 0:
        raise Unplayable("negative numbers")
    if op == "/" and r > 0:
        return p // s, q // r
    if op == "%" and r > 0:
        return (p, q) if q < r else (p % r, p % r) if p == q and r == s else (0, s - 1)
    if op in ("<<", ">>") and r == s < 32:
        return (p << r, q << r) if op == "<<" else (p >> r, q >> r)
    if op in ("&", "|", "^"):
        return _bitwise(op, a, b)
    raise Unplayable(op)


def _bitwise(op: str, a: Range, b: Range) -> Range:
    (p, q), (r, s) = a, b
    if p == q and r == s:
        value = {"&": p & r, "|": p | r, "^": p ^ r}[op]
        return value, value
    return 0, min(q, s) if op == "&" else (1 << max(q, s).bit_length()) - 1


def _compared(op: str, a: Range, b: Range) -> Range:
    (p, q), (r, s) = a, b
    always = {"==": p == q == r == s, "!=": q < r or s < p, "<": q < r, ">": p > s, "<=": q <= r, ">=": p >= s}[op]
    never = {"==": q < r or s < p, "!=": p == q == r == s, "<": p >= s, ">": q <= r, "<=": p > s, ">=": q < r}[op]
    return (1, 1) if always else (0, 0) if never else (0, 1)
