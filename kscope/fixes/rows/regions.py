"""Statements by which warps of a block join a value of each thread, by shuffles first and over shared memory then: what
they come to, as a play of them alone shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.lanes_played import SHUFFLES
from kscope.fixes.rows import syntax
from kscope.fixes.rows.inlined import HOWS
from kscope.fixes.rows.syntax import inside, names, replaced, statements
from kscope.model.lazily import np

GROUP = ("barrier",)
LONGEST = 12  # statements of one of them (judged)
Put = Callable[[Node], Node | None]
RESULT = ("name", "result_n")
HERE = "blockIdx.x * blockDim.x + threadIdx.x"


def joined(body: Node, block: int, wide: Mapping[str, int], *, stores: bool = False) -> Node:
    """The body with what such statements come to in their place. wide: what names of the file and the template are.
    stores: whether they may begin with a store to shared memory."""
    return ("block", _Regions(body, block, wide, stores=stores).listed(statements(body)))


def shuffling(*nodes: Node) -> bool:
    return any(one[0] == "call" and one[1] in SHUFFLES for node in nodes for one in inside(node))


def changed(*nodes: Node) -> set[str]:
    """Names that statements write to, or to elements of."""
    return {syntax.root(one[2]) for node in nodes for one in inside(node) if one[0] in ("assign", "after")}


class _Regions:
    def __init__(self, body: Node, block: int, wide: Mapping[str, int], *, stores: bool) -> None:
        self.body, self.block, self.wide, self.count, self.stores = body, block, wide, 0, stores
        every = [one for one in inside(body) if one[0] == "declare"]
        self.kinds = {n: one[1] for one in every for n, star, dims, _ in one[2] if not star and not dims}
        self.shared = {n: ("declare", one[1], [(n, star, dims, None)], True)
                       for one in every if one[3] for n, star, dims, _ in one[2]}  # fmt: skip
        self.places = self._places(every)

    def _places(self, every: Sequence[Node]) -> list[Node]:
        """Declarations of what follows from a thread's number alone."""
        known, out = {"threadIdx.x", "blockDim.x", *self.wide}, list[Node]()
        written = changed(self.body)
        for one in every:
            for name, star, dims, value in one[2]:
                whole = value is not None and not star and not dims and not any(
                    x[0] in ("call", "index", "reduced") for x in inside(value))  # fmt: skip
                if whole and set(names(value)) <= known and names(value) and name not in written:
                    known.add(name)
                    out.append(("declare", one[1], [(name, "", [], value)], False))
        return out

    def listed(self, nodes: list[Node]) -> list[Node]:
        out: list[Node] = []
        at = 0
        while at < len(nodes):
            value = self.begun(nodes[at])
            found = self.region(nodes, at, value) if value else None
            if found is not None:
                made, at, put = found
                out += made
                nodes = [*nodes[:at], *(replaced(one, put) for one in nodes[at:])] if put else nodes
                continue
            node = nodes[at]
            if node[0] == "for" and (self.stores or shuffling(node)) and GROUP in inside(node):
                node = (*node[:4], ("block", self.listed(statements(node[4]))))
            out.append(node)
            at += 1
        return out

    def begun(self, node: Node) -> str:
        """The name whose values a statement begins to join; "" for any other statement."""
        if self.stores and node[0] == "do" and node[1][:2] == ("assign", "=") and node[1][3][0] == "name":
            into, value = node[1][2], node[1][3][1]
            return value if into[0] == "index" and syntax.root(into) in self.shared and value in self.kinds else ""
        if not shuffling(node):
            return ""
        steps = {n for one in inside(node) if one[0] == "for" for n in changed(one[3])}
        own = (changed(node) & set(self.kinds)) - steps - set(syntax.declared(node)) - set(self.shared)
        return own.pop() if len(own) == 1 else ""

    def region(self, nodes: list[Node], at: int, value: str) -> tuple[list[Node], int, Put | None] | None:
        """(what is there instead, where it ends, what else becomes another thing behind it)."""
        for end in range(at + 2, min(len(nodes), at + LONGEST) + 1):
            part, behind = nodes[at:end], nodes[end:]
            if not any(GROUP in inside(one) for one in part):
                continue
            stored = self.stored(part, value, behind)
            if stored is not None:
                last, made = stored
                how = self.played(_without(part, last, RESULT, made), value, RESULT)
                if how:
                    return self.put_stored(value, how, stored, end)
                continue
            for out in self.results(part, behind):
                bare, last = self.last(part, value, out)
                how = self.played(bare, value, out)
                if how:
                    return self.put(value, how, (out, last), part, end, behind)
        return None

    def stored(self, part: list[Node], value: str, behind: list[Node]) -> tuple[Node, str] | None:
        """The only store to global memory, and the value, or what it was joined in, that it is made of, where nothing
        else is used behind it."""
        every = [one for node in part for one in inside(node) if one[0] in ("assign", "after") and one[2][0] == "index"]
        found = [one for one in every if syntax.root(one[2]) not in self.shared]
        if len(found) != 1 or found[0][0] != "assign" or found[0][1] != "=":
            return None
        mine = [n for n in names(found[0][3]) if n in {value, *changed(*part), *syntax.declared(*part)}]
        apart = {"threadIdx.x", *self.shared, *(one[2][0][0] for one in self.places)} & set(names(found[0]))
        return None if apart or len(mine) != 1 or self.results(part, behind) else (found[0], mine[0])

    def put_stored(
        self, value: str, how: str, stored: tuple[Node, str], end: int
    ) -> tuple[list[Node], int, Put | None]:  # fmt: skip
        """What is joined, and its store by the first thread."""
        made, end, _ = self.put(value, how, (("name", value), ("name", value)), [], end, [])
        last, fresh = ("name", stored[1]), ("name", made[0][2][0][0])
        store = replaced(stored[0], lambda one: fresh if one == last else None)
        first = ("binary", "==", ("name", "threadIdx.x"), ("number", "0"))
        return [*made, ("if", first, ("do", store), ("block", []))], end, None

    def results(self, part: list[Node], behind: list[Node]) -> list[Node]:
        """What could be the result: the only name, or the only place of a shared array, that is used behind it."""
        used, here = names(*behind), syntax.declared(*(one for one in part if one[0] == "declare"))
        made = (changed(*part) | set(here)) - (set(syntax.declared(*part)) - set(here))  # no loop's own number
        local = [n for n in made - set(self.shared) if used[n] and n in self.kinds]
        if local:
            return [("name", local[0])] if len(local) == 1 else []
        scalars: list[Node] = [("name", n) for n in made & set(self.shared) if used[n] and n in self.kinds]
        places = self.shared_places(made, [one for node in behind for one in inside(node)])
        return [*places, *scalars] if len(places) + len(scalars) == 1 else []

    def shared_places(self, made: set[str], every: list[Node]) -> list[Node]:
        """Those of arrays that are read, or the expression that all of them are in and nothing else is."""
        found = {syntax.spelled(one): one for one in every if one[0] == "index" and syntax.root(one) in made}
        places = list(found.values())
        if len(places) < 2:
            return places if all(one[2][0] == "number" for one in places) else []
        wanted = sum((names(one) for one in places), Counter[str]())
        return [one for one in every if one[0] in ("binary", "call") and names(one) == wanted][:1]

    def last(self, part: list[Node], value: str, out: Node) -> tuple[list[Node], Node]:
        """The statements with the joined value itself put where the result lies in shared memory, and what of it is put
        there otherwise."""
        if out[0] not in ("index", "name") or syntax.root(out) not in self.shared:
            return part, ("name", value)
        found = [one for node in part for one in inside(node) if one[0] == "assign" and one[2] == out]
        apart = {*self.kinds, *self.shared, "threadIdx.x", "blockIdx.x"} - {value}
        if len(found) != 1 or found[0][1] != "=" or not names(found[0][3])[value] or apart & set(names(found[0][3])):
            return part, ("name", value)
        return _without(part, found[0], out, value), found[0][3]

    def played(self, part: list[Node], value: str, out: Node) -> str:
        """How the result comes of the values of all threads, in the first one at least; "" where it does not."""
        from kscope.fixes.given.played import Rules, play
        from kscope.fixes.rows.compared import arrayed

        used = names(*part)
        shared = [node for name, node in self.shared.items() if used[name]]
        own = set(syntax.declared(*part))
        before = [one for one in self.places if one[2][0][0] not in own]
        taken: Node = ("declare", self.kinds[value], [(value, "", [], ("name", "taken_n"))], False)
        result: Node = ("declare", self.kinds[value], [(RESULT[1], "", [], ("number", "0"))], False)
        given: Node = ("do", ("assign", "=", ("name", "joined_n"), out))
        whole = [*before, *shared, taken, result, *part, given]
        text = "\n".join(["{", *syntax.lines(("block", whole), ""), "}"])
        text = text.replace("taken_n", f"taken_n[{HERE}]").replace("joined_n", f"joined_n[{HERE}]")
        values = np.random.default_rng(self.block).integers(-999, 999, 2 * self.block)
        memory = {"taken_n": values, "joined_n": np.zeros_like(values)}
        try:
            play(arrayed(text), (2, 1), (self.block, 1), memory, {"warpSize": 32, **self.wide}, Rules(races=True))
        except Unplayable:
            return ""
        results, rows = memory["joined_n"].reshape(2, self.block)[:, 0], values.reshape(2, self.block)
        return next((how for how, of in HOWS.items() if (getattr(np, of)(rows, axis=1) == results).all()), "")

    def put(
        self, value: str, how: str, result: tuple[Node, Node], part: list[Node], end: int, behind: list[Node]
    ) -> tuple[list[Node], int, Put | None]:  # fmt: skip
        out, last = result
        name, taken = syntax.root(out), {*names(self.body), *syntax.declared(self.body)}
        self.count += 1
        while {f"{one}_all{self.count if self.count > 1 else ''}" for one in (value, name)} & taken:
            self.count += 1
        number = self.count if self.count > 1 else ""
        fresh: Node = ("name", f"{value}_all{number}")
        join: Node = ("reduced", ("number", how), ("name", value))
        made: list[Node] = [("declare", self.kinds[value], [(fresh[1], "", [], join)], False)]
        if last != ("name", value):
            made.append(("declare", self.kinds[name], [(f"{name}_all{number}", "", [], replaced(
                last, lambda one: fresh if one == ("name", value) else None))], False))  # fmt: skip
            fresh = ("name", f"{name}_all{number}")
        if out[0] != "name" or name in self.shared or name not in changed(*behind):
            return made, end, lambda one: fresh if one == out else None
        if name in syntax.declared(*part):
            return [*made, ("declare", self.kinds[name], [(name, "", [], fresh)], False)], end, None
        return [*made, ("do", ("assign", "=", out, fresh))], end, None


def _without(part: list[Node], made: Node, out: Node, value: str) -> list[Node]:
    """Statements with the joined value itself put where something is made of it."""
    put = ("assign", "=", out, ("name", value))
    return [replaced(one, lambda x: put if x is made else None) for one in part]
