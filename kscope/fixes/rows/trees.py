"""Reductions in shared memory, as the tree of a text shows them: arrays of which each thread has one element, that a
loop folds by halves until the first one holds what all of them come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from kscope.fixes.given.grammar import Node
from kscope.fixes.rows.syntax import inside, names, parts, replaced, statements

THREAD = ("name", "threadIdx.x")
ZERO = (("number", "0"), ("number", 0))
ONE = (("number", "1"), ("number", 1))
TWO = ("number", "2")


class Fold(Struct, frozen=True):
    """`name`: of the loop's number; `arrays`: that it folds; `then`: what a thread does in a round, a test of its own
    included. up: whether it begins with neighbours."""

    name: str
    arrays: tuple[str, ...]
    then: Node
    up: bool


def thread(node: Node, alias: frozenset[str]) -> bool:
    """Whether an expression is the thread's number."""
    return node == THREAD or (node[0] == "name" and node[1] in alias)


def first_thread(test: Node, alias: frozenset[str]) -> bool:
    """Whether a test is passed by the first thread alone."""
    if test[0] == "unary" and test[1] == "!":
        return thread(test[2], alias)
    if test[0] != "binary" or not thread(test[2], alias):
        return False
    return (test[1] == "==" and test[3] in ZERO) or (test[1] == "<" and test[3] in ONE)


def fold(node: Node, alias: frozenset[str], width: Callable[[Node], int | None], block: int) -> Fold | None:
    """A loop that goes from half the block down by halves, or from neighbours up; None for any other."""
    if node[0] != "for" or node[1][0] != "declare" or len(node[1][2]) != 1 or node[1][2][0][3] is None:
        return None
    up = _doubles(node, width, block)
    if not up and not _halves(node, width, block):
        return None
    name = node[1][2][0][0]
    body = [one for one in statements(node[4]) if one != ("barrier",)]
    if len(body) != 1 or len(body) == len(statements(node[4])) or body[0][0] != "if":
        return None
    _, test, then, other = body[0]
    rest = _behind(test, name, alias, up=up)
    if rest is None or other != ("block", []) or ("barrier",) in inside(then):
        return None
    inner = ("if", rest, then, other) if rest != () else then
    arrays = tuple(sorted({one[1][1] for one in inside(inner) if one[0] == "index" and one[1][0] == "name"}))
    return Fold(name, arrays, inner, up) if arrays else None


def _halves(node: Node, width: Callable[[Node], int | None], block: int) -> bool:
    first, test, step = node[1:4]
    name = ("name", first[2][0][0])
    ends = test == name or (test[0] == "binary" and test[2] == name and (test[1], test[3]) in (
        (">", ZERO[0]), (">=", ONE[0]), ("!=", ZERO[0])))  # fmt: skip
    halved = (("assign", ">>=", name, ONE[0]), ("assign", "/=", name, TWO),
              ("assign", "=", name, ("binary", "/", name, TWO)), ("assign", "=", name, ("binary", ">>", name, ONE[0])))
    return ends and step in halved and width(first[2][0][3]) == block // 2


def _doubles(node: Node, width: Callable[[Node], int | None], block: int) -> bool:
    first, test, step = node[1:4]
    name = ("name", first[2][0][0])
    ends = test[0] == "binary" and test[1:3] == ("<", name) and width(test[3]) == block
    doubled = (("assign", "<<=", name, ONE[0]), ("assign", "*=", name, TWO), ("assign", "+=", name, name),
               ("assign", "=", name, ("binary", "*", name, TWO)), ("assign", "=", name, ("binary", "<<", name, ONE[0])))
    return ends and step in doubled and first[2][0][3] in ONE


def _behind(test: Node, name: str, alias: frozenset[str], *, up: bool) -> Node | None:
    """What a test asks besides `t < o`, or whether t is a multiple of two rounds; () where that is all, None where it
    does not ask it first."""
    if test[0] != "binary":
        return None
    o = ("name", name)
    if not up and test[1] == "<" and thread(test[2], alias) and test[3] == o:
        return ()
    if up and test[1] == "==" and test[3] in ZERO and test[2][0] == "binary" and thread(test[2][2], alias):
        two = (("binary", "*", TWO, o), ("binary", "*", o, TWO))
        mask = tuple(("binary", "-", one, ONE[0]) for one in two)
        return () if (test[2][1] == "%" and test[2][3] in two) or (test[2][1] == "&" and test[2][3] in mask) else None
    if test[1] == "&&":
        rest = _behind(test[2], name, alias, up=up)
        return None if rest is None else test[3] if rest == () else ("binary", "&&", rest, test[3])
    return None


def places(
    body: Node, arrays: Mapping[str, str], alias: frozenset[str], folds: Mapping[int, Fold]
) -> frozenset[str]:
    """Those of the shared arrays that are numbers of a thread each, which only folds hand on: elsewhere a thread writes
    its own, unasked, and all read the first."""
    right = set(arrays) & {name for one in folds.values() for name in one.arrays}
    while True:
        together = {n for one in folds.values() if not set(one.arrays) <= right for n in one.arrays}
        wrong = {n for n in right if not _own(body, n, alias, folds)} | (together & right)
        if not wrong:
            return frozenset(right)
        right -= wrong


def _own(body: Node, name: str, alias: frozenset[str], folds: Mapping[int, Fold]) -> bool:
    """Whether all of an array's uses are of these kinds."""
    known, seen = names(body)[name], 0
    stack: list[tuple[Node, Fold | None]] = [(body, None)]
    while stack:
        node, within = stack.pop()
        within = folds.get(id(node), within)
        if node[0] == "index" and node[1] == ("name", name):
            at = node[2]
            far = within is not None and at[0] == "binary" and at[1] == "+" and thread(at[2], alias)
            if within is not None and (thread(at, alias) or (far and at[3] == ("name", within.name))):
                seen += 1
                continue
            if within is not None or at not in ZERO:
                return False
            seen += 1
            continue
        if node[0] == "assign" and node[2][0] == "index" and node[2][1] == ("name", name) and within is None:
            if node[1] != "=" or not thread(node[2][2], alias):
                return False
            seen += 1
            stack.append((node[3], within))
            continue
        stack += [(one, within) for one in parts(node)]
    return seen == known


def round_of(one: Fold, alias: frozenset[str], own: Callable[[str], Node], far: Callable[[str], Node]) -> Node | None:
    """What happens in a round, its own elements and the others' put by names; None where it takes the number of the
    round, or of the thread, for anything else."""

    def how(node: Node) -> Node | None:
        if node[0] == "index" and node[1][0] == "name" and node[1][1] in one.arrays:
            return own(node[1][1]) if thread(node[2], alias) else far(node[1][1])
        return None

    rest = replaced(one.then, lambda node: ZERO[0] if node[0] == "index" and node[1][1] in one.arrays else None)
    return None if set(names(rest)) & {one.name, "threadIdx.x", *alias} else replaced(one.then, how)


def fair(one: Fold) -> bool:
    """Whether both sides of a fold come to the same, to the last bit: a sum, or the larger or smaller of two."""
    inner = statements(one.then)
    if len(one.arrays) != 1 or len(inner) != 1 or inner[0][0] != "do" or inner[0][1][0] != "assign":
        return False
    _, op, _, value = inner[0][1]
    plain = value[0] == "index" and op in ("+=", "*=")
    return plain or (op == "=" and value[0] == "call" and value[1] in ("fmaxf", "fminf", "max", "min"))
