"""Conversions of C++ put into the tree of a text that is played: an unsigned number begins anew at zero, a char is cut
off, a fraction that becomes an int loses what is behind its point. Numbers of a play have no types of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kscope.fixes.given.c_types import (
    BOOL,
    FLOAT,
    INT,
    SIZE,
    UNSIGNED,
    WIDE,
    WORD,
    Kind,
    Number,
    Parts,
    To,
    Whole,
    common,
    named,
    promoted,
)
from kscope.fixes.given.grammar import Node
from kscope.fixes.given.kinds import ATOMICS, MADE
from kscope.fixes.given.lanes_played import SHUFFLES
from kscope.fixes.given.whole_numbers import REAL

Typed = tuple[Node, Kind]
Functions = Mapping[str, tuple[Sequence[Kind], Kind]]
_COMPARED = ("<", ">", "<=", ">=", "==", "!=")
_GROWING = ("+", "-", "*")
_FRACTIONS = {*REAL, "fmaxf", "fminf", "fabsf", "fmaf", "fmax", "fmin", "__fmaf_rn", "__fadd_rn", "__fsub_rn",
              "__fmul_rn"}  # fmt: skip
_GIVE: Mapping[str, Kind] = {
    "__ballot_sync": UNSIGNED, "__popc": INT, "__syncthreads_count": INT, "__float_as_int": INT, "__half2float": FLOAT,
    "__float_as_uint": UNSIGNED, "__int_as_float": FLOAT, "__uint_as_float": FLOAT, "__bfloat162float": FLOAT,
    **dict.fromkeys(_FRACTIONS, FLOAT),
}  # fmt: skip
_LOADS = ("__ldg", "__ldcs", "__ldcg", "__ldca", "__ldlu")
OLD, RIGHT = ("held", 0), ("held", 1)
"""What stands at the place of an assignment, and what is put together with it."""


class Conversions:
    """names: types of those around. real: whether fractions are played as what they are. functions: types of their
    parameters, and of what they give."""

    def __init__(
        self, names: Mapping[str, Kind], *, real: bool, functions: Functions
    ) -> None:
        self.names, self.real, self.functions = dict(names), real, functions
        self.returns: Kind = None
        self.unsigned = {name for name, kind in names.items() if kind == To(UNSIGNED)}

    def statement(self, node: Node) -> Node:
        known = getattr(self, f"_do_{node[0]}", None)
        return known(node) if known is not None else node

    def _within(self, nodes: Sequence[Node]) -> list[Node]:
        before = dict(self.names)
        made = [self.statement(one) for one in nodes]
        self.names = before
        return made

    def _do_block(self, node: Node) -> Node:
        return "block", self._within(node[1])

    def _do_for(self, node: Node) -> Node:
        before = dict(self.names)
        first = self.statement(node[1])
        made = "for", first, self.of(node[2])[0], self.of(node[3])[0], self.statement(node[4])
        self.names = before
        return made

    def _do_if(self, node: Node) -> Node:
        return "if", self.of(node[1])[0], self.statement(node[2]), self.statement(node[3])

    def _do_switch(self, node: Node) -> Node:
        before, value = dict(self.names), self.of(node[1])[0]
        cases = [([self.of(x)[0] for x in labels], other, [self.statement(one) for one in inside])
                 for labels, other, inside in node[2]]  # fmt: skip
        self.names = before
        return "switch", value, cases

    def _do_return(self, node: Node) -> Node:
        return node if node[1] is None else ("return", self.become(*self.of(node[1]), self.returns))

    def _do_do(self, node: Node) -> Node:
        return "do", self.of(node[1])[0]

    def _do_claim(self, node: Node) -> Node:
        return "claim", self.of(node[1])[0]

    def _do_declare(self, node: Node) -> Node:
        made = []
        for name, star, dims, value in node[2]:
            kind: Kind = named(node[1])
            put, found = self.of(value) if value is not None else (None, None)
            if node[1].split()[-1] == "auto":
                kind = found.kind if star == "*" and isinstance(found, To) else found
            elif put is not None and not star:
                inner = kind.kind if isinstance(kind, Parts) and put[0] == "list" else kind
                listed = [self.of(x) for x in value[1]] if put[0] == "list" else []
                put = ("list", [self.become(*x, inner) for x in listed]) if listed else self.become(put, found, kind)
            lengths = [self.of(d)[0] for d in dims]
            for _ in (*dims, *("*" if star == "*" else "")):
                kind = To(kind)
            self.unsigned |= {f"[{name}]"} if dims and named(node[1]) == UNSIGNED else set()
            self.names[name] = kind
            made.append((name, star, lengths, put))
        return "declare", node[1], made, node[3]

    def of(self, node: Node) -> Typed:
        """An expression with its conversions, and its type."""
        known = getattr(self, f"_of_{node[0]}", None)
        return known(node) if known is not None else (node, None)

    def become(self, node: Node, was: Kind, kind: Kind) -> Node:
        """A number as one of another type."""
        if kind is None or was == kind or isinstance(kind, (To, Parts)) or isinstance(was, (To, Parts)):
            return node
        number = node[1] if node[0] == "number" and isinstance(node[1], int) else None
        if kind == FLOAT:
            return self._fraction(node, was, number)
        if isinstance(was, Whole) and (kind.holds(was) or (kind.bits == WIDE and kind != BOOL)):
            return node
        if number is not None and kind.has(number):
            return node
        known = isinstance(was, Whole) or self.real or kind == BOOL
        return ("to", kind.bits, kind.signed, node) if known else node

    def _fraction(self, node: Node, was: Kind, number: int | None) -> Node:
        if number is not None:
            return ("number", float(number)) if self.real else node
        made = ("plain", node) if was == SIZE else node
        return ("cast", "float", made, 0) if self.real and isinstance(was, Whole) else made

    def _plain(self, node: Node, was: Kind, kind: Kind) -> Node:
        """An operand whose size counts: of 64 bits without a sign none may be that large."""
        node = self.become(node, was, kind)
        fits = (node[0] == "number" and node[1] >= 0) or (isinstance(was, Whole) and not was.signed and was.bits < WIDE)
        return ("plain", node) if kind == SIZE and not fits else node

    def _of_number(self, node: Node) -> Typed:
        n = node[1]
        kind = n.kind if isinstance(n, Number) else INT if isinstance(n, int) else FLOAT
        return ("number", int(n) if isinstance(n, int) else float(n)), kind

    def _of_name(self, node: Node) -> Typed:
        return node, UNSIGNED if "." in node[1] else self.names.get(node[1])

    def _of_index(self, node: Node) -> Typed:
        base, kind = self.of(node[1])
        return ("index", base, self.of(node[2])[0]), kind.kind if isinstance(kind, To) else None

    def _of_deref(self, node: Node) -> Typed:
        base, kind = self.of(node[1])
        return ("deref", base), kind.kind if isinstance(kind, To) else None

    def _of_address(self, node: Node) -> Typed:
        base, kind = self.of(node[1])
        return ("address", base), To(kind)

    def _of_member(self, node: Node) -> Typed:
        base, kind = self.of(node[1])
        return ("member", base, node[2]), kind.kind if isinstance(kind, Parts) else None

    def _of_unary(self, node: Node) -> Typed:
        inner, kind = self.of(node[2])
        if node[1] == "!":
            return ("unary", "!", inner), BOOL
        wide = promoted(kind)
        made = ("unary", node[1], inner)
        return (made if node[1] == "+" else self._cut(made, wide)), wide

    def _cut(self, node: Node, kind: Kind) -> Node:
        return ("to", WORD, False, node) if kind == UNSIGNED else node

    def _of_binary(self, node: Node) -> Typed:
        _, op, left, right = node
        return self._joined(op, self.of(left), self.of(right))

    def _joined(self, op: str, left: Typed, right: Typed) -> Typed:
        (a, one), (b, other) = left, right
        if op in (",", "&&", "||"):
            return ("binary", op, a, b), other if op == "," else BOOL
        if op in ("<<", ">>"):
            return self._shifted(op, left, right)
        kind = common(one, other)
        if op in _COMPARED:
            return ("binary", op, self._plain(a, one, kind), self._plain(b, other, kind)), BOOL
        if isinstance(one, To) or isinstance(other, To):
            return ("binary", op, a, b), one if isinstance(one, To) else other
        if kind == FLOAT:
            return ("binary", "/." if op == "/" else op, a, b), FLOAT
        if op in "/%":
            return ("binary", op, self._plain(a, one, kind), self._plain(b, other, kind)), kind
        made = ("binary", op, self.become(a, one, kind), self.become(b, other, kind))
        small = op != "-" and _of_the_launch(a) and _of_the_launch(b)
        return (self._cut(made, kind) if op in _GROWING and not small else made), kind

    def _shifted(self, op: str, left: Typed, right: Typed) -> Typed:
        kind, by = promoted(left[1]), right[0]
        if not isinstance(kind, Whole):
            return ("binary", op, left[0], by), None
        if not (by[0] == "number" and by[1] < kind.bits):
            by = ("below", kind.bits, by)
        made = ("binary", op, self._plain(left[0], left[1], kind if op == ">>" else None), by)
        return (("to", WORD, kind.signed, made) if op == "<<" and kind.bits == WORD else made), kind

    def _of_cast(self, node: Node) -> Typed:
        _, text, inner, stars = node
        made, was = self.of(inner)
        kind = named(text)
        if stars:
            return ("cast", text, made, stars), To(kind)
        if (isinstance(was, Whole) and isinstance(kind, Whole)) or (kind == BOOL and was == FLOAT):
            return self.become(made, was, kind), kind
        whole = isinstance(kind, Whole) and self.real
        cast = ("cast", text, ("plain", made) if was == SIZE else made, 0)
        return (("to", kind.bits, kind.signed, cast) if whole else cast), kind

    def _of_assign(self, node: Node) -> Typed:
        head, op, target, right = node
        (to, kind), (value, found) = self.of(target), self.of(right)
        if op == "=":
            return (head, op, to, self.become(value, found, kind)), kind
        made, whole = self._joined(op[:-1], (OLD, kind), (RIGHT, found))
        made = self.become(made, whole, kind)
        same = made == ("binary", op[:-1], OLD, RIGHT)
        return (head, op, to, value) if same else (head, op, to, value, made), kind

    _of_after = _of_assign

    def _of_choose(self, node: Node) -> Typed:
        (a, one), (b, other) = self.of(node[2]), self.of(node[3])
        kind = common(one, other) if one != other else one
        return ("choose", self.of(node[1])[0], self.become(a, one, kind), self.become(b, other, kind)), kind

    def _of_list(self, node: Node) -> Typed:
        return ("list", [self.of(x)[0] for x in node[1]]), None

    def _of_call(self, node: Node) -> Typed:
        name, given = node[1], [self.of(x) for x in node[2]]
        kinds, gives = self._takes(name, [kind for _, kind in given])
        compared = name in ("min", "max")
        made = [self._plain(x, was, kind) if compared else self.become(x, was, kind)
                for (x, was), kind in zip(given, [*kinds, *[None] * len(given)], strict=False)]  # fmt: skip
        return ("call", name, made), gives

    def _takes(self, name: str, given: Sequence[Kind]) -> tuple[Sequence[Kind], Kind]:
        """Types of a function's parameters, and of what it gives."""
        first = given[0] if given else None
        if name in self.functions:
            return self.functions[name]
        if name in ("min", "max") and len(given) == 2:
            kind = common(*given)
            return (kind, kind), kind
        if name in MADE:
            kind = named(name[5:])
            return (kind.kind,) * len(given), kind
        if name in SHUFFLES and len(given) > 1:
            return (), given[1]
        if name in _LOADS or name in ATOMICS:
            inner = first.kind if isinstance(first, To) else None
            return (first, inner), inner
        if name in _FRACTIONS:
            return (FLOAT,) * len(given), FLOAT
        return ((UNSIGNED,) if name == "__popc" else ()), _GIVE.get(name)


def _of_the_launch(node: Node) -> bool:
    """Whether a number is made of sizes and numbers of the launch alone, whose sums and products are small."""
    if node[0] == "binary":
        return node[1] in ("+", "*") and _of_the_launch(node[2]) and _of_the_launch(node[3])
    return (node[0] == "name" and "." in node[1]) or (node[0] == "number" and isinstance(node[1], int))


def converted(body: Node, names: Mapping[str, Any], functions: Functions, *, real: bool) -> tuple[Node, set[str]]:
    """A kernel's body with its conversions, and names of the arrays whose sums begin anew at zero."""
    one = Conversions(names, real=real, functions=functions)
    return one.statement(body), one.unsigned


def of_function(body: Node, names: Mapping[str, Any], gives: Kind, functions: Functions, *, real: bool) -> Node:
    """The same of a function, which gives one value."""
    one = Conversions(names, real=real, functions=functions)
    one.returns = gives
    return one.statement(body)
