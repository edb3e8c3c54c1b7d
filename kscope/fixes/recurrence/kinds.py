"""What types a recurrence's factors and rests have: whole numbers in a state of fractions, or the other way round, give
something else where they are put together in another order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kscope.fixes.given.grammar import Node
from kscope.fixes.given.text import Loop
from kscope.fixes.recurrence.linear import parsed
from kscope.fixes.rows.function import Function

SIGNED = {"int", "short", "char", "bool", "int32_t", "int2", "int3", "int4", "unsigned char", "unsigned short"}
"""Of whole numbers: those that are an int where they are worked with, and int itself."""
UNSIGNED = {"unsigned", "unsigned int", "uint", "uint32_t", "uint2", "uint3", "uint4", "size_t", "uint64_t",
            "unsigned long long", "unsigned long"}  # fmt: skip
WHOLE = SIGNED | UNSIGNED | {"long long", "long", "int64_t"}
_SAME = ("min", "max", "abs", "__ldg", "__popc")  # of whole numbers
_AXES = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_GIVEN = re.compile(
    r"[(,]\s*(?:const\s+)?(?P<kind>[A-Za-z_]\w*(?:\s+(?:int|long|char|short))*)\s+(?P<name>\w+)\s*(?=[,)])"
)


def kinds(fn: Function, loop: Loop, declared: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Types of a function's names, elements' of pointers. declared: (type, name) of what it declares."""
    given = {m["name"]: " ".join(m["kind"].split()) for m in _GIVEN.finditer(fn.code[: fn.opened])}
    places = dict.fromkeys((f"{a}.{b}" for a in _AXES for b in "xyz"), "uint")
    return {**places, **fn.pointers, **given, loop.name: loop.kind.strip(), **{name: kind for kind, name in declared}}


def keeps(state: str, text: str, known: Mapping[str, str]) -> bool:
    """Whether a factor or a rest may be put together with others before the state comes to it. state: its type; known:
    those of names."""
    tree = parsed(f"{{({text});}}")[1][0][1]
    if state in WHOLE and not whole(tree, known):
        return False  # each step rounds
    if state in ("int", "unsigned", "unsigned int"):
        return True
    # What was as wide as the state, or had its sign, would be no wider than its own terms.
    return not any(_narrow(one, known) for one in _operations(tree) if state == "long long" or _unsigned(one, known))


def whole(node: Node, known: Mapping[str, str]) -> bool:
    """Whether an expression is of whole numbers; of what is not known it is not."""
    kind = node[0]
    if kind == "number":
        return re.fullmatch(r"0[xX][\da-fA-F]+[uUlL]*|\d+[uUlL]*", str(node[1])) is not None
    if kind == "name":
        return known.get(node[1], "") in WHOLE
    if kind in ("index", "deref", "member"):
        return whole(node[1], known)
    if kind == "cast":
        return node[1] in WHOLE
    if kind == "call":
        return node[1] in _SAME and all(whole(x, known) for x in node[2])
    parts = all(whole(x, known) for x in node[1:] if isinstance(x, tuple))
    return parts and kind in ("binary", "unary", "choose", "address")


def _operations(node: object) -> Iterator[Node]:
    """Sums, products and turns of sign that are not within an index."""
    if not isinstance(node, (tuple, list)):
        return
    if isinstance(node, tuple) and node[:1] == ("index",):
        return
    if isinstance(node, tuple) and node[:1] in (("binary",), ("unary",)) and node[1] in "+-*":
        yield node
    for part in node:
        yield from _operations(part)


def _narrow(node: Node, known: Mapping[str, str]) -> bool:
    sides = [x for x in node[2:] if isinstance(x, tuple)]
    return all(whole(x, known) for x in sides) and not all(x[0] == "number" for x in sides)


def _unsigned(node: Node, known: Mapping[str, str]) -> bool:
    if node[0] == "number":
        return str(node[1])[-1:] in "uU"
    if node[0] == "name":
        return known.get(node[1], "") in UNSIGNED
    if node[0] == "cast":
        return node[1] in UNSIGNED
    if node[0] in ("index", "deref", "member"):
        return _unsigned(node[1], known)
    parts = node[2] if node[0] == "call" else node[1:]
    return any(_unsigned(x, known) for x in parts if isinstance(x, tuple))
