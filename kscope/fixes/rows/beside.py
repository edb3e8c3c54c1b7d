"""Threads of a row that lie side by side, of which a lane stands for several: what each of them loads or stores at its
own place, by one access for all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from kscope.fixes.given.grammar import Node
from kscope.fixes.given.kinds import words
from kscope.fixes.rows.quads import terms
from kscope.fixes.rows.syntax import inside, parts, replaced, root, spelled, statements
from kscope.fixes.rows.trees import THREAD

WIDE = {("float", 8): "float2", ("float", 16): "float4", ("int", 8): "int2", ("int", 16): "int4"}
CARRIERS = {4: "unsigned", 8: "uint2", 16: "uint4"}  # of two-byte numbers
ALWAYS = ("number", "1")


class Access(Struct, frozen=True):
    """Of `array`, of elements of a type, at a place of each thread, where `test` holds: ALWAYS, or the thread below a
    number, with a sign where `signed`. `put`: the registers' name; tests: numbers that must be multiples."""

    array: str
    kind: str
    at: Node
    test: Node
    put: str
    tests: tuple[str, ...]
    signed: bool

    def carrier(self, each: int) -> str:
        bytes_ = words(self.kind)[1] * each
        return WIDE.get((self.kind, bytes_)) or CARRIERS[bytes_]


class Beside(Struct, frozen=True):
    """A section with registers for elements, its loads and its stores."""

    made: list[Node]
    loads: list[Access]
    stores: list[Access]


class Finder:
    """each: threads of a lane. names: what they are, such as are written once; numbers: of the launch; leads: what
    pointers of the text are; taken: other names; signed: those of
    the thread's number."""

    def __init__(
        self, each: int, names: Mapping[str, Node], leads: Mapping[str, Node | None], pointers: Mapping[str, str],
        numbers: Collection[str], taken: Collection[str], signed: Collection[str] = (),
    ) -> None:  # fmt: skip
        self.each, self.names, self.leads, self.pointers = each, names, leads, pointers
        self.numbers, self.taken, self.signed = numbers, {*taken}, signed

    def section(self, nodes: Sequence[Node], element: Node) -> Beside:
        """Loads come first: none that may follow a store; stores last: none with anything behind it."""
        first = next((n for n, one in enumerate(nodes) if self.stores(one)), len(nodes))
        head = nodes[: first + 1]
        found = self.loads(head)
        loads: dict[str, Access] = {}

        def register(one: Node) -> Node | None:
            if one[0] == "assign" and one[2][0] == "index":  # the place itself stays
                return (*one[:3], replaced(one[3], register))
            access = found.get(spelled(one)) if one[0] == "index" else None
            if access is None:
                return None
            known = loads.setdefault(spelled(one), structs.replace(access, put=self.fresh(access.array, "of")))
            return ("index", ("name", known.put), element)

        made = [replaced(node, register) for node in head]
        tail = [self.store(node, element) for node in [*made[first:], *nodes[first + 1 :]]]
        stores = [one[0] for one in tail if one is not None]
        if len(stores) < len(tail) or len({one.array for one in stores}) < len(stores):
            return Beside([*made, *nodes[first + 1 :]], list(loads.values()), [])
        return Beside([*made[:first], *(one[1] for one in tail if one is not None)], list(loads.values()), stores)

    def loads(self, head: Sequence[Node]) -> dict[str, Access | None]:
        """Places that are loaded from, None where a lane's threads do not do so alike."""
        found: dict[str, Access | None] = {}
        targets = {id(x[2]) for node in head for x in inside(node) if x[0] in ("assign", "after")}
        for one, test in (x for node in head for x in _tested(node, ALWAYS)):
            if one[0] == "index" and id(one) not in targets and self.array(one) in self.pointers:
                access = self.access(one, test) if test is not None else None
                known = found.setdefault(spelled(one), access)
                same = known is not None and access is not None and known.test == access.test
                found[spelled(one)] = known if same else None
        return found

    def fresh(self, array: str, ending: str) -> str:
        name = f"{array}_{ending}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def stores(self, node: Node) -> bool:
        """Whether it writes to memory."""
        every = [x[2] for x in inside(node) if x[0] in ("assign", "after") and x[2][0] != "name"]
        return any(self.array(x) in self.pointers or not root(x) or x[0] != "index" for x in every)

    def store(self, node: Node, element: Node) -> tuple[Access, Node] | None:
        """A statement that stores at each thread's place and does nothing besides, and what becomes of it."""
        test, inner = (node[1], statements(node[2])) if node[0] == "if" else (ALWAYS, [node])
        if node[0] == "if" and (node[3] != ("block", []) or len(inner) != 1):
            return None
        one: Node = inner[0][1] if inner[0][0] == "do" else ("",)
        if one[:2] != ("assign", "=") or one[2][0] != "index" or self.stores(("do", one[3])):
            return None
        access = self.access(one[2], test)
        if access is None:
            return None
        access = structs.replace(access, put=self.fresh(access.array, "to"))
        new: Node = ("do", ("assign", "=", ("index", ("name", access.put), element), one[3]))
        loads = any(x[0] in ("index", "deref") for x in inside(one[3]))  # or has, of what is there
        return access, ("if", test, new, ("block", [])) if loads and test != ALWAYS else new

    def array(self, place: Node) -> str:
        """The parameter that a place lies in; "" where that is not told."""
        name = root(place)
        while name in self.leads:
            value = self.leads[name]
            first = next(terms(value)) if value is not None else ("", "")
            name = first[1] if first[0] == "name" else ""
        return name

    def access(self, one: Node, test: Node) -> Access | None:
        """None where threads side by side do not have neighbours, or the first of them may lie anywhere."""
        array = self.array(one)
        kind, wanted = self.pointers.get(array, ""), self.expanded(test)
        if one[1][0] != "name" or words(kind)[1] * self.each not in CARRIERS or words(kind)[0] > 1:
            return None
        at, tests = self.expanded(one[2]), set[str]()
        every, name = list(terms(at)), one[1][1]
        while name in self.leads:
            lead = list(terms(self.leads[name] or ("name", "")))
            every, name = [*every, *(self.expanded(x) for x in lead[1:])], lead[0][1]
        others = [x for x in every if x != THREAD]
        if len(others) != len(every) - 1 or any(THREAD in inside(x) for x in others):
            return None
        if not all(self.multiple(x, tests) for x in others):
            return None
        if wanted != ALWAYS and (wanted[:3] != ("binary", "<", THREAD) or not self.multiple(wanted[3], tests)):
            return None
        return Access(array, kind, ("index", one[1], at), wanted, "", tuple(sorted(tests)), self.below_signed(test))

    def expanded(self, node: Node) -> Node:
        def how(one: Node) -> Node | None:
            if one[0] == "cast" and not one[3] and one[1] in ("int", "unsigned", "size_t", "unsigned int"):
                inner = self.expanded(one[2])
                return inner if inner == THREAD or one[2][0] == "name" else ("cast", one[1], inner, 0)
            value = self.names.get(one[1]) if one[0] == "name" else None
            return self.expanded(value) if value is not None else None

        return replaced(node, how)

    def below_signed(self, test: Node) -> bool:
        """Whether a test compares numbers with a sign."""
        used, new = set[str](), {one[1] for one in inside(test) if one[0] == "name"}
        while new:
            used |= new
            new = {x[1] for n in new if n in self.names for x in inside(self.names[n]) if x[0] == "name"} - used
        return bool(used & set(self.signed))

    def multiple(self, term: Node, tests: set[str]) -> bool:
        """Whether a number is a multiple of a lane's threads, as a number of the launch may have to be."""
        if term[0] == "cast":
            return self.multiple(term[2], tests)
        if term[0] == "number":
            return str(term[1]).isdigit() and int(term[1]) % self.each == 0
        if term[0] == "name" and term[1] in self.numbers:
            tests.add(term[1])
            return True
        if term[0] != "binary" or term[1] != "*":
            return False
        sides = sorted(term[2:4], key=lambda x: x[0] != "number")
        return any(self.multiple(x, tests) for x in sides)


def _tested(node: Node, test: Node | None) -> Iterator[tuple[Node, Node | None]]:
    """Nodes with what is asked before they are come to; None where that is more than one thing, or a loop is."""
    yield node, test
    if node[0] in ("choose", "if"):
        yield from _tested(node[1], test)
        yield from _tested(node[2], node[1] if test == ALWAYS else None)
        yield from _tested(node[3], None)
    elif node[0] == "binary" and node[1] in ("&&", "||"):
        yield from _tested(node[2], test)
        yield from _tested(node[3], None)
    else:
        for one in parts(node):
            yield from _tested(one, None if node[0] == "for" else test)
