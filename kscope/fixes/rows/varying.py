"""What a text's names are: another thing in another thread or the same in all, numbers of a thread each in shared
memory, numbers of the launch."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kscope.fixes.given.grammar import Node
from kscope.fixes.rows import syntax
from kscope.fixes.rows.syntax import inside, names, replaced
from kscope.fixes.rows.trees import THREAD, ZERO, Fold, first_thread, fold, places


class Form(Struct, frozen=True):
    """`lanes` for the `block` threads of a row, `rows` a block. each: threads that a lane stands for; beside: whether
    they are neighbours. wide: names whose value the block's width is. values: what the template's names stand for.
    handed: whether threads could hand something on through global memory. quads: whether lanes take four neighbours
    each, of arrays of `pointers`."""

    block: int
    lanes: int
    rows: int
    each: int
    wide: frozenset[str]
    values: Mapping[str, int]
    handed: bool
    pointers: Mapping[str, str]
    quads: bool = False
    beside: bool = False


OVER = "_over"


class Unclear(Exception):
    """A text that is none of these."""


class Names:
    """Of a body, for a form that it is to have."""

    def __init__(self, body: Node, form: Form) -> None:
        self.body, self.form = body, form
        every = [one for one in inside(body) if one[0] == "declare"]
        made = [each for one in every if not one[3] for each in one[2]]
        self.kinds = {n: one[1] for one in every for n, *_ in one[2]}
        self.shared = {n: dims for one in every if one[3] for n, _, dims, _ in one[2]}
        self.written = frozenset(syntax.root(one[2]) for one in inside(body) if one[0] in ("assign", "after"))
        self._placed(made)
        self.own, self.folds = self._folded()
        self.counts = names(body)
        self.varying = self._varying(made)
        self.read = self._read(body)
        down = not any(one.up for one in self.folds.values())
        self.exact = form.each > 1 and down and ("number", "+") not in inside(body)  # of what is joined
        self.over: set[str] = set()
        self._check()

    def _placed(self, made: list[tuple[str, str, list[Node], Node | None]]) -> None:
        """Names of a thread's number, of pointers, of arrays."""
        self.alias = frozenset(n for n, star, _, v in made if v == THREAD and not star and n not in self.written)
        self.leads = {n: v for n, star, _, v in made if star}
        self.local = {n for n, _, dims, _ in made if dims}

    def _folded(self) -> tuple[frozenset[str], dict[int, Fold]]:
        """Arrays that are a number of each thread, and the loops that fold them."""
        found = {id(one): fold(one, self.alias, self.width, self.form.block) for one in inside(self.body)}
        folds = {at: one for at, one in found.items() if one is not None}
        kinds = {n: self.kinds[n] for n, dims in self.shared.items() if len(dims) == 1}
        own = places(self.body, kinds, self.alias, folds)
        return own, {at: one for at, one in folds.items() if set(one.arrays) <= own}

    def _check(self) -> None:
        twice = {n for n, count in syntax.declared(self.body).items() if count > 1}
        if twice & (self.own | set(self.shared)) or any(one[0] == "address" for one in inside(self.body)):
            raise Unclear("names")
        if not self.folds and not any(one[0] == "reduced" for one in inside(self.body)):
            raise Unclear("no fold")

    def width(self, node: Node) -> int | None:
        """The value of a number that is one, or half of one."""
        if node[0] == "binary" and node[1] in ("/", ">>"):
            one, by = self.width(node[2]), self.width(node[3])
            return None if one is None or not by else one // by if node[1] == "/" else one >> by
        if node[0] == "number":
            word = str(node[1]).rstrip("uUlL")
            return int(word) if word.isdigit() else None
        if node == ("name", "blockDim.x") or (node[0] == "name" and node[1] in self.form.wide):
            return self.form.block
        return self.form.values.get(node[1]) if node[0] == "name" else None

    def _varying(self, made: list[tuple[str, str, list[Node], Node | None]]) -> frozenset[str]:
        """Names of what may be another thing in another thread."""
        found = {"threadIdx.x", *self.alias}
        while True:
            more = {n for n, _, _, v in made if v is not None and v[0] != "reduced" and found & set(names(v))}
            more |= self._assigned(self.body, found, asked=False)
            if more <= found:
                return frozenset(found)
            found |= more

    def _assigned(self, node: Node, found: set[str], *, asked: bool) -> set[str]:
        """Local names that are written with what varies, or where only some threads come."""
        out: set[str] = set()
        if id(node) in self.folds:
            return out
        if node[0] in ("assign", "after"):
            name = syntax.root(node[2])
            if (asked or found & set(names(*node[2:]))) and (node[2][0] == "name" or name in self.local):
                out.add(name)
        if node[0] == "if":
            asked = asked or bool(found & set(names(node[1])))
        if node[0] == "for":
            asked = asked or bool(found & set(names(node[2], node[3])))
        for one in syntax.parts(node):
            out |= self._assigned(one, found, asked=asked)
        return out

    def _read(self, node: Node) -> set[str]:
        """Arrays whose first element others than the first thread read."""
        if node[0] == "if" and first_thread(node[1], self.alias):
            return self._read(node[3])
        if node[0] == "index" and node[2] in ZERO:
            return {syntax.root(node)}
        return {n for one in syntax.parts(node) for n in self._read(one)}

    def varies(self, *nodes: Node) -> bool:
        return bool(self.varying & set(names(*nodes)))

    def by_reciprocals(self, made: list[Node]) -> tuple[list[Node], list[str]]:
        """Statements that a lane runs for several threads, with products by a reciprocal where each of them divides by
        what all share, and the names of that: where sums have another order, last places are other ones anyhow."""
        found: set[str] = set()

        def how(one: Node) -> Node | None:
            name = one[3][1] if one[0] == "binary" and one[1] == "/" and one[3][0] == "name" else ""
            if not name or self.kinds.get(name) != "float" or name in self.varying or name in apart:
                return None
            found.add(name)
            return ("binary", "*", replaced(one[2], how), ("name", name + OVER))

        apart = {*syntax.declared(*made), *self.shared, *self.local, *self.leads}
        new = made if self.exact else [replaced(one, how) for one in made]
        self.over |= found
        return new, sorted(found)

    def idle(self, name: str, value: Node | None) -> bool:
        """Whether nobody asks for a name, and its value does nothing."""
        does = value is None or any(one[0] in ("call", "assign", "after") for one in inside(value))
        return not self.counts[name] and not does

    def alike(self, node: Node) -> set[str]:
        """Names that are the same for every row."""
        own = {n for one in inside(node[1]) if one[0] == "declare" for n, *_ in one[2]}
        return {*self.form.values, *self.form.wide, "blockDim.x", *self.numbers(), *own}

    def numbers(self) -> set[str]:
        return set(self.counts) - set(self.kinds) - self.written - {"blockIdx.x", "threadIdx.x"}

    def stores(self, node: Node) -> bool:
        """Whether it writes to memory, or to an element of each thread."""
        return any(one[0] in ("assign", "after") and one[2][0] != "name" for one in inside(node))

    def grown(self, node: Node) -> bool:
        """Whether loops must unroll for an array to lie in registers."""
        return any(one[0] == "index" and syntax.root(one) in self.local for one in inside(node))

    def kept(self) -> frozenset[str]:
        return frozenset(set(self.kinds) - self.written)


def reduced(node: Node) -> bool:
    return any(value is not None and value[0] == "reduced" for *_, value in node[2])
