"""Rows that lanes go along several times: each keeps its elements in registers from the first time on, and what the
first lane stores for all to read later. Rows of other lengths go the way they went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kscope.fixes.given.grammar import Node
from kscope.fixes.rows import syntax
from kscope.fixes.rows.along import CHANGES, EACH, ELEMENT, Along
from kscope.fixes.rows.function import Function
from kscope.fixes.rows.quads import always, terms
from kscope.fixes.rows.regrouped import WARP
from kscope.fixes.rows.syntax import declared, inside, names, replaced, spelled, statements

MOST = 32  # elements of rows that a lane keeps (judged: 64 and more leave too few warps)
UNROLL = ("pragma", "unroll")


class Passes(Struct, frozen=True):
    """The function's new text. `words`: of registers a lane more; `most`: elements of the longest row that has them,
    all of whose lanes have one in each round but the last.
    `asked`: arrays whose elements are loaded only where they are needed."""

    text: str
    words: int
    most: int
    asked: tuple[str, ...]

    def sizes(self, lanes: int) -> tuple[int, ...]:
        """Lengths of rows that have them, the least and the largest, and others."""
        return self.most - lanes, self.most - lanes + 1, self.most - lanes // 2, self.most, self.most + 1


def passes(
    fn: Function, text: str, lanes: int, values: Mapping[str, int], lengths: Mapping[str, float]
) -> Passes | None:  # fmt: skip
    """text: the function's, lanes of a warp having a row each. lengths: elements of a row of each array, the mean. None
    where rows are gone along once, or something is in the way."""
    start = text.index("{", len(fn.code[: fn.opened].rstrip()))
    tree = syntax.tree(text[start:])
    one = _Passes(fn, statements(tree), lanes, values) if tree is not None and tree[0] == "block" else None
    made = one.made(lengths) if one is not None else None
    if one is None or made is None:
        return None
    kept = frozenset(declared(*made)) - {syntax.root(x[2]) for m in made for x in inside(m) if x[0] in CHANGES}
    new = [x for m in made for x in syntax.lines(m, "  ", kept)]
    words, most, asked = one.words(), one.each * lanes, one.asked()
    if one.end[0] == "number":
        body = ["{", *new, "}"] if most - lanes < int(one.end[1]) <= most else []
        return Passes(text[:start] + "\n".join(body), words, most, asked) if body else None
    before, old = syntax.lines(("block", one.nodes[: one.first]), "  ", kept), text[start:].split("\n")
    if [x.strip() for x in old[1 : 1 + len(before)]] != [x.strip() for x in before]:
        return None
    end = spelled(one.end)
    test = f"  if ({end} > {most - lanes} && {end} <= {most}) {{" if one.each > 1 else f"  if ({end} <= {most}) {{"
    fast, slow = new[len(before) :], old[1 + len(before) : -1]
    body = ["{", *before, test, *(f"  {x}" for x in fast), "  } else {", *(f"  {x}" for x in slow), "  }", "}"]
    return Passes(text[:start] + "\n".join(body), words, most, asked)


class _Passes(Along):
    """each: elements of a lane. first: number of the first statement that is another one. own: registers of elements,
    said: of what the first lane stores."""

    def __init__(self, fn: Function, nodes: list[Node], lanes: int, values: Mapping[str, int]) -> None:
        super().__init__(fn, nodes, lanes, values)
        self.own: dict[str, tuple[str, Node]] = {}
        self.plain: set[str] = set()
        self.said: dict[str, tuple[str, int]] = {}
        self.base: dict[str, tuple[Node, list[Node]]] = {}
        self.end: Node = ("number", "0")
        self.first = self.each = 0

    def words(self) -> int:
        return len(self.own) * self.each + sum(turns for _, turns in self.said.values())

    def asked(self) -> tuple[str, ...]:
        """Arrays of elements that no pass loads whatever it finds."""
        return tuple(sorted({self.array(key) for text, (_, key) in self.own.items() if text not in self.plain}))

    def made(self, lengths: Mapping[str, float]) -> list[Node] | None:
        loops = [x for x in inside(self.whole) if self.along(x)]
        ends = {spelled(x[2][3]) for x in loops}
        if len(ends) != 1 or "" in self.stored:
            return None
        self.end = loops[0][2][3]
        self.first = next(n for n, x in enumerate(self.nodes) if _holds(x, loops))
        if self.restless():
            return None
        self.noted(loops)
        longest = max((lengths.get(self.array(key), 0.0) for _, key in self.own.values()), default=0.0)
        self.each = -int(-longest // self.lanes)
        if not 0 < len(self.own) * self.each <= MOST or self._taken():
            return None
        out = self.listed(self.nodes, None)
        out[self.first : self.first] = self.loaded(loops[0])
        return out

    def _taken(self) -> bool:
        """Whether the text has names that are to be made."""
        new = {EACH, *(put for put, _ in self.own.values()), *(put for put, _ in self.said.values())}
        return bool(new & {*names(self.whole), *declared(self.whole)})

    def noted(self, loops: Sequence[Node]) -> None:
        """The elements of a row that are loaded more than once, and those that the first lane stores and all load."""
        seen: dict[str, list[Node]] = {}
        for loop in loops:
            again = any(x[0] == "for" and x is not loop and _holds(x, [loop]) for x in inside(self.whole))
            tests = [x[1] for x in statements(loop[4]) if x[0] == "if"]
            self.plain |= self.elements(always([*statements(loop[4]), *tests]), loop).keys()
            for text, key in self.elements(inside(loop[4]), loop).items():
                seen.setdefault(text, []).extend([key] * (2 if again else 1))
        for text, keys in seen.items():
            if len(keys) > 1:
                self.own[text] = (f"{keys[0][1][1]}_own{len(self.own) or ''}", keys[0])
        for around in self.nodes:
            turns = self.turns(around) if _holds(around, loops) else 0
            for place, _ in self.stores(around) if turns else ():
                name = self.array(place)
                if self.loads(name) and self.one_place(name, place, around):
                    self.said[name] = f"{name}_said", turns

    def elements(self, nodes: Iterable[Node], loop: Node) -> dict[str, Node]:
        return {spelled(key): key for x in nodes if (key := self.element(x, loop)) is not None}

    def one_place(self, name: str, place: Node, loop: Node) -> bool:
        """Whether an array is stored to at one place a round, its index the round and what is the same for all, what is
        stored is made of names alone, and all that is loaded of it is a place like that."""
        counter: Node = ("name", loop[1][2][0][0])
        mine = [x for x in self.changes if x[2][0] != "name" and self.array(x[2]) == name]
        base = [x for x in terms(place[2]) if x != counter]
        if len(mine) != 1 or len(base) != len(list(terms(place[2]))) - 1 or mine[0][1] != "=":
            return False
        plain = all(x[0] in ("name", "number", "binary", "unary") for x in inside(mine[0][3]))
        self.base[name] = place[1], base
        return plain and all(self.round(name, x) is not None for x in self.loads(name))

    def round(self, name: str, place: Node) -> Node | None:
        """Which round's store a load reads."""
        array, base = self.base[name]
        rest = list(terms(place[2])) if place[0] == "index" and place[1] == array else []
        for one in base:
            if one not in rest:
                return None
            rest.remove(one)
        return rest[0] if len(rest) == 1 else None

    def loaded(self, loop: Node) -> list[Node]:
        """Registers, and the loads of what a lane keeps."""
        out: list[Node] = []
        loads: list[Node] = []
        counter: Node = ("name", loop[1][2][0][0])
        for put, key in self.own.values():
            out.append(("declare", self.kind(self.array(key)), [(put, "", [("number", str(self.each))], None)], False))
            load = replaced(key, lambda x: counter if x == ELEMENT else None)
            loads.append(("do", ("assign", "=", ("index", ("name", put), ELEMENT), load)))
        out += [("declare", self.kind(name), [(put, "", [("number", str(turns))], None)], False)
                for name, (put, turns) in self.said.items()]  # fmt: skip
        return [*out, *self.each_of(loop, loads)]

    def each_of(self, loop: Node, body: list[Node]) -> list[Node]:
        """A lane's elements one by one."""
        kind, ((name, _, _, start),) = loop[1][1:3]
        at: Node = ("binary", "+", start, ("binary", "*", ("number", str(self.lanes)), ELEMENT))
        whole: Node = ("binary", "<", ELEMENT, ("number", str(self.each - 1)))  # of which each lane has an element
        asked: Node = ("binary", "||", whole, loop[2]) if self.each > 1 else loop[2]
        inner: list[Node] = [("declare", kind, [(name, "", [], at)], False), ("if", asked, ("block", body),
                             ("block", []))]  # fmt: skip
        first: Node = ("declare", "int", [(EACH, "", [], ("number", "0"))], False)
        test: Node = ("binary", "<", ELEMENT, ("number", str(self.each)))
        step: Node = ("after", "+=", ELEMENT, ("number", 1))
        return [UNROLL, ("for", first, test, step, ("block", inner))]

    def listed(self, nodes: Sequence[Node], around: Node | None) -> list[Node]:
        out: list[Node] = []
        for one in nodes:
            out += self.statement(one, around)
        return out

    def statement(self, node: Node, around: Node | None) -> list[Node]:
        """around: the loop whose rounds the first lane stores something in."""
        if node[0] == "for":
            return self.loop(node, around)
        if node[0] == "if":
            stored = list(self.stores(("for", 0, 0, 0, node))) if around is not None else []
            said = [x for p, v in stored if self.array(p) in self.said for x in self.told(p, v)]
            then, other = (("block", self.listed(statements(x), around)) for x in node[2:4])
            return [*said, ("if", self.put(node[1]), then, other)]
        if node[0] == "block":
            return [("block", self.listed(node[1], around))]
        if node == ("meeting",) and not self.needed():
            return []
        return [self.put(node)]

    def loop(self, node: Node, around: Node | None) -> list[Node]:
        kept = self.kept(node) if self.along(node) else node[4]
        if kept != node[4]:
            return self.each_of(node, self.listed(statements(kept), around))
        mine = self.turns(node) and any(self.array(p) in self.said for p, _ in self.stores(node))
        inner: Node = ("block", self.listed(statements(node[4]), node if mine else around))
        # What is indexed by a loop's number lies in registers where the loop is unrolled.
        indexed = any(x[0] == "index" and self.array(x) in self.said for x in inside(node))
        halves = node[3][0] == "assign" and node[3][1] in (">>=", "/=", "*=", "<<=")
        return [*([UNROLL] if mine or indexed or halves else []), (*node[:4], inner)]

    def kept(self, loop: Node) -> Node:
        """A loop's body with registers for the elements that it loads."""

        def how(one: Node) -> Node | None:
            key = self.element(one, loop)
            put = self.own.get(spelled(key)) if key is not None else None
            return ("index", ("name", put[0]), ELEMENT) if put is not None else None

        return replaced(loop[4], how)

    def needed(self) -> bool:
        """Whether lanes still read from memory what others have stored."""
        return any(name not in self.said and self.loads(name) for name in self.stored)

    def told(self, place: Node, value: Node) -> list[Node]:
        """What the first lane stores, in all lanes' registers."""
        put = self.register(place)
        width = [("number", str(self.lanes))] if self.lanes < WARP else []
        from_first: Node = ("call", "__shfl_sync", [("unary", "~", ("number", "0u")), value, ("number", "0"), *width])
        return [("do", ("assign", "=", put, from_first if self.lanes > 1 else value))]

    def register(self, place: Node) -> Node:
        name = self.array(place)
        at = self.round(name, place)
        assert at is not None
        return ("index", ("name", self.said[name][0]), at)

    def put(self, node: Node) -> Node:
        """With registers for what the first lane has stored."""

        def how(one: Node) -> Node | None:
            if one[0] == "assign" and one[2][0] == "index" and self.array(one[2]) in self.said:
                return (*one[:3], self.register(one[2]))
            return self.register(one) if one[0] == "index" and self.array(one) in self.said else None

        return replaced(node, how)


def _holds(node: Node, loops: Sequence[Node]) -> bool:
    return any(x is one for x in inside(node) for one in loops)
