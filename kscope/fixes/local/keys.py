"""Whether a piece of code sorts a local array: it only compares and moves what is in it, and what comes out when it is
played is in order."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from kscope.fixes.given.grammar import Node, Parser, Unplayable
from kscope.fixes.given.played import play
from kscope.fixes.given.text import closing
from kscope.model.lazily import np

BLOCK = 256
ROWS = 512  # of random keys, of each kind (judged)
LONGEST = 32  # keys up to which every place of a key among sorted ones is played, with any number of equal ones
_HEADS = re.compile(r"\b(for|while)\s*\(")
_COMPARES = ("<", ">", "<=", ">=", "==", "!=")
_CHOOSES = ("min", "max", "fminf", "fmaxf")


def moved_alone(text: str, array: str, kind: str, given: str) -> bool:
    """Whether the elements of an array and what comes from `given` are only compared with each other and moved: then
    the order of keys is all that the code knows of them. text: a block; kind: the array's type."""
    keys = rf"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*=\s*(?:{array}|{given})\s*\["  # if they are of the array's type
    later = re.findall(keys, text)
    try:
        return _Moves(array, plain_kind(kind), given, later).clean(Parser(text).body())
    except (Unplayable, ValueError):
        return False


def plain_kind(kind: str) -> str:
    """A type in one way of writing it."""
    words = [w for w in kind.split() if w not in ("const", "int")]
    return {"uint32_t": "unsigned", "int32_t": "int", "uint": "unsigned"}.get(kind, " ".join(words) or "int")


class _Moves:
    """Expressions that are keys, and whether they stand only where keys may."""

    def __init__(self, array: str, kind: str, given: str, later: Collection[str]) -> None:
        self.array, self.kind, self.given = array, kind, given
        self.names: set[str] = set()
        self.later = later

    def key(self, node: Any) -> bool:
        if node[0] == "index":
            return node[1] in (("name", self.array), ("name", self.given)) and self.clean(node[2])
        if node[0] == "choose":
            return self.clean(node[1]) and self.key(node[2]) and self.key(node[3])
        if node[0] == "call" and node[1] in _CHOOSES:
            return all(self.key(x) for x in node[2])
        return node[0] == "name" and node[1] in self.names

    def clean(self, node: Any) -> bool:
        """Whether no key goes anywhere else, of a tree or a list of them."""
        if isinstance(node, list):
            return all(self.clean(x) for x in node)
        if not isinstance(node, tuple) or not node:
            return True
        if node[0] == "declare":
            return self._declared(node)
        if node[0] == "assign" and (self.key(node[2]) or self.key(node[3])):
            return node[1] == "=" and self.key(node[2]) and self.key(node[3])
        if node[0] == "binary" and node[1] in _COMPARES and (self.key(node[2]) or self.key(node[3])):
            return self.key(node[2]) and self.key(node[3])
        if node[0] == "name":
            return node[1] not in (self.array, self.given, *self.names)
        return all(self.clean(x) for x in node[1:])

    def _declared(self, node: Node) -> bool:
        _, kind, made, shared = node
        for name, stars, dims, value in made:
            if value is None and not dims and name in self.later:
                value = ("index", ("name", self.given), ("number", 0))
            if value is None or not self.key(value):
                if not self.clean(value) or name in self.names or (name == self.array and not dims):
                    return False
                continue
            if shared or stars or dims or plain_kind(kind) not in (self.kind, "auto"):
                return False
            self.names.add(name)
        return True


def unbroken(text: str) -> str:
    """A text whose loops ask in their heads what makes them break first thing in a round."""
    for head in reversed(list(_HEADS.finditer(text))):
        close = closing(text, head.end())
        test = re.match(r"\s*\{\s*if\s*\(", text[close + 1 :]) if close is not None else None
        end = closing(text, close + 1 + test.end()) if close is not None and test is not None else None
        left = re.match(r"\s*break\s*;", text[end + 1 :]) if end is not None else None
        if close is None or test is None or end is None or left is None:
            continue
        inside, asked = text[head.end() : close], text[close + 1 + test.end() : end]
        first, middle, step = inside.split(";") if head[1] == "for" else ("", inside, "")
        new = f"{first}; ({middle.strip() or 1}) && !({asked}); {step}"
        text = f"{text[: head.start()]}for ({new}) {{{text[end + 1 + left.end() :]}"
    return text


def order(text: str, count: int, given: str, results: str, numbers: dict[str, int]) -> tuple[bool, int] | None:
    """(whether the least comes first, how many rows were played) of a body that reads rows of `count` keys from one
    array and writes them to another; None where some row does not come out in order, or it cannot be played."""
    drawn = np.array([*_inserted(count), *_random(count)], dtype=np.int64)
    blocks = -(-len(drawn) // BLOCK)
    rows = np.resize(drawn, (blocks * BLOCK, count))
    memory = {given: rows.ravel().copy(), results: np.zeros(rows.size, dtype=np.int64)}
    try:
        play(text, (blocks, 1), (BLOCK, 1), memory, numbers)
    except Unplayable:
        return None
    made, up = memory[results].reshape(rows.shape), np.sort(rows, axis=1)
    for least_first, wanted in ((True, up), (False, up[:, ::-1])):
        if (made == wanted).all():
            return least_first, len(drawn)
    return None


def _inserted(count: int) -> Iterator[list[int]]:
    """A key behind sorted ones: so many less, equal and greater, in both directions. A round that puts one key among
    sorted ones, and compares nothing else, knows no more of them."""
    generator = np.random.default_rng(count)
    for before in range(1, count):
        for less in range(before + 1):
            most = before - less
            for equal in range(most + 1) if count <= LONGEST else sorted({0, min(1, most), most}):
                signs = [-1] * less + [0] * equal + [1] * (most - equal)
                keys = [s * (2 + n if s > 0 else 2 + before - n) for n, s in enumerate(signs)]
                rest = generator.integers(-count, count, count - before - 1).tolist()
                yield [*keys, 0, *rest]
                yield [*(-k for k in keys), 0, *rest]


def _random(count: int) -> Iterator[list[int]]:
    generator = np.random.default_rng(2 * count + 1)
    for _ in range(ROWS):
        yield generator.permutation(count).tolist()
        yield generator.integers(0, 2, count).tolist()
        yield generator.integers(0, max(2, count // 3), count).tolist()
    yield list(range(count))
    yield list(range(count, 0, -1))
    for at in range(count):
        yield [*range(at, count), *range(at)]
