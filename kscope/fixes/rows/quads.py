"""Loops along a row whose lanes take four neighbours each: one access of 16 bytes for four, where the row's length is a
multiple of four."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from kscope.fixes.given.grammar import Node
from kscope.fixes.given.kinds import LETTERS
from kscope.fixes.rows.syntax import declared, inside, names, parts, replaced, spelled, statements

FOUR, WIDE = 4, {"float": "float4", "int": "int4", "unsigned": "uint4", "unsigned int": "uint4"}
COUNT = ("number", "4")


class Quads(Struct, frozen=True):
    """The new statement, and the parameters through which it loads 16 bytes."""

    node: Node
    arrays: tuple[str, ...]


def quads(
    node: Node, pointers: Mapping[str, str], leads: Mapping[str, Node | None], lanes: Node, written: frozenset[str],
    *, short: bool,
) -> Quads | None:  # fmt: skip
    """A loop `for (k = t; k < end; k += lanes)` by four neighbours, and as it is where the end is no multiple of four;
    None where nothing in it is an access of neighbours. leads: what local pointers are at first. written: names that
    are written to again. short: whether rows have no more elements than lanes take in a round or two."""
    one = _Quads(node, pointers, leads)
    if not one.right(lanes) or {one.end[1], *leads} & written:
        return None
    return Quads(one.made(lanes, short=short), tuple(sorted({one.array(load) for _, load in one.found.values()})))


class _Quads:
    def __init__(self, node: Node, pointers: Mapping[str, str], leads: Mapping[str, Node | None]) -> None:
        self.node, self.pointers, self.leads = node, pointers, leads
        self.found: dict[str, tuple[str, Node]] = {}

    def right(self, lanes: Node) -> bool:
        """Whether it is such a loop, with an access of neighbours in it."""
        if not self.counts(lanes):
            return False
        body = self.node[4]
        changed = [one[2] for one in inside(body) if one[0] in ("assign", "after")]
        written = {name for one in changed for name in names(one)}
        if {self.k[1], self.end[1]} & written or declared(body)[self.k[1]]:
            return False
        if any(one[0] in ("barrier", "meeting", "return") for one in inside(body)):
            return False
        self.stored = {self.array(one) for one in changed if one[0] != "name"}
        for one in always(self.body):
            self.noted(one)
        return bool(self.found)

    def counts(self, lanes: Node) -> bool:
        """Whether its head is `k = ..; k < end; k += lanes`."""
        _, first, test, step, body = self.node
        if first[0] != "declare" or len(first[2]) != 1 or first[2][0][3] is None or test[0] != "binary":
            return False
        self.k, self.end, self.body = ("name", first[2][0][0]), test[3], statements(body)
        right = test[1] == "<" and test[2] == self.k and step == ("assign", "+=", self.k, lanes)
        return right and self.end[0] in ("name", "number")

    def array(self, place: Node) -> str:
        """The parameter that a place lies in; "" where that is not told."""
        name = place[1][1] if place[0] == "index" and place[1][0] == "name" else ""
        while name in self.leads:
            value = self.leads[name]
            every = list(terms(value)) if value is not None else []
            name = every[0][1] if every and every[0][0] == "name" else ""
        return name

    def noted(self, one: Node) -> None:
        """A load of neighbours, whose array the loop does not write."""
        if one[0] != "index" or one[1][0] != "name" or not self.even(one):
            return
        name = self.array(one)
        if name in self.stored or "" in self.stored or self.pointers.get(name) not in WIDE:
            return
        put = f"{one[1][1]}_{len(self.found) + 1}"
        while put in names(self.node) or put in declared(self.node):
            put += "_"
        self.found.setdefault(spelled(one), (put, one))

    def even(self, one: Node) -> bool:
        """Whether an index is k and else multiples of four."""
        every = list(terms(one[2]))
        if every.count(self.k) != 1:
            return False
        every.remove(self.k)
        name = one[1][1]
        while name in self.leads:
            value = self.leads[name]
            first, *more = list(terms(value)) if value is not None else [("number", "1")]
            if first[0] != "name":
                return False
            every, name = [*every, *more], first[1]
        return all(self.multiple(t) for t in every)

    def multiple(self, term: Node) -> bool:
        while term[0] == "cast":
            term = term[2]
        if term == self.end:
            return self.end[0] == "name" or int(self.end[1]) % FOUR == 0
        if term[0] == "number":
            return str(term[1]).isdigit() and int(term[1]) % FOUR == 0
        return term[0] == "binary" and term[1] == "*" and (self.multiple(term[2]) or self.multiple(term[3]))

    def made(self, lanes: Node, *, short: bool) -> Node:
        _, first, test, _, body = self.node
        kind, ((name, star, dims, start),) = first[1:3]
        begin = start if start[0] == "number" else ("binary", "*", COUNT, start)
        by = ("number", str(FOUR * int(lanes[1]))) if lanes[0] == "number" else ("binary", "*", COUNT, lanes)
        inner: list[Node] = [self.loaded(put, one) for put, one in self.found.values()]
        for n, letter in enumerate(LETTERS):
            each = [self.neighbour(one, n, letter) for one in self.body]
            inner += [("block", each)] if declared(*each) else each
        wide = ("for", ("declare", kind, [(name, star, dims, begin)], False), test, ("assign", "+=", self.k, by),
                ("block", inner))  # fmt: skip
        if self.end[0] == "number":
            return wide
        once: list[Node] = [("pragma", "unroll 1")] if short else []
        even = ("binary", "==", ("binary", "%", self.end, COUNT), ("number", "0"))
        return ("if", even, ("block", [*once, wide]), ("block", [*once, ("for", first, test, self.node[3], body)]))

    def loaded(self, put: str, one: Node) -> Node:
        kind = WIDE[self.pointers[self.array(one)]]
        at: Node = ("cast", kind, ("binary", "+", one[1], one[2]), 1)
        return ("declare", kind, [(put, "", [], ("deref", at))], False)

    def neighbour(self, body: Node, n: int, letter: str) -> Node:
        def how(one: Node) -> Node | None:
            if one[0] == "index" and spelled(one) in self.found:
                return ("member", ("name", self.found[spelled(one)][0]), letter)
            return ("binary", "+", self.k, ("number", str(n))) if one == self.k and n else None

        return replaced(body, how)


def terms(node: Node) -> Iterator[Node]:
    if node[0] == "binary" and node[1] == "+":
        yield from terms(node[2])
        yield from terms(node[3])
    else:
        yield node


def always(nodes: list[Node]) -> Iterator[Node]:
    """What every round comes to."""
    for node in nodes:
        if node[0] in ("for", "if"):
            continue
        yield node
        if node[0] == "choose" or (node[0] == "binary" and node[1] in ("&&", "||")):
            yield from always([node[1] if node[0] == "choose" else node[2]])
        else:
            yield from always(list(parts(node)))
