"""Comparisons of a step's place with the ends of its range, as sums of the step, the thread and what is one for all."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kscope.fixes.given.grammar import Node, Unplayable

THREAD = "threadIdx.x"
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Linear(Struct, frozen=True):
    """A sum of names, each so many times, and a number."""

    of: Mapping[str, int]
    number: int

    def plus(self, other: Linear, times: int = 1) -> Linear:
        of = dict(self.of)
        for name, many in other.of.items():
            of[name] = of.get(name, 0) + times * many
        return Linear({n: m for n, m in of.items() if m}, self.number + times * other.number)


def linear(node: Node, by: Mapping[str, Node]) -> Linear:
    """by: expressions that names stand for. Raises Unplayable where it is no sum."""
    if node[0] == "number":
        return Linear({}, int(node[1]))
    if node[0] == "name":
        return linear(by[node[1]], by) if node[1] in by else Linear({node[1]: 1}, 0)
    if node[0] == "cast" and node[1] in ("int", "unsigned") and not node[3]:
        return linear(node[2], by)
    if node[0] == "unary" and node[1] in "+-":
        return Linear({}, 0).plus(linear(node[2], by), 1 if node[1] == "+" else -1)
    if node[0] == "binary" and node[1] in ("+", "-", "*"):
        a, b = linear(node[2], by), linear(node[3], by)
        if node[1] != "*":
            return a.plus(b, 1 if node[1] == "+" else -1)
        if not a.of or not b.of:
            return Linear({}, 0).plus(b, a.number) if not a.of else Linear({}, 0).plus(a, b.number)
    raise Unplayable("no sum")


def conjuncts(test: Node) -> list[Node]:
    """Tests that all must hold: of what is at least the largest of some, too."""
    if test[0] == "binary" and test[1] in TURNED:
        for low, high, op in ((test[2], test[3], test[1]), (test[3], test[2], TURNED[test[1]])):
            if high[0] == "call" and high[1] == ("min" if "<" in op else "max"):
                return [x for one in high[2] for x in conjuncts(("binary", op, low, one))]
    if test[0] == "binary" and test[1] == "&&":
        return [*conjuncts(test[2]), *conjuncts(test[3])]
    return [test]


def sloped(test: Node, step: str, by: Mapping[str, Node]) -> list[tuple[str, Linear]]:
    """What a comparison says of the place: (up, F) where it is F < 0 and F grows with it by one, (down, F) for F >= 0;
    none where it is about another thing."""
    if test[0] != "binary" or test[1] not in ("<", "<=", ">", ">="):
        return []
    op, left, right = test[1:]
    if op in (">", ">="):
        op, left, right = {">": "<", ">=": "<="}[op], right, left
    folded = left[0] == "cast" and left[1] in ("unsigned", "unsigned int") and not left[3]
    try:
        form = linear(left, by).plus(linear(right, by), -1)
        inner = linear(left, by)
    except Unplayable:
        return []
    form = form.plus(Linear({}, int(op == "<=")), -1)  # now: form < 0
    if (form.of.get(step), form.of.get(THREAD)) == (1, -1):
        both = folded and (inner.of.get(step), inner.of.get(THREAD)) == (1, -1)
        return [("up", form), *([("down", inner)] if both else [])]
    if (form.of.get(step), form.of.get(THREAD)) == (-1, 1):
        return [("down", Linear({}, -1).plus(form, -1))]  # -form > 0
    return []


def most_of(test: Node, by: Mapping[str, Node]) -> Linear | None:
    """The largest thread for which a test holds that is `thread < ..`."""
    if test[0] != "binary" or test[1] not in ("<", "<=", ">", ">="):
        return None
    left, right = (test[2], test[3]) if "<" in test[1] else (test[3], test[2])
    try:
        form = linear(left, by).plus(linear(right, by), -1)
    except Unplayable:
        return None
    if form.of.get(THREAD) != 1:
        return None
    rest = Linear({THREAD: 1}, 0).plus(form, -1)
    return rest.plus(Linear({}, int("=" not in test[1])), -1)


def always(test: Node, by: Mapping[str, Node], block: int, known: Mapping[str, int]) -> bool:
    """Whether a test holds for every thread: its number is at least zero, and below the block's."""
    most = most_of(test, by)
    last = _number(most, known) if most is not None else None
    if last is not None and last >= block - 1:
        return True
    if test[0] != "binary" or test[1] not in ("<=", ">="):
        return False
    low, high = (test[2], test[3]) if test[1] == "<=" else (test[3], test[2])
    try:
        form = linear(high, by).plus(linear(low, by), -1)
    except Unplayable:
        return False
    return form.of == {THREAD: 1} and form.number >= 0


def end_of(test: Node, step: str) -> Linear:
    """The first step that is none."""
    if test[0] != "binary" or test[1] not in ("<", "<=") or test[2] != ("name", step):
        raise Unplayable("a loop of another end")
    return linear(test[3], {}).plus(Linear({}, int(test[1] == "<=")))


def _number(form: Linear, known: Mapping[str, int]) -> int | None:
    if not all(name in known for name in form.of):
        return None
    return form.number + sum(known[name] * many for name, many in form.of.items())


def reaches(begins: Linear, lower: Linear, step: str, known: Mapping[str, int]) -> bool:
    """Whether thread 0 is in front of the range before the first step. lower: in range where it is >= 0."""
    found = _number(_at(lower, step, begins, Linear({}, 0)).plus(Linear({}, -1)), known)
    return found is not None and found < 0


def finishes(ends: Linear, upper: Linear, step: str, most: Linear, known: Mapping[str, int]) -> bool:
    """Whether at the first step that is none the last thread is out of range."""
    found = _number(_at(upper, step, ends, most), known)
    return found is not None and found >= 0


def _at(form: Linear, step: str, when: Linear, thread: Linear) -> Linear:
    """What a sum over step - thread is then for this one."""
    rest = Linear({n: m for n, m in form.of.items() if n not in (step, THREAD)}, form.number)
    return rest.plus(when).plus(thread, -1)
