"""Functions of a file whose template takes numbers, and the calls of them in a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from kscope.fixes.cases.folded import converted, node, of
from kscope.fixes.given.grammar import Node, Parser, Unplayable
from kscope.fixes.given.text import closing
from kscope.fixes.roles.macros import parts
from kscope.fixes.rows.syntax import inside

MOST = 200  # characters that the arguments of a template have (judged)
FORBIDDEN = re.compile(
    r"\b(?:volatile|asm|__asm__|goto|static|thread_local|throw|new|delete|__syncthreads\w*|__syncwarp|__activemask"
    r"|coalesced_threads)\b"
)
_TEMPLATE = re.compile(r"\btemplate\s*<([^<>]*)>\s*")
_STRUCT = re.compile(r"(?:struct|class)\s+(\w+)\s*(<)?")
_NUMBER = re.compile(r"\s*(int|unsigned|unsigned\s+int|bool|size_t|uint32_t)\s+(\w+)\s*")
_BRACKETS = re.compile(r"\([^()]*\)|\{[^{}]*\}")
_WORDS = re.compile(r"[A-Za-z_]\w*")
_PARAMETER = re.compile(
    r"\s*(?P<const>const\s+)?(?P<type>[A-Za-z_][\w ]*?)\s*(?:const\s*)?(?P<sign>[*&]?)\s*(?:const\s+)?"
    r"(?:__restrict__\s+)?\b(?P<name>\w+)\s*"
)
CASTS = ("static_cast", "reinterpret_cast")
_ANGLES = re.compile(r"\b([A-Za-z_]\w*)\s*<[^<>;{}]*>\s*(?:\(|::|\{)")
_MEMBER = re.compile(r"\bstatic\b[^;{}()=]*?\b(\w+)\s*\(")
_FUNCTION = re.compile(r"[^;{}()=<>]*?\b(\w+)\s*(<|\()")


class Given(Struct, frozen=True):
    """A parameter: its type as a cast has it, "&" or "*" or "", name, whether it says that nothing changes it."""

    kind: str
    sign: str
    name: str
    constant: bool


class Definition(Struct, frozen=True):
    """numbers: of the template, their types by their names; chosen: for which arguments it is, None for all."""

    numbers: Mapping[str, str]
    chosen: tuple[Node, ...] | None
    given: tuple[Given, ...]
    body: Node


class Call(Struct, frozen=True):
    name: str
    arguments: tuple[Node, ...]


class Templates:
    """What a text calls, found as it is asked for. plain: what makes a text one without macros."""

    def __init__(self, code: str, plain: Callable[[str], str]) -> None:
        self.code, self.plain = code, plain
        self.calls: dict[str, Call] = {}
        self.rows: set[int] = set()
        """Lines of the file that definitions which were asked for stand on."""
        self.known: dict[str, list[Definition]] = {}
        self.heads: dict[str, list[tuple[str, int, bool]]] = {}
        for match in _TEMPLATE.finditer(code):
            structure = _STRUCT.match(code, match.end())
            head = structure or _FUNCTION.match(code, match.end())
            if head is not None and "__global__" not in head[0]:
                self.heads.setdefault(head[1], []).append((match[1], head.start(), structure is not None))
        called = "|".join(sorted(self.heads))
        self.named = re.compile(rf"\b({called})\s*<(?!<)") if called else None

    def tree(self, text: str) -> Node:
        """The tree of a block; calls of templates in it are calls of names that `calls` then holds."""
        if FORBIDDEN.search(text):
            raise Unplayable("a statement of another kind")
        return Parser(self._marked(self.plain(text)), number=_same).body()

    def definitions(self, name: str) -> list[Definition]:
        """Those of `name` or `name::member`."""
        if name not in self.known:
            self.known[name] = [self._read(name, *head) for head in self.heads.get(name.partition("::")[0], [])]
        return self.known[name]

    def _marked(self, text: str) -> str:
        out, at = [], 0
        while self.named is not None and (m := self.named.search(text, at)) is not None:
            end = _angle(text, m.end())
            behind = re.compile(r"\s*(?:::\s*(\w+)\s*)?\(").match(text, end + 1)
            if behind is None:
                raise Unplayable("a template that is not called")
            given = tuple(expression(x) for x in parts(text[m.end() : end]))
            name = f"{m[1]}::{behind[1]}" if behind[1] else m[1]
            mark = f"{m[1]}_of_{len(self.calls)}_"
            self.calls[mark] = Call(name, given)
            out += [text[at : m.start()], mark, "("]
            at = behind.end()
        found = "".join([*out, text[at:]])
        if any(m[1] not in CASTS for m in _ANGLES.finditer(found)):
            raise Unplayable("a template that is not known")
        return found

    def _read(self, name: str, numbers: str, at: int, structure: bool) -> Definition:
        code, member = self.code, name.partition("::")[2]
        if structure != bool(member):
            raise Unplayable("a template of another kind")
        named = [_NUMBER.fullmatch(x) for x in parts(numbers)]
        if not all(named):
            raise Unplayable("a template of types")
        head = (_STRUCT if structure else _FUNCTION).match(code, at)
        assert head is not None
        end, chosen = head.end(), None
        if head[2] == "<":
            end = _angle(code, head.end())
            chosen = tuple(expression(self.plain(x)) for x in parts(code[head.end() : end]))
            end += 1
        first, own = self._member(member, end) if structure else (
            end if head[2] == "(" else code.index("(", end) + 1, set[str]())  # fmt: skip
        found = self._function([(m[2], " ".join(m[1].split())) for m in named if m is not None], chosen, at, first)
        if own & {x[1] for x in inside(found.body) if x[0] in ("name", "call")}:
            raise Unplayable("a function of what its structure has")
        return found

    def _member(self, name: str, end: int) -> tuple[int, set[str]]:
        """(where the parameters of a structure's function begin, names that the structure has)."""
        opened = self.code.find("{", end)
        close = closing(self.code, opened + 1)
        found = [m for m in _MEMBER.finditer(self.code, opened, close or opened) if m[1] == name]
        if len(found) != 1 or self.code[end:opened].strip():
            raise Unplayable("a structure of another kind")
        bare, before = self.code[opened + 1 : close], ""
        while bare != before:
            bare, before = _BRACKETS.sub(" ", bare), bare
        return found[0].end(), set(_WORDS.findall(bare))

    def _function(
        self, numbers: Sequence[tuple[str, str]], chosen: tuple[Node, ...] | None, at: int, first: int
    ) -> Definition:
        """numbers: names and types of them."""
        code = self.code
        close = closing(code, first)
        opened = code.find("{", close or 0)
        end_of = closing(code, opened + 1) if close is not None and opened >= 0 else None
        if close is None or end_of is None or code[close + 1 : opened].strip():
            raise Unplayable("a function of another kind")
        self.rows |= set(range(1 + code.count("\n", 0, at), 2 + code.count("\n", 0, end_of)))
        given = [_PARAMETER.fullmatch(x) for x in parts(code[first:close])]
        if not all(given):
            raise Unplayable("a parameter of another kind")
        read = [m for m in given if m is not None]
        taken = tuple(Given(" ".join(m["type"].split()), m["sign"], m["name"], bool(m["const"])) for m in read)
        return Definition(dict(numbers), chosen, taken, self.tree(code[opened : end_of + 1]))


def matched(found: Sequence[Definition], values: Sequence[Node]) -> tuple[Definition, dict[str, Node]]:
    """The definition that a template's arguments choose, and what its numbers are."""
    special, general = [], []
    for one in found:
        if one.chosen is None:
            if len(one.numbers) == len(values):
                general.append((one, _typed(one, dict(zip(one.numbers, values, strict=True)))))
        elif (bound := _bound(one, values)) is not None:
            special.append((one, _typed(one, bound)))
    fits = special or general
    if len(fits) != 1:
        raise Unplayable("a template of another kind")
    return fits[0]


def _typed(one: Definition, bound: Mapping[str, Node]) -> dict[str, Node]:
    """Numbers of a template as what they are declared to be."""
    out = {}
    for name, value in bound.items():
        known = of(value)
        fits = converted(known, one.numbers[name]) if known is not None else None
        if fits is None:
            raise Unplayable("a template of another number")
        out[name] = node(fits)
    return out


def expression(text: str) -> Node:
    parser = Parser(text, number=_same)
    found = parser.expression()
    if parser.at != len(parser.words):
        raise Unplayable(parser.next())
    return found


def _bound(one: Definition, values: Sequence[Node]) -> dict[str, Node] | None:
    bound: dict[str, Node] = {}
    if one.chosen is None or len(one.chosen) != len(values):
        return None
    for asked, value in zip(one.chosen, values, strict=True):
        if asked[0] == "name" and asked[1] in one.numbers:
            if bound.setdefault(asked[1], value) != value:
                return None
        elif (wanted := of(asked)) is None or (given := of(value)) is None:
            raise Unplayable("a template for an expression")
        elif wanted.value != given.value:
            return None
    return bound


def _angle(text: str, at: int) -> int:
    """Where the bracket closes in front of which a template's arguments begin."""
    depth = 0
    for n in range(at, min(len(text), at + MOST)):
        depth += (text[n] in "([{") - (text[n] in ")]}")
        if text[n] in "<;{":
            break
        if text[n] == ">" and not depth:
            return n
    raise Unplayable("a template of another kind")


def _same(word: str) -> float:
    return word  # type: ignore[return-value]
