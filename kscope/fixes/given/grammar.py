"""The part of CUDA C++ that kernels of loops, arrays and sums are written in, as a tree. Anything else raises
Unplayable: text is whoever's, and nothing of it is ever executed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kscope.fixes.given.cases import switch
from kscope.fixes.given.type_names import QUALIFIERS, TYPES

Node = tuple[Any, ...]
"""("name", ..): statements `block` [nodes], `for` init cond step body, `if` cond then else, `return` value, `leave` a
loop "break" or "continue", `switch` value cases, `declare` type [(name, "*" or "&" or "", dims, value)] shared, `do`
expression, `barrier`, `meeting` of a warp, `claim` cond;
expressions `number` n, `name` s, `index` base at, `member` a letter, `deref` a, `address` a, `binary` op a b, `unary`
op a, `cast` type a stars, `assign` op target value, `choose` c a b, `call` name [arguments], `list` [values]."""

DEEPEST, LONGEST = 60, 6000  # brackets within brackets and words of a text that is looked at (judged)
WORDS = re.compile(
    r"\s+|(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?[uUlLfF]*)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><<=|>>=|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^<>=!~?:;,.(){}\[\]])"
)
_CASTS = ("reinterpret_cast", "static_cast")
_BINARY = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
           ("*", "/", "%"))  # fmt: skip
_ASSIGN = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
_DIMENSIONS = ("threadIdx", "blockIdx", "blockDim", "gridDim")


class Unplayable(Exception):
    """A text that is more than this grammar, or more than there is time for."""


class Parser:
    """Recursive descent over the words of a function's body."""

    def __init__(self, text: str, number: Callable[[str], float] | None = None) -> None:
        """text: without comments; lines of the preprocessor but pragmas are not understood. number: what a number
        stands for that is no whole one."""
        self.number = number or _number
        text = re.sub(r"(?m)^\s*#\s*pragma[^\n]*$", " ", text)
        self.words: list[str] = []
        at = 0
        while at < len(text):
            match = WORDS.match(text, at)
            if match is None:
                raise Unplayable(text[at : at + 1])
            if match.lastgroup is not None:
                self.words.append(match[0])
            at = match.end()
        if len(self.words) > LONGEST:
            raise Unplayable("long")
        self.at = self.depth = 0

    def body(self) -> Node:
        """The block that the text is."""
        found = self.statement()
        if self.at != len(self.words):
            raise Unplayable(self.next())
        return found

    def next(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def take(self, *wanted: str) -> str:
        """The next word, if it is one of these; "" otherwise."""
        word = self.next()
        if word and (word in wanted):
            self.at += 1
            return word
        return ""

    def need(self, word: str) -> None:
        if not self.take(word):
            raise Unplayable(self.next())

    def statement(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unplayable("deep")
        try:
            return self._statement()
        finally:
            self.depth -= 1

    def _statement(self) -> Node:
        if self.take("{"):
            inside = []
            while not self.take("}"):
                inside.append(self.statement())
            return ("block", inside)
        if self.take(";"):
            return ("block", [])
        if self.take("for"):
            return self._loop()
        if self.take("while"):
            self.need("(")
            test = self.comma()
            self.need(")")
            return ("for", ("block", []), test, ("number", 0), self.statement())
        if self.take("if"):
            self.take("constexpr")
            self.need("(")
            test = self.comma()
            self.need(")")
            then = self.statement()
            return ("if", test, then, self.statement() if self.take("else") else ("block", []))
        if word := self.take("return", "break", "continue"):
            value = self.comma() if word == "return" and self.next() != ";" else None
            self.need(";")
            return (word, value) if word == "return" else ("leave", word)
        if word := self.take("__syncthreads", "__syncwarp"):
            for sign in "();":
                self.need(sign)
            return ("barrier",) if word == "__syncthreads" else ("meeting",)
        if self.take("switch"):
            return switch(self)
        if self.take("static_assert"):
            given = self._arguments()
            self.need(";")
            return ("claim", given[0])
        found = self.declaration() if self._declares() else ("do", self.comma())
        self.need(";")
        return found

    def _loop(self) -> Node:
        self.need("(")
        first: Node = ("block", [])
        if self.next() != ";":
            first = self.declaration() if self._declares() else ("do", self.comma())
        self.need(";")
        test = self.comma() if self.next() != ";" else ("number", 1)
        self.need(";")
        step = self.comma() if self.next() != ")" else ("number", 0)
        self.need(")")
        return ("for", first, test, step, self.statement())

    def _declares(self) -> bool:
        return self.next() in TYPES | QUALIFIERS | {"__shared__", "__align__"}

    def kind(self) -> tuple[str, bool]:
        """(type, whether it is in shared memory) of a declaration or a cast."""
        words, shared = [], False
        while self.next() in TYPES | QUALIFIERS | {"__shared__", "__align__"}:
            word = self.take(self.next())
            if word == "__align__":
                self.need("(")
                self.at += 1
                self.need(")")
            shared |= word == "__shared__"
            words += [word] if word in TYPES else []
        if not words:
            raise Unplayable(self.next())
        return " ".join(words), shared

    def declaration(self) -> Node:
        kind, shared = self.kind()
        made = []
        while True:
            stars = ""
            while word := self.take("*", "&", "__restrict__", "const"):
                stars += word if word in "*&" else ""
            if len(stars) > 1:
                raise Unplayable(stars)
            name = self.name()
            dims = []
            while self.take("["):
                dims.append(self.comma())
                self.need("]")
            braced = self.next() == "{" and not dims  # int n{3}
            made.append((name, stars, dims, self._value() if braced or self.take("=") else None))
            if not self.take(","):
                return ("declare", kind, made, shared)

    def _value(self) -> Node:
        if not self.take("{"):
            return self.expression()
        inside = []
        while not self.take("}"):
            inside.append(self.expression())
            self.take(",")
        return ("list", inside)

    def name(self) -> str:
        word = self.next()
        if not re.fullmatch(r"[A-Za-z_]\w*", word):
            raise Unplayable(word)
        self.at += 1
        return word

    def comma(self) -> Node:
        """Expressions with commas between them: the last one's value."""
        found = self.expression()
        while self.take(","):
            found = ("binary", ",", found, self.expression())
        return found

    def expression(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unplayable("deep")
        left = self._binary(0)
        if self.take("?"):
            first = self.expression()
            self.need(":")
            left = ("choose", left, first, self.expression())
        elif op := self.take(*_ASSIGN):
            left = ("assign", op, left, self.expression())
        self.depth -= 1
        return left

    def _binary(self, level: int) -> Node:
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while op := self.take(*_BINARY[level]):
            left = ("binary", op, left, self._binary(level + 1))
        return left

    def _unary(self) -> Node:
        if op := self.take("-", "!", "~", "+"):
            return ("unary", op, self._unary())
        if op := self.take("++", "--"):
            return ("assign", op[0] + "=", self._unary(), ("number", 1))
        if self.next() == "(" and (self.words[self.at + 1 : self.at + 2] or [""])[0] in TYPES | {"const"}:
            self.need("(")
            kind, stars = self._cast(")")
            return self._as(kind, stars, self._unary())
        if op := self.take("*", "&"):
            return ("deref" if op == "*" else "address", self._unary())
        return self._postfix()

    def _cast(self, end: str) -> tuple[str, int]:
        """(type, stars) in front of the bracket that ends a cast; -1 for a reference."""
        (kind, _), stars = self.kind(), 0
        while self.take("*", "const", "__restrict__"):
            stars += self.words[self.at - 1] == "*"
        stars = -1 if not stars and self.take("&") else stars
        self.need(end)
        return kind, stars

    def _as(self, kind: str, stars: int, inner: Node) -> Node:
        return ("cast", kind, inner, stars) if stars >= 0 else ("deref", ("cast", kind, ("address", inner), 1))

    def _arguments(self) -> list[Node]:
        self.need("(")
        given = []
        while not self.take(")"):
            given.append(self.expression())
            self.take(",")
        return given

    def _postfix(self) -> Node:
        found = self._atom()
        while True:
            if self.take("["):
                found = ("index", found, self.comma())
                self.need("]")
            elif self.take("."):
                found = ("member", found, self.name())
            elif op := self.take("++", "--"):
                found = ("after", op[0] + "=", found, ("number", 1))
            else:
                return found

    def _atom(self) -> Node:
        if self.take("("):
            found = self.comma()
            self.need(")")
            return found
        word = self.next()
        if word[:1].isdigit() or word[:1] == ".":
            self.at += 1
            return ("number", self.number(word))
        name = self.name()
        if name in ("true", "false"):
            return ("number", int(name == "true"))
        if name in _CASTS:
            self.need("<")
            kind, stars = self._cast(">")
            return self._as(kind, stars, self._arguments()[0])
        if name in _DIMENSIONS:
            self.need(".")
            return ("name", f"{name}.{self.name()}")
        if self.next() == "(":
            given = self._arguments()
            return ("cast", name, given[0], 0) if name in TYPES and len(given) == 1 else ("call", name, given)
        return ("name", name)


def _number(word: str) -> int:
    if word[:2].lower() == "0x" or re.fullmatch(r"0[0-7]+[uUlL]*", word):
        return int(word.rstrip("uUlL"), 16 if word[1] in "xX" else 8)
    value = float(word.rstrip("uUlLfF"))
    if value != int(value):
        raise Unplayable(word)  # whole numbers alone: results are compared to the last bit
    return int(value)
