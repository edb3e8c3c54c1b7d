"""The grammar of kernels of tensor instructions: besides the common one functions within the kernel, template arguments
and shared memory that the launch sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kscope.fixes.given.grammar import Node, Parser, Unplayable
from kscope.fixes.given.kinds import words
from kscope.fixes.warpgroup.routines import parameters

DYNAMIC = "__dynamic"
"""Name of the bytes of shared memory that the launch gives."""

_SIZED = re.compile(r"\bextern\b(?P<how>[^;\[\]]*\b__shared__\b[^;\[\]]*?)(?P<name>\w+)\s*\[\s*\]")
_HOW = re.compile(r"\b__shared__\b|\b(?:__align__|alignas)\s*\(\s*\d+\s*\)")
_GONE = re.compile(
    r"\b__forceinline__\b|\binline\b|\balignas\s*\(\s*\d+\s*\)|\busing\s+namespace\b[^;]*;"
    r"|\b(?:nvcuda\s*::\s*)?wmma\s*::\s*|\bstd\s*::\s*|\btypename\b"
)
_BYTE = re.compile(r"\b(?:u?int8_t|std::byte|unsigned\s+char|signed\s+char)\b")


class TensorParser(Parser):
    """templates: names of functions that take numbers in angles."""

    def __init__(self, text: str, number: Callable[[str], float] | None, templates: Collection[str]) -> None:
        super().__init__(_BYTE.sub("char", _GONE.sub(" ", _SIZED.sub(_sized, text))), number)
        self.templates = templates

    def _statement(self) -> Node:
        if self.next() == "fragment":
            found = self._fragment()
            self.need(";")
            return found
        inside = self.words[self.at + 2 : self.at + 4] == ["=", "["]
        return self._lambda() if self.next() == "auto" and inside else super()._statement()

    def _lambda(self) -> Node:
        """auto name = [&](..) {..}: a function that takes the names around it as they are."""
        self.need("auto")
        name = self.name()
        self.need("=")
        self.need("[")
        if not self.take("&") and self.next() != "]":
            raise Unplayable("a function with copies of its own")
        self.need("]")
        self.need("(")
        start, depth = self.at, 1
        while depth:
            word = self.next()
            depth += (word == "(") - (word == ")")
            self.at += 1
            if not word:
                raise Unplayable("no end")
        given = parameters(" ".join(self.words[start : self.at - 1]))
        if given is None:
            raise Unplayable("parameters of another kind")
        body = self.statement()
        self.need(";")
        return ("lambda", name, given, body)

    def _fragment(self) -> Node:
        """fragment<matrix_a, 16, 16, 16, __half, row_major> a[2], b"""
        self.need("fragment")
        self.need("<")
        role, sizes, layout = self.name(), [], ""
        for _ in range(3):
            self.need(",")
            sizes.append(self._binary(8))
        self.need(",")
        kind, _ = self.kind()
        if self.take(","):
            layout = self.name()
        self.need(">")
        made: list[tuple[str, list[Node]]] = []
        while not made or self.take(","):
            name, dims = self.name(), []
            while self.take("["):
                dims.append(self.comma())
                self.need("]")
            made.append((name, dims))
        return ("fragment", role, sizes, kind, layout, made)

    def _atom(self) -> Node:
        name = self.next()
        if name == "sizeof":
            self.at += 1
            self.need("(")
            kind, stars = self._cast(")")
            width, size = words(kind)
            return ("number", width * size if not stars else 8)
        if name in self.templates and self.words[self.at + 1 : self.at + 2] == ["<"]:
            self.at += 2
            given = []
            while not self.take(">"):
                given.append(self._binary(8))  # what binds closer than the angles
                self.take(",")
            return ("call", name, [*given, *self._arguments()])
        return super()._atom()


def given_by_launch(text: str) -> list[str]:
    """Names of shared memory that the launch sizes."""
    return [m["name"] for m in _SIZED.finditer(text)]


def _sized(m: re.Match[str]) -> str:
    """Shared memory of the launch's size, as an array of so many elements."""
    kind = _HOW.sub(" ", m["how"]).strip()
    return f"__shared__ {kind} {m['name']}[{DYNAMIC} / sizeof({kind})]"


def own_names(function: str, parameters: tuple[str, ...], body: Node) -> tuple[tuple[str, ...], Node]:
    """A function whose names are none of its callers': arrays are known by them."""
    mine = {x.lstrip("&") for x in parameters} | _declared(body)
    names = {name: f"{function}.{name}" for name in mine}
    given = tuple("&" * x.startswith("&") + names[x.lstrip("&")] for x in parameters)
    return given, _renamed(body, names)


def _declared(node: object) -> set[str]:
    if not isinstance(node, (tuple, list)):
        return set()
    if len(node) == 4 and node[0] == "lambda":
        raise Unplayable("a function within a function")
    own = {one[0] for one in node[2]} if len(node) == 4 and node[0] == "declare" else set()
    own |= {one[0] for one in node[5]} if len(node) == 6 and node[0] == "fragment" else set()
    return own.union(*map(_declared, node)) if node else own


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, list):
        return [_renamed(one, names) for one in node]
    if not isinstance(node, tuple) or not node:
        return node
    if len(node) == 2 and node[0] == "name":
        return ("name", names.get(node[1], node[1]))
    if len(node) == 4 and node[0] == "declare":
        made = [(names[one[0]], *_renamed(one[1:], names)) for one in node[2]]
        return (*node[:2], made, node[3])
    if len(node) == 6 and node[0] == "fragment":
        return (*_renamed(node[:5], names), [(names[one[0]], _renamed(one[1], names)) for one in node[5]])
    return tuple(_renamed(one, names) for one in node)
