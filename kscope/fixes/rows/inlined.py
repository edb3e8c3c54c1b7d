"""Functions that a kernel calls, put where they are called: a play has one text. And which of them join a value of each
thread of a block, as a play of the function alone shows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.source import split_declarators
from kscope.fixes.given.text import LONGEST, blanked, closing
from kscope.fixes.rows import syntax
from kscope.fixes.rows.syntax import declared, inside, replaced, statements
from kscope.model.lazily import np

DEEPEST, LINES = 4, 60  # calls within calls, lines of a function (judged)
KINDS = r"float|double|int|unsigned(?:\s+int)?|bool|void"
_HEAD = r"\b__device__\b[^;{{}}()#]*?\b(?P<kind>{kinds})\s+{name}\s*\("
_PARAMETER = re.compile(
    rf"^(?:const\s+)?(?P<kind>{KINDS})\s*(?P<star>\*?)\s*(?:const\s+)?(?:__restrict__\s+)?(?P<name>\w+)$"
)
HOWS = {"+": "sum", "fmaxf": "max", "fminf": "min"}  # functions of numpy
"""What values are joined by."""


class Callee(Struct, frozen=True):
    """A function: its result's type, (type, star, name) of what it is given, its body and the value that it returns."""

    kind: str
    given: tuple[tuple[str, str, str], ...]
    body: tuple[Node, ...]
    value: Node | None

    @property
    def meets(self) -> bool:
        return any(one == ("barrier",) for node in self.body for one in inside(node))


def callees(lines: Sequence[str], body: Node, deep: int = 0) -> dict[str, Callee]:
    """The functions of a file that a text calls, and those that they call."""
    found: dict[str, Callee] = {}
    text = "\n".join(map(blanked, lines)) if deep < DEEPEST else ""
    for name in sorted({one[1] for one in inside(body) if one[0] == "call"}):
        heads = list(re.finditer(_HEAD.format(kinds=KINDS, name=re.escape(name)), text))
        one = _callee(text, heads[0]) if len(heads) == 1 and "template" not in heads[0][0] else None
        if one is not None:
            found[name] = one
            found |= callees(lines, ("block", [*one.body, *([("do", one.value)] if one.value else [])]), deep + 1)
    return found


def _callee(text: str, head: re.Match[str]) -> Callee | None:
    close = closing(text, head.end())
    opened = text.find("{", close) if close is not None else -1
    end = closing(text, opened + 1) if opened >= 0 else None
    if close is None or end is None or text[close + 1 : opened].strip() or end - opened > LONGEST:
        return None
    given = [_PARAMETER.match(" ".join(p.split())) for p in split_declarators(text[head.end() : close]) if p.strip()]
    code = text[opened : end + 1]
    result = re.search(r"\breturn\b([^;]*);\s*\}$", code)
    if result is not None:
        code = code[: result.start()] + "}"
    body = syntax.tree(code)
    value = syntax.tree(f"{{ {result[1]}; }}") if result is not None else None
    if body is None or any(p is None for p in given) or re.search(r"\b(?:return|volatile)\b", code):
        return None
    if (value is None) != (head["kind"] == "void") or re.search(r"\bstatic\b(?!\s+__shared__)|\basm\b", code):
        return None
    taken = tuple((p["kind"], p["star"], p["name"]) for p in given if p is not None)
    return Callee(" ".join(head["kind"].split()), taken, tuple(statements(body)), value and statements(value)[0][1])


class _Inliner:
    def __init__(self, known: Mapping[str, Callee]) -> None:
        self.known, self.count = known, 0

    def block(self, nodes: Sequence[Node]) -> list[Node]:
        return [made for node in nodes for made in self.statement(node)]

    def statement(self, node: Node) -> list[Node]:
        if node[0] == "block":
            return [("block", self.block(node[1]))]
        if node[0] == "if":
            then, other = (("block", self.block(statements(x))) for x in node[2:4])
            before, test = self.value(node[1])
            return [*before, ("if", test, then, other if other != ("block", []) else ("block", []))]
        if node[0] == "for":
            if any(self._calls(x) for x in node[1:4]):
                raise Unplayable("a call in a loop's head")
            return [(*node[:4], ("block", self.block(statements(node[4]))))]
        if node[0] == "declare":
            out: list[Node] = []
            for name, star, dims, value in node[2]:
                before, made = self.value(value) if value is not None else ([], None)
                out += [*before, ("declare", node[1], [(name, star, dims, made)], node[3])]
            return out
        if node[0] == "do":
            before, made = self.value(node[1])
            return [*before, *([("do", made)] if made[0] != "number" else [])]
        return [node]

    def _calls(self, node: Node) -> bool:
        return any(one[0] == "call" and one[1] in self.known for one in inside(node))

    def value(self, node: Node) -> tuple[list[Node], Node]:
        """(what comes before, the expression), with its calls in the order in which they are made."""
        if not self._calls(node):
            return [], node
        out: list[Node] = []

        def how(one: Node) -> Node | None:
            asked = one[0] == "choose" or (one[0] == "binary" and one[1] in ("&&", "||"))
            if asked and self._calls(one):
                raise Unplayable("a call of some")
            if one[0] != "call" or one[1] not in self.known:
                return None
            before, result = self.call(self.known[one[1]], [replaced(x, how) for x in one[2]])
            out.extend(before)
            return result

        return out, replaced(node, how)

    def call(self, one: Callee, given: Sequence[Node]) -> tuple[list[Node], Node]:
        self.count += 1
        if self.count > 100 or len(given) != len(one.given):
            raise Unplayable("calls")
        ending = f"_of{self.count}"
        own = {*declared(*one.body), *(name for _, _, name in one.given)}
        put: dict[str, Node] = {name: ("name", name + ending) for name in own}
        out: list[Node] = []
        for (kind, star, name), value in zip(one.given, given, strict=True):
            if star:
                put[name] = value
            else:
                out.append(("declare", kind, [(name + ending, "", [], value)], False))
        body = [_renamed(node, put) for node in one.body]
        out += self.block(body)
        if one.value is None:
            return out, ("number", "0")
        before, value = self.value(_renamed(one.value, put))
        result: Node = ("declare", one.kind, [("result" + ending, "", [], value)], False)
        return [*out, *before, result], ("name", "result" + ending)


def _renamed(node: Node, put: Mapping[str, Node]) -> Node:
    def how(one: Node) -> Node | None:
        if one[0] == "name":
            return put.get(one[1])
        if one[0] == "declare":
            made = []
            for name, star, dims, value in one[2]:
                new = put[name][1] if name in put else name
                made.append((new, star, [replaced(d, how) for d in dims], value and replaced(value, how)))
            return (*one[:2], made, *one[3:])
        return None

    return replaced(node, how)


def inlined(text: str, known: Mapping[str, Callee]) -> str:
    """A body with no call of these; as it is where there is none. Raises Unplayable where one cannot be put in."""
    if not known:
        return text
    body = syntax.tree(text)
    if body is None:
        raise Unplayable("text")
    made = _Inliner(known).block(statements(body))
    return "\n".join(["{", *syntax.lines(("block", made), "  "), "}"])


def joined_by(
    known: Mapping[str, Callee], name: str, given: Sequence[Node], at: int, sizes: Mapping[str, int], block: int
) -> str:  # fmt: skip
    """How a function joins its argument `at` of all threads of a block; "" where it does not, as far as a play tells.
    sizes: elements of the shared arrays that it is given."""
    from kscope.fixes.given.played import Rules, play

    here, one, put, made = "blockIdx.x * blockDim.x + threadIdx.x", known[name], list[str](), list[str]()
    for n, value in enumerate(given):
        (kind, star, _) = one.given[n]
        if star:
            put.append(f"__shared__ {kind} shared{n}[{sizes[value[1]]}];")
        made.append(f"taken[{here}]" if n == at else f"shared{n}" if star else syntax.spelled(value))
    text = f"{{ {' '.join(put)} joined[{here}] = {name}({', '.join(made)}); }}"
    found = set(HOWS)
    for low, high in ((-999, 999), (1, 999), (-999, -1)):  # what stands for threads that are not there shows
        taken = np.random.default_rng(block).integers(low, high, 2 * block)
        memory = {"taken": taken, "joined": np.zeros_like(taken)}
        try:
            play(inlined(text, known), (2, 1), (block, 1), memory, {"warpSize": 32}, Rules(races=True))
        except (Unplayable, KeyError):
            return ""
        results, values = memory["joined"].reshape(2, block)[:, 0], taken.reshape(2, block)
        found &= {how for how, of in HOWS.items() if (getattr(np, of)(values, axis=1) == results).all()}
    return next((how for how in HOWS if how in found), "")
