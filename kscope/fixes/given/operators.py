"""What operators give in a play: of numbers, of places that are moved, of numbers of two bytes in a word."""

from __future__ import annotations

from collections.abc import Collection

from kscope.fixes.given.c_types import WIDE, WORD
from kscope.fixes.given.functions import packed
from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.kinds import Pointer, Values, Vector
from kscope.fixes.given.places import Places
from kscope.fixes.given.whole_numbers import combined, counted, mixed
from kscope.model.lazily import np


class Operators(Places):
    """Values of expressions of operators. held: what an assignment puts together; unsigned: arrays of such words."""

    held: tuple[Values, Values]
    unsigned: Collection[str] = ()

    def joined(self, name: str, to: Values, value: Values) -> Values:
        found = super().joined(name, to, value)
        if name == "atomicAdd" and to.memory in self.unsigned:
            cells, _, place = self.place(to.memory, to.at)
            cells[place] &= (1 << WORD) - 1
        return found

    def _store(self, target: Node, value: Values, to: Pointer | None) -> None:
        raise NotImplementedError

    def _of_unary(self, node: Node) -> Values:
        one = self.value(node[2])
        known = {"!": lambda v: counted(np.asarray(v) == 0), "-": lambda v: -v, "~": lambda v: ~v, "+": lambda v: v}
        return known[node[1]](one)

    def _of_binary(self, node: Node) -> Values:
        _, op, left, right = node
        a = self.value(left)
        b = self._decided(op, a, right) if op in ("&&", "||") else self.value(right)
        self.pay(self.threads)
        return self._combined(op, a, b)

    def _decided(self, op: str, a: Values, right: Node) -> Values:
        """The right side only where the left one does not decide."""
        was = self.on
        self.on = was & ((np.asarray(a) != 0) == (op == "&&"))
        b = self.value(right) if self.on.any() else 0
        self.on = was
        return b

    def _combined(self, op: str, a: Values, b: Values) -> Values:
        if isinstance(b, Pointer) and op == "+":
            a, b = b, a
        if isinstance(a, Pointer) and not isinstance(b, (Pointer, Vector)) and op in "+-":
            return a.moved(b if op == "+" else -b)
        if op != "," and (isinstance(a, Vector) or isinstance(b, Vector)):
            return packed(op, a, b)
        if op == "/.":
            return self._parted(a, b)
        if self.real and op == "/" and "f" in (np.asarray(a).dtype.kind, np.asarray(b).dtype.kind):
            return a / b
        if op in ("/", "%") and np.ndim(a) and not self.every:
            a = np.where(self.on, a, 0)  # of those who are not here nothing is asked
        return combined(op, a, b)

    def _parted(self, a: Values, b: Values) -> Values:
        """A quotient of fractions: of whole numbers that stand for such is only known what it was made of."""
        if self.real:
            return np.true_divide(a, b)
        return mixed("/", [a, b])

    def before_point(self, node: Node) -> Values:
        """What a conversion to a whole number takes: a quotient of whole numbers in place of fractions has one."""
        if self.real or node[:2] != ("binary", "/."):
            return self.value(node)
        a, b = self.value(node[2]), self.value(node[3])
        if isinstance(a, (Pointer, Vector)) or isinstance(b, (Pointer, Vector)) or not np.all(b):
            raise Unplayable("a quotient")
        cut = np.abs(a) // np.abs(b)
        return np.where((np.asarray(a) < 0) != (np.asarray(b) < 0), -cut, cut)

    def _of_assign(self, node: Node) -> Values:
        return self._assigned(node)[1]

    def _of_after(self, node: Node) -> Values:
        return self._assigned(node)[0]

    def _assigned(self, node: Node) -> tuple[Values, Values]:
        """(what was there, what is there then) of a place that is looked for once. Behind its operator, its target and
        the right side a node may say what both are put together as."""
        _, op, target, right, *how = node
        value = self.value(right)
        to, before = self.spot(target), None
        if op != "=":
            before = self.value(target) if to is None else self.got(to)
            if how:
                self.held = before, value
                value = self.value(how[0])
            else:
                value = self._combined(op[:-1], before, value)
        self._store(target, value, to)
        return before, value

    def _of_held(self, node: Node) -> Values:
        return self.held[node[1]]

    def _of_to(self, node: Node) -> Values:
        """A number as a type of fewer bits has it."""
        _, bits, signed, inner = node
        value = self.value(inner)
        if isinstance(value, (Pointer, Vector)):
            return value
        if bits == 1:
            return counted(np.asarray(value) != 0)
        if np.asarray(value).dtype.kind == "f":
            value = np.trunc(value).astype(np.int64)
        if bits >= WIDE:
            return value
        half = 1 << bits - 1 if signed else 0
        return (value + half & (1 << bits) - 1) - half

    def _of_plain(self, node: Node) -> Values:
        """A number of 64 bits without a sign, of which no upper half is played."""
        value = self.value(node[1])
        if np.any(self.here(value) < 0):
            raise Unplayable("a large number")
        return value

    def _of_below(self, node: Node) -> Values:
        value = self.value(node[2])
        if np.any(self.here(value) >= node[1]):
            raise Unplayable("a long shift")
        return value
