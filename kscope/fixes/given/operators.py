"""What operators give in a play: of numbers, of places that are moved, of numbers of two bytes in a word."""

from __future__ import annotations

from kscope.fixes.given.functions import packed
from kscope.fixes.given.grammar import Node
from kscope.fixes.given.kinds import Pointer, Values, Vector
from kscope.fixes.given.places import Places
from kscope.fixes.given.whole_numbers import combined, counted
from kscope.model.lazily import np


class Operators(Places):
    """Values of expressions of operators."""

    def _of_unary(self, node: Node) -> Values:
        one = self.value(node[2])
        known = {"!": lambda v: np.asarray(v) == 0, "-": lambda v: -v, "~": lambda v: ~v, "+": lambda v: v}
        return known[node[1]](one if node[1] == "!" else counted(one))

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
        if self.real and op == "/" and "f" in (np.asarray(a).dtype.kind, np.asarray(b).dtype.kind):
            return a / b
        if op in "/%" and np.ndim(a) and not self.every:
            a = np.where(self.on, a, 0)  # of those who are not here nothing is asked
        return combined(op, a, b)
