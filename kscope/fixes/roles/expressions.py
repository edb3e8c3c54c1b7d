"""Expressions of a kernel's text for the lanes of one warp."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.source import SIZES
from kscope.fixes.roles.functions import computed, meant
from kscope.fixes.roles.lanes import Lanes, merged
from kscope.fixes.roles.texts import UNKNOWN
from kscope.fixes.roles.values import FAILED, MAPS, NEVER, TRIED, Failed, Named, Place, Tried
from kscope.model.lazily import np


class Expressions(Lanes):
    """What an expression of each kind is worth."""

    def _whole(self, node: Node) -> int:
        value = self.value(node)
        if not isinstance(value, int):
            raise Unplayable("a size")
        return value

    def value(self, node: Node) -> Any:
        self.pay()
        return getattr(self, f"_of_{node[0]}")(node)

    def _of_number(self, node: Node) -> Any:
        return node[1]

    def _of_list(self, node: Node) -> Any:
        return UNKNOWN

    def _of_name(self, node: Node) -> Any:
        if node[1] in self.taken:
            return UNKNOWN
        found = self.names[node[1]]
        found = found.names[found.name] if isinstance(found, Named) else found
        return UNKNOWN if found is NEVER else found

    def _of_unary(self, node: Node) -> Any:
        value = self.value(node[2])
        if isinstance(value, (Tried, Failed)):
            if node[1] == "!":
                return FAILED if isinstance(value, Tried) else TRIED
            raise Unplayable("a try that may fail")
        return computed(node[1], value)

    def _of_binary(self, node: Node) -> Any:
        _, op, left, right = node
        a = self.value(left)
        if op in ("&&", "||"):
            return self._decided(op, a, right)
        b = self.value(right)
        if isinstance(b, Place) and op == "+":
            a, b = b, a
        if isinstance(a, Place):
            if op not in "+-" or isinstance(b, Place):
                return UNKNOWN
            return a.moved(b if op == "+" else computed("-", b))
        return computed(op, a, b)

    def _decided(self, op: str, a: Any, right: Node) -> Any:
        test, was = self.truth(a), self.on
        if test is not None:
            self.on = was & (test == (op == "&&"))
        elif any(True for _ in calls(right)):
            raise Unplayable("a call that data decide")
        b = self.truth(self.value(right)) if self.on.any() else self.nobody
        self.on = was
        if test is None or b is None:
            return UNKNOWN
        return (test & b if op == "&&" else test | b).astype(np.int64)

    def _of_choose(self, node: Node) -> Any:
        test, was = self.truth(self.value(node[1])), self.on
        if test is None:
            self.maybe += 1
            found = [self.value(x) for x in node[2:4]]
            self.maybe -= 1
            return found[0] if isinstance(found[0], int) and found[0] == found[1] else UNKNOWN
        out = []
        for mask, side in ((test, node[2]), (~test, node[3])):
            self.on = was & mask
            if self.on.any():
                out.append((self.on, self.value(side)))
        self.on = was
        if len(out) == 1:
            return out[0][1]
        return merged(out[0][0], out[0][1], out[1][1])

    def _of_cast(self, node: Node) -> Any:
        _, kind, inner, stars = node
        value = self.value(inner)
        if stars:
            if not isinstance(value, Place):
                raise Unplayable("a number as a pointer")
            return structs.replace(value, size=SIZES.get(kind, 0) or value.size, dims=())
        return UNKNOWN if isinstance(value, Place) else meant(kind, value)

    def _of_address(self, node: Node) -> Any:
        if node[1][0] == "name" and f"{node[1][1]}#" in self.names and self.names[f"{node[1][1]}#"] in MAPS:
            return self.names[node[1][1]]
        if node[1][0] == "name" and not isinstance(self.names[node[1][1]], Place):
            self.own[len(self.own)] = None
            return Place(len(self.own) - 1, UNKNOWN, 4)  # of a variable, which is unknown
        return self.spot(node[1])

    def spot(self, node: Node) -> Place:
        """The place of an expression that stands for one."""
        if node[0] == "index":
            base, by = self.value(node[1]), self.value(node[2])
        elif node[0] == "deref":
            base, by = self.value(node[1]), 0
        elif node[0] == "member":
            return self.spot(node[1])
        elif node[0] == "name" and isinstance(self._of_name(node), Place):
            return self._of_name(node)  # type: ignore[no-any-return]
        else:
            raise Unplayable("a place")
        if not isinstance(base, Place):
            raise Unplayable("an index of a number")
        to = base.moved(by)
        return structs.replace(to, dims=base.dims[1:])

    def _of_index(self, node: Node) -> Any:
        to = self.spot(node)
        return to if to.dims else self.load(to)

    _of_deref = _of_index

    def _of_member(self, node: Node) -> Any:
        if node[1][0] == "name" and f"{node[1][1]}.{node[2]}" in self.names:
            return self.names[f"{node[1][1]}.{node[2]}"]
        self.value(node[1])
        return UNKNOWN

    def _of_assign(self, node: Node) -> Any:
        _, op, target, right = node
        value = self.value(right)
        name = target[1] if target[0] == "name" else ""
        if name and not (isinstance(self.names[name], Place) and self.names[name].dims):
            value = value if op == "=" else self._of_binary(("binary", op[:-1], target, ("value", value)))
            self._set(name, value)
            return value
        if target[0] == "member" and target[1][0] == "name" and not isinstance(self.names[target[1][1]], Place):
            self._set(target[1][1], UNKNOWN)
            return value
        to = self.spot(target)
        if op != "=":
            value = self._of_binary(("binary", op[:-1], ("value", self.load(to)), ("value", value)))
        self.store(to, value)
        return value

    def _of_value(self, node: Node) -> Any:
        return node[1]

    def _set(self, name: str, value: Any) -> None:
        names: Any = self.names
        old = names[name]
        if isinstance(old, Named):
            names, name = old.names, old.name
            old = names[name]
        if isinstance(old, Place) and isinstance(value, Place):
            value = structs.replace(value, size=old.size)
        if f"{name}#" in names and not isinstance(value, (Place, Tried, Failed)):
            value = meant(names[f"{name}#"], value)
        names[name] = self._mixed(value, old)

    def _of_after(self, node: Node) -> Any:
        before = self.value(node[2])
        self._of_assign(node)
        return before

    def _reference(self, node: Node) -> Any:
        if node[0] == "name":
            found = self.names[node[1]]
            return found if isinstance(found, (Named, Place)) else Named(self.names, node[1])
        to = self.spot(node)
        if not isinstance(to.space, int):
            raise Unplayable("a reference into memory")
        self.own[to.space] = None  # whatever becomes of it
        return Named({"": UNKNOWN}, "")


def calls(node: Any) -> Any:
    if isinstance(node, tuple) and node and node[0] == "call":
        yield node
    if isinstance(node, (tuple, list)):
        for part in node:
            yield from calls(part)
