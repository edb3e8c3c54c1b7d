"""How a value of a loop's rounds moves: whether it stays, or never falls while the loop's variable grows."""

from __future__ import annotations

import re

from msgspec import Struct

from kscope.fixes.given.grammar import Node, Parser, Unplayable
from kscope.fixes.given.text import WRITES, closing, statement_end, written

PURE = {"__ldg", "min", "max", "fminf", "fmaxf"}
_DIMENSIONS = re.compile(r"(?:threadIdx|blockIdx|blockDim|gridDim)\.[xyz]")
_KINDS = (
    r"(?:const\s+)?(?P<kind>int|long|long\s+long|unsigned|unsigned\s+int|size_t|u?int(?:32|64)_t|float|double|auto)"
)
_HEAD = re.compile(rf"\s*{_KINDS}\s+(?P<name>\w+)\s*=\s*(?P<start>[^;]*)$", re.ASCII)
_FOR = re.compile(r"\bfor\s*\(")
_TYPE = r"\b(?:int|unsigned|float|double|long|short|char|bool|auto|__half|half|\w+_t|\w+[234])\b"
_WIDE = ("float", "double", "long", "int64_t", "auto")
ASSIGNED = "="
DEEPEST = 8  # definitions within definitions that are followed


class Rounds(Struct, frozen=True):
    """A loop whose variable `name` only grows: where its head begins, and its body."""

    kind: str
    name: str
    start: int
    body: tuple[int, int]


def rounds(code: str) -> list[Rounds]:
    """Loops of a text that count upwards, outermost first in the order of the text."""
    out = []
    for match in _FOR.finditer(code):
        close = closing(code, match.end())
        parts = code[match.end() : close].split(";") if close is not None else []
        head = _HEAD.match(parts[0]) if len(parts) == 3 else None
        if close is None or head is None:
            continue
        begin = close + 1 + len(code[close + 1 :]) - len(code[close + 1 :].lstrip())
        end, name = statement_end(code, begin), head["name"]
        grows = re.fullmatch(rf"\s*(?:{name}\s*\+\+|\+\+\s*{name}|{name}\s*\+=[^,=-]+)\s*", parts[2])
        bound = re.fullmatch(rf"\s*{name}\s*<=?[^<>&|]+", parts[1])
        if end is None or grows is None or bound is None or written(name, code[begin:end]):
            continue
        out.append(Rounds(" ".join(head["kind"].split()), name, match.start(), (begin, end)))
    return out


def declared(name: str, text: str) -> bool:
    """Whether a text has a variable of its own by this name."""
    before = rf"{_TYPE}(?:[^;(){{}}=]*?[\s*&]|[^;{{}}]*,\s*[*&]?\s*)"
    return re.search(rf"{before}{name}\s*(?:[=;:,]|\[[^][]*\]\s*[;=,])", text) is not None


class Moves(Struct):
    """Expressions in the rounds of a loop. `hopes`: names whose value must not be negative, of those that were asked
    for."""

    code: str
    loop: Rounds
    free: str = ""
    hopes: tuple[str, ...] = ()

    @property
    def body(self) -> str:
        return self.code[slice(*self.loop.body)]

    def stays(self, text: str) -> bool:
        """Whether nothing that the rounds change is in a text but the name that is `free`."""
        node = parsed(text)
        return node is not None and self._stays(node)

    def rises(self, text: str) -> bool:
        """Whether the value never falls from round to round, and the loop's variable is in it."""
        node = parsed(text)
        return node is not None and self._move(node, 0) == "up"

    def _stays(self, node: Node) -> bool:
        return all(self._steady(name, array) for name, array in leaves(node)) and not _calls(node) - PURE

    def _steady(self, name: str, array: bool) -> bool:
        if name == ASSIGNED:
            return False
        if name == self.free or _DIMENSIONS.fullmatch(name):
            return True
        if name == self.loop.name or written(name, self.body) or declared(name, self.body):
            return False
        if not array:
            return True
        rest = re.sub(rf"(?:__ldg\s*\(\s*&?|\*\s*\()\s*{name}\b", "(", self.body)
        place = rf"(?:(?<![\w.])(?<!->){name}\s*(?:\[[^;{{}}]*?\]\s*)+|\*\s*\(\s*{name}\b[^;{{}}]*?\)\s*)"
        if re.search(rf"{place}(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)", self.body):
            return False
        # An array that is handed to somebody may be written there.
        return re.search(rf"(?<![\w.])(?<!->){name}\b(?!\s*\[)|(?<!&)&\s*{name}\b", rest) is None

    def _move(self, node: Node, depth: int) -> str:
        """`no` (it stays), `up`, or nothing that is known."""
        if node[0] == "name" and node[1] == self.loop.name:
            return "up"
        if self._stays(node) and self.free not in dict(leaves(node)):
            return "no"
        if node[0] == "name" and depth < DEEPEST:
            return self._defined(node[1], depth)
        if node[0] == "cast" and not node[3]:
            moves = self._move(node[2], depth)
            return moves if node[1].split(" ")[-1] in _WIDE or node[1] == self.loop.kind else ""
        if node[0] == "call" and node[1] in PURE - {"__ldg"}:
            return "up" if {self._move(x, depth) for x in node[2]} <= {"up", "no"} else ""
        return self._sum(node, depth) if node[0] == "binary" else ""

    def _sum(self, node: Node, depth: int) -> str:
        _, op, left, right = node
        a, b = self._move(left, depth), self._move(right, depth)
        if op == "+" and {a, b} <= {"up", "no"}:
            return "up"
        if op == "*" and (a, b) in (("up", "no"), ("no", "up")):
            return "up" if self._positive(right if b == "no" else left) else ""
        if (a, b) != ("up", "no"):
            return ""
        if op == "-":
            return "up" if "unsigned" not in self.loop.kind and self.loop.kind not in ("size_t", "uint32_t") else ""
        number = right[0] == "number" and right[1] > 0
        return "up" if op in ("/", ">>") and (number or (op == "/" and self._positive(right))) else ""

    def _positive(self, node: Node) -> bool:
        """Whether a factor is not negative; of a name it is hoped."""
        if node[0] == "number":
            return bool(node[1] >= 0)
        if node[0] == "name":
            if not _DIMENSIONS.fullmatch(node[1]):
                self.hopes = (*self.hopes, node[1])
            return True
        return node[0] == "binary" and node[1] == "*" and self._positive(node[2]) and self._positive(node[3])

    def _defined(self, name: str, depth: int) -> str:
        """Of a name that a round defines once."""
        value = self._value(name)
        node = parsed(value) if value is not None else None
        return self._move(node, depth + 1) if node is not None else ""

    def _value(self, name: str) -> str | None:
        found = re.findall(rf"\b{name}\s*=(?!=)\s*([^;]+?)\s*(?:;|,\s*\w+\s*=)", self.body)
        kind = re.search(rf"(?:^|[;{{}}])\s*{_KINDS}\s+(?:\w+\s*=[^;]*,\s*)?{name}\s*=", self.body)
        if len(found) != 1 or kind is None or len(re.findall(WRITES.replace("{x}", name), self.body)) != 1:
            return None
        same = kind["kind"].split()[-1] in _WIDE or " ".join(kind["kind"].split()) == self.loop.kind
        return str(found[0]) if same else None

    def plain(self, text: str) -> str:
        """With the values of names that a round defines once put in."""
        for _ in range(DEEPEST):
            node = parsed(text)
            names = [n for n, _ in leaves(node) if n not in (self.loop.name, self.free)] if node is not None else []
            value = next(((n, v) for n in names if (v := self._value(n)) is not None), None)
            if value is None:
                break
            text = re.sub(rf"(?<![\w.])(?<!->){value[0]}\b", f"({value[1]})", text)
        return text


def parsed(text: str) -> Node | None:
    """An expression as a tree; None where it is more than the grammar has."""
    from kscope.fixes.given.whole_numbers import real

    parser = None
    try:
        parser = Parser(text, real)
        node = parser.expression()
    except (Unplayable, ValueError, RecursionError):
        return None
    return node if parser.at == len(parser.words) else None


def leaves(node: Node) -> list[tuple[str, bool]]:
    """(name, whether it is an array or a pointer here) of all names in an expression. An assignment's is
    ASSIGNED."""
    return list(_leaves(node, array=False))


def _leaves(node: Node, *, array: bool) -> list[tuple[str, bool]]:
    if node[0] == "name":
        return [(node[1], array)]
    if node[0] == "number":
        return []
    if node[0] in ("assign", "after"):
        return [(ASSIGNED, False)]
    if node[0] == "index":
        return _leaves(node[1], array=True) + _leaves(node[2], array=False)
    if node[0] == "deref" or (node[0] == "call" and node[1] == "__ldg"):
        inner = node[1] if node[0] == "deref" else node[2][0]
        return _leaves(inner, array=True)
    parts: list[Node] = [x for x in node[1:] if isinstance(x, tuple)]
    parts += [x for xs in node[1:] if isinstance(xs, list) for x in xs]
    return [leaf for part in parts for leaf in _leaves(part, array=array)]


def _calls(node: Node) -> set[str]:
    mine = {node[1]} if node[0] == "call" else set()
    parts = [x for x in node[1:] if isinstance(x, tuple)] + [x for xs in node[1:] if isinstance(xs, list) for x in xs]
    return mine.union(*(_calls(part) for part in parts))


def each(text: str, sign: str) -> list[str]:
    """Operands of a chain of `&&` or `||`, its outer brackets gone."""
    text = text.strip()
    while text.startswith("(") and closing(text, 1) == len(text) - 1:
        text = text[1:-1].strip()
    depth, out, at = 0, [], 0
    for n, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if depth == 0 and text[n : n + 2] == sign:
            out.append(text[at:n].strip())
            at = n + 2
    return [*out, text[at:].strip()]
