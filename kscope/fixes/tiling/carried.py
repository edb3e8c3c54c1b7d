"""What a thread hands on from one round of a loop to the next: names that a round reads before it has set them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.rows.syntax import inside, parts, root

JUMPS = ("return", "barrier", "meeting", "leave")


class Round:
    """A walk through one round, in its order. `changed`: names from outside it that it sets; `early`: of those that it
    reads before; `jumps`: how else it ends, or where it waits. arrays: of the kernel's own, threads' and blocks'."""

    def __init__(self, arrays: Collection[str]) -> None:
        self.arrays = arrays
        self.changed: set[str] = set()
        self.early: set[str] = set()
        self.jumps: set[str] = set()
        self.own: set[str] = set()
        self.within = 0

    def walk(self, node: Node, made: set[str]) -> set[str]:
        """Names that are set behind a statement, of those that are in front of it."""
        kind = node[0]
        if kind == "block":
            own, self.own = self.own, set(self.own)
            for one in node[1]:
                made = self.walk(one, made)
            self.own = own
        elif kind == "declare":
            for name, _, dims, value in node[2]:
                self._all([*dims, *([value] if value is not None else [])], made)
                self.own.add(name)
        elif kind == "if":
            self._reads(node[1], made)
            made = self.walk(node[2], set(made)) & self.walk(node[3], set(made))
        elif kind == "for":
            made = self._loop(node, made)
        elif kind == "switch":
            self._all([node[1]], made)
            self.within += 1
            for _, _, inside in node[2]:
                self.walk(("block", inside), set(made))
            self.within -= 1
        elif kind in JUMPS:
            if kind != "leave" or (node[1] == "break" and not self.within):
                self.jumps.add(kind)
        elif kind in ("do", "claim"):
            self._reads(node[1], made)
        else:
            raise Unplayable(kind)
        return made

    def _loop(self, node: Node, made: set[str]) -> set[str]:
        own, self.own = self.own, set(self.own)
        made = self.walk(node[1], made)
        self._reads(node[2], made)
        self.within += 1
        self.walk(node[4], set(made))
        self.within -= 1
        self._reads(node[3], set(made))
        self.own = own
        return made

    def _all(self, nodes: Iterable[Node], made: set[str]) -> None:
        for one in nodes:
            self._reads(one, made)

    def _reads(self, node: Node, made: set[str]) -> None:
        """Of an expression; what it sets is added to `made`."""
        kind = node[0]
        if kind == "name":
            self.early |= {node[1]} - self.own - made
        elif kind in ("assign", "after"):
            self._assigned(node, made)
        elif kind in ("choose", "binary") and (kind == "choose" or node[1] in ("&&", "||")):
            first, *others = node[1:] if kind == "choose" else node[2:]
            self._reads(first, made)
            for one in others:
                self._reads(one, set(made))
        elif kind == "address" and node[1][0] == "name":
            self.changed |= {node[1][1]} - self.own
            self._reads(node[1], made)
        elif kind == "call":
            self._all(node[2], made)
            if node[1].startswith("atomic") and node[2]:
                self._kept(node[2][0][1] if node[2][0][0] == "address" else node[2][0])
        else:
            self._all(parts(node), made)

    def _assigned(self, node: Node, made: set[str]) -> None:
        _, op, target, value = node
        self._reads(value, made)
        if target[0] == "name":
            if op != "=" or node[0] == "after":
                self._reads(target, made)
            self.changed |= {target[1]} - self.own
            made |= {target[1]} - self.own
            return
        self._reads(target, made)
        self._kept(target)

    def _kept(self, target: Node) -> None:
        """What is changed in a variable or an array of the kernel's own is there in the next round."""
        name = root(target)
        if name not in self.own and (name in self.arrays or target[0] == "member"):
            self.changed.add(name)
            self.early.add(name)


def effects(node: Node) -> bool:
    """Whether a statement leaves something in memory, or calls what may."""
    return any(
        (one[0] in ("assign", "after") and one[2][0] != "name")
        or (one[0] == "call" and (one[1].startswith("atomic") or any(x[0] == "address" for x in one[2])))
        for one in inside(node)
    )  # fmt: skip
