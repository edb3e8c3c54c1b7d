"""The grammar of kernels of tensor instructions: besides the common one functions within the kernel, template arguments
and shared memory that the launch sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from kscope.fixes.given.grammar import Node, Parser, Unplayable
from kscope.fixes.given.kinds import words
from kscope.fixes.warpgroup.routines import parameters

DYNAMIC = "__dynamic"
"""Name of the bytes of shared memory that the launch gives."""

_SIZED = re.compile(r"\bextern\s+(__shared__\s+[^;\[\]]*?\w+)\s*\[\s*\]")
_BYTE = re.compile(r"\b(?:u?int8_t|std::byte|unsigned\s+char|signed\s+char)\b")


class TensorParser(Parser):
    """templates: names of functions that take numbers in angles."""

    def __init__(self, text: str, number: Callable[[str], float] | None, templates: Collection[str]) -> None:
        text = _BYTE.sub("char", _SIZED.sub(rf"\1[{DYNAMIC}]", text)).replace("std::", "")
        super().__init__(re.sub(r"\b__forceinline__\b|\binline\b", " ", text), number)
        self.templates = templates

    def _statement(self) -> Node:
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
