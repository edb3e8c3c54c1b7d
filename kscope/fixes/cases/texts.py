"""The text of one body for many cases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from kscope.fixes.cases.alike import Body, Hole, Words
from kscope.fixes.cases.folded import BITS, number, whole
from kscope.fixes.cases.laws import Law, law, table
from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.rows.syntax import inside, lines, replaced, root
from kscope.model.contract.fixes import Condition


class Writer:
    """code: of the kernel, whose names are taken; share: bytes of a case's code; fits: bytes that a body may have;
    arrays: those that a thread has for itself."""

    def __init__(self, code: str, share: float, fits: int, arrays: set[str]) -> None:
        self.code, self.share, self.fits, self.arrays = code, share, fits, arrays
        self.tables: list[str] = []
        self.way, self.step = self.name("way"), self.name("step")
        self.checked, self.size, self.alone = 0, 0.0, True
        self.numbers = 0
        self.texts: dict[int, list[str]] = {}
        """Statements of each body, by its first case."""
        self.looked_up: dict[str, Words] = {}
        """What each table holds, by case or round, and by round."""

    def name(self, wanted: str) -> str:
        """One that the kernel does not use."""
        while re.search(rf"\b{wanted}\b", self.code):
            wanted += "_"
        return wanted

    def written(self, body: Body, labels: Sequence[int], pad: str) -> list[str]:
        """Statements of a body, in braces that hold the case's number."""
        self._looked_at(body)
        parts: list[Node] = []
        before: list[str] = []
        known: dict[object, Node] = {}
        for hole in body.holes:
            self.checked += sum(len(row) for row in hole.words)
            key = hole.kind, tuple(map(tuple, hole.words))
            if key not in known:
                text, known[key] = self._hole(hole, labels)
                before += [f"{pad}{text}"] if text else []
            parts.append(known[key])
        self.texts[labels[0]] = [*before, *self._lines(body.statements, parts, pad)]
        return self.texts[labels[0]]

    def _lines(self, statements: Sequence[Node], parts: Sequence[Node], pad: str) -> list[str]:
        out: list[str] = []
        for one in statements:
            if one[0] == "rounds":
                out += self._rounds(one, parts, pad)
            elif one[0] == "block" and any(x[0] == "declare" for x in one[1]):
                out += [f"{pad}{{", *self._lines(one[1], parts, pad + "  "), f"{pad}}}"]
            elif one[0] == "block":
                out += self._lines(one[1], parts, pad)
            else:
                out += lines(_filled(one, parts), pad)
        return out

    def _rounds(self, one: Node, parts: Sequence[Node], pad: str) -> list[str]:
        count = int(one[1])
        fits = self.share <= self.fits
        by = count if fits else max(1, int(count * self.fits / self.share))
        self.size += min(1.0, self.fits / self.share)
        if not fits and any(self._own(x) for x in one[2]):
            raise Unplayable("registers by the round's number")
        head = f"{pad}for (int {self.step} = 0; {self.step} < {count}; {self.step}++) {{"
        inner = self._lines(one[2], parts, pad + "  ")
        return [f"{pad}#pragma unroll{'' if fits else f' {by}'}", head, *inner, f"{pad}}}"]

    def _own(self, tree: Node) -> bool:
        """Whether an array of the thread is indexed by a number that differs."""
        return any(x[0] == "index" and root(x) in self.arrays and _holes(x) for x in inside(tree))

    def _hole(self, hole: Hole, labels: Sequence[int]) -> tuple[str, Node]:
        """(what is declared in front of the body, what stands in its place)."""
        rounds = len(hole.words[0]) > 1
        found = law(hole.words, labels)
        name = self.name(f"number{self.numbers}")
        self.numbers += 1
        if found is not None:
            return self._law(found, name, rounds)
        rows = [row[0] for row in hole.words]
        by_case = all(word == row[0] for row in hole.words for word in row)
        by_round = all(row == hole.words[0] for row in hole.words)
        place = self.way if not labels[0] else f"{self.way} - {labels[0]}"
        called = f"{_kernel(self.code)}_{name}"
        if by_case or not rounds:
            self._table(called, [[w] for w in rows])
            return f"const {hole.kind} {name} = __ldg(&{called}[{place}]);", ("name", name)
        if by_round:
            self._table(called, [[w] for w in hole.words[0]])
            return "", ("name", f"__ldg(&{called}[{self.step}])")
        self._table(called, hole.words)
        return "", ("name", f"__ldg(&{called}[{place}][{self.step}])")

    def _table(self, name: str, words: Words) -> None:
        self.tables.append(table(name, words))
        self.looked_up[name] = words

    def read_back(self, call: Node) -> Node:
        """What is looked up in a table as the number that it is."""
        if call[1] != "__ldg" or len(call[2]) != 1 or call[2][0][0] != "address":
            return call
        at = call[2][0][1]
        places: list[int] = []
        while at[0] == "index":
            places.insert(0, whole(at[2]))
            at = at[1]
        if at[0] != "name" or at[1] not in self.looked_up:
            return call
        words = self.looked_up[at[1]]
        return ("number", words[places[0]][places[1] if len(places) > 1 else 0])

    def _law(self, found: Law, name: str, rounds: bool) -> tuple[str, Node]:
        kind = found.kind
        if not found.case:
            base = f"{found.text(found.base)} + " if found.base else ""
            text = f"{base}{found.by_step(self.step)}"
            return "", ("name", f"({text})" if kind in ("int", "float", "double") else f"({kind})({text})")
        first = f"const {kind} {name} = {found.by_case(self.way)};"
        if not rounds or not found.step:
            return first, ("name", name)
        return first, ("name", f"({name} + {found.by_step(self.step)})")

    def _looked_at(self, body: Body) -> None:
        """Raises Unplayable where a number has to be one that the compiler knows."""
        tree = ("block", body.statements)
        local = self.arrays | {m[0] for x in every(tree) if x[0] == "declare" for m in x[2] if m[2]}
        self.arrays = local
        differ = [len({row[0] for row in hole.words}) > 1 or any(row != hole.words[0] for row in hole.words)
                  for hole in body.holes]  # fmt: skip
        for one in every(tree):
            if one[0] == "declare" and any(_holes(d) for made in one[2] for d in made[2]):
                raise Unplayable("a length that differs")
            if _registers(one, local, differ):
                raise Unplayable("registers by the case's number")
            divided = (one[0] == "binary" and one[1] in "/%") or (one[0] == "assign" and one[1] in ("/=", "%="))
            if divided and _holes(one[3]):
                raise Unplayable("a divisor that differs")
            self._fused(one, body)

    def _fused(self, one: Node, body: Body) -> None:
        """Of x * 1 + y * z another product is fused than of x * n + y * z."""
        sides = one[2:4] if one[0] == "binary" and one[1] in ("+", "-") else (
            one[2:4] if one[0] == "assign" and one[1] in ("+=", "-=") else ())  # fmt: skip
        products = [x for x in sides if _product(x)]
        if len(products) > 1 and any(_plain(body.holes[n]) for x in products for n in _holes(x)):
            raise Unplayable("a product that may be fused or not")
        if (one[0] == "binary" and one[1] == "*") or (one[0] == "assign" and one[1] == "*="):
            direct = [x[1] for x in one[2:4] if x[0] == "hole"]
            self.alone &= not any(_plain(body.holes[n]) for n in direct)

    def conditions(self) -> list[Condition]:
        if self.alone:
            return []
        why = "products by a power of two are fused with sums in another order, perhaps: the last bit may differ"
        return [Condition(holds="the last bit of sums of several products does not matter", state="check", why=why)]


def every(tree: Any) -> list[Node]:
    """All nodes, those of rounds too."""
    out = []
    for one in inside(tree):
        out.append(one)
        if one[0] == "rounds":
            out += [x for part in one[2] for x in every(part)]
    return out


def _registers(one: Node, local: set[str], differ: Sequence[bool]) -> bool:
    """Whether a thread's own array has places that the case decides: by itself, or as the rounds of a loop."""
    if one[0] == "index":
        return root(one) in local and any(differ[n] for n in _holes(one[2]))
    return bool(
        one[0] == "for" and any(_holes(x) for x in one[1:4])
        and any(x[0] == "index" and root(x) in local for x in inside(one[4]))
    )  # fmt: skip


def _holes(tree: Node) -> list[int]:
    return [x[1] for x in inside(tree) if x[0] == "hole"]


def _product(tree: Node) -> bool:
    while tree[0] == "unary":
        tree = tree[2]
    return bool(tree[0] == "binary" and tree[1] == "*")


def _plain(hole: Hole) -> bool:
    """Whether one of its numbers is a power of two, or none."""
    if hole.kind in BITS:
        return False
    known = [n for row in hole.words for w in row if (n := number(w)) is not None]
    values = {abs(Fraction(n.value)) for n in known}
    return any(not v.numerator & (v.numerator - 1) and not v.denominator & (v.denominator - 1) for v in values)


def _filled(tree: Node, parts: Sequence[Node]) -> Node:
    def how(one: Node) -> Node | None:
        if one[0] == "hole":
            return parts[one[1]]
        if one[0] == "number" and str(one[1]).startswith("-"):
            return ("name", f"({one[1]})")
        return None

    return replaced(tree, how)


def _kernel(code: str) -> str:
    found = re.search(r"\b(\w+)\s*\(", re.sub(r"__launch_bounds__\s*\([^()]*\)", "", code))
    return found[1] if found is not None else "cases"
