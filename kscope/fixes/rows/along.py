"""What a text of lanes that have a row each goes along: its loops, the elements of the row that they load, and what the
first lane stores in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kscope.fixes.given.grammar import Node
from kscope.fixes.rows import syntax
from kscope.fixes.rows.function import Function
from kscope.fixes.rows.quads import terms
from kscope.fixes.rows.syntax import declared, inside, names, replaced, statements
from kscope.fixes.rows.trees import THREAD, ZERO, first_thread

EACH = "each_n"
ELEMENT = ("name", EACH)
TURNS = 8  # of a loop that is unrolled for what the first lane stores (judged)
CHANGES = ("assign", "after")


class Along:
    """Statements of a body. stored: arrays that are stored to; top: names that are what they are from the start on."""

    def __init__(self, fn: Function, nodes: list[Node], lanes: int, values: Mapping[str, int]) -> None:
        self.fn, self.nodes, self.lanes, self.values = fn, nodes, lanes, values
        self.whole: Node = ("block", nodes)
        every = [x for x in inside(self.whole) if x[0] == "declare"]
        made = [m for x in every if not x[3] for m in x[2]]
        self.shared = {m[0]: x[1] for x in every if x[3] for m in x[2]}
        self.changes = [x for x in inside(self.whole) if x[0] in CHANGES]
        self.written = changed(self.whole)
        self.alias = frozenset(n for n, star, _, v in made if v == THREAD and not star and n not in self.written)
        self.leads = {n: v for n, star, _, v in made if star}
        self.stored = {self.array(x[2]) for x in self.changes if x[2][0] != "name"}
        self.top = _once(nodes) - self.written

    def array(self, place: Node) -> str:
        """The parameter that a place lies in; "" where that is not told."""
        name = syntax.root(place)
        while name in self.leads:
            value = self.leads[name]
            first = next(terms(value)) if value is not None else ("", "")
            name = first[1] if first[0] == "name" else ""
        return name

    def restless(self) -> bool:
        """Whether another pointer may lead to what is kept: such that are stored through must not."""
        head = self.fn.code[: self.fn.opened]
        return any(f"__restrict__ {n}" not in " ".join(head.split()) for n in self.fn.pointers)

    def along(self, node: Node) -> bool:
        """Whether it is `for (k = t; k < end; k += lanes)`, as far as a number of the launch."""
        k = counter(node)
        if k is None or node[2][:3] != ("binary", "<", k) or node[3][:3] != ("assign", "+=", k):
            return False
        start, end = node[1][2][0][3], node[2][3]
        if not (start == THREAD or (start[0] == "name" and start[1] in self.alias)):
            return False
        if self.width(node[3][3]) != self.lanes or k[1] in changed(node[4]) | set(declared(node[4])):
            return False
        return self.fixed(end) and not any(x[0] in ("barrier", "meeting", "return") for x in inside(node))

    def fixed(self, end: Node) -> bool:
        """Whether it is a number of the launch, or one that stands there."""
        if end[0] == "number":
            return str(end[1]).isdigit()
        return end[0] == "name" and end[1] in self.fn.numbers and end[1] not in self.written

    def width(self, node: Node) -> int:
        if node[0] == "name":
            return self.values.get(node[1], 0)
        return int(node[1]) if node[0] == "number" and str(node[1]).isdigit() else 0

    def element(self, one: Node, loop: Node) -> Node | None:
        """A load of the row's element k, as one of an element EACH; None for anything else."""
        k = ("name", loop[1][2][0][0])
        if one[0] != "index" or one[1][0] != "name" or self.array(one) not in self.fn.pointers:
            return None
        every = list(terms(one[2]))
        rest = [x for x in every if x != k]
        fixed = {*self.top, *self.fn.numbers, *self.values, "blockIdx.x", "threadIdx.y"}
        if self.array(one) in self.stored or len(rest) != len(every) - 1:
            return None
        if not set(names(*rest)) <= fixed or any(x[0] in ("index", "call", "deref") for y in rest for x in inside(y)):
            return None
        if one[1][1] not in self.fn.pointers and one[1][1] not in self.top:
            return None
        return replaced(one, lambda x: ELEMENT if x == k else None)

    def turns(self, node: Node) -> int:
        """How often a loop goes round that counts from 0 to a number; 0 for any other."""
        k = counter(node)
        if k is None or node[1][2][0][3] not in ZERO or node[2][:3] != ("binary", "<", k):
            return 0
        if node[3][0] not in CHANGES or node[3][1:] != ("+=", k, ("number", 1)) or k[1] in changed(node[4]):
            return 0
        most = self.width(node[2][3])
        return most if most <= TURNS else 0

    def stores(self, loop: Node) -> Iterator[tuple[Node, Node]]:
        """Places that the first lane alone stores to in a loop's rounds, and what it stores."""
        for one in statements(loop[4]):
            if one[0] == "if" and first_thread(one[1], self.alias) and one[3] == ("block", []):
                for each in statements(one[2]):
                    if each[0] == "do" and each[1][:2] == ("assign", "=") and each[1][2][0] == "index":
                        yield each[1][2], each[1][3]

    def loads(self, name: str) -> list[Node]:
        """Places of an array that are loaded."""
        targets = {id(x[2]) for x in self.changes}
        rows = {id(x[1]) for x in inside(self.whole) if x[0] == "index"}
        every = [x for x in inside(self.whole) if x[0] in ("index", "deref") and id(x) not in targets | rows]
        return [x for x in every if self.array(x) == name]

    def kind(self, name: str) -> str:
        return self.shared.get(name) or self.fn.pointers[name].replace("const", "").strip()


def counter(loop: Node) -> Node | None:
    """The name that a loop declares, with a value; None where it does anything else first."""
    if loop[0] != "for" or loop[1][0] != "declare" or len(loop[1][2]) != 1:
        return None
    name, star, dims, start = loop[1][2][0]
    return None if star or dims or start is None else ("name", name)


def changed(node: Node) -> set[str]:
    """Names that are written to, or to elements of."""
    return {syntax.root(x[2]) for x in inside(node) if x[0] in CHANGES}


def _once(nodes: list[Node]) -> set[str]:
    """Names that statements declare, and nothing in them again."""
    twice = {n for n, count in declared(*nodes).items() if count > 1}
    return {n for x in nodes if x[0] == "declare" for n, *_ in x[2]} - twice
