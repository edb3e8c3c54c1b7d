"""How an expression depends on the state of a recurrence: state * factor + rest, both as text, where it is that."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kscope.fixes.given.grammar import Node, Parser, Unplayable


class Form(Struct, frozen=True):
    """`factor` * state + `rest`; no state where the expression has none."""

    state: str
    factor: str
    rest: str


def parsed(text: str) -> Node:
    """A block's tree with its numbers as they are written."""
    return Parser(text, number=lambda word: word).body()  # type: ignore[arg-type,return-value]


def written(node: Node) -> str:
    """An expression's text, with brackets where the tree has a branch."""
    kind = node[0]
    if kind in ("number", "name"):
        return str(node[1])
    if kind == "index":
        return f"{written(node[1])}[{bare(written(node[2]))}]"
    if kind == "member":
        return f"{written(node[1])}.{node[2]}"
    if kind in ("deref", "address"):
        return f"({'*' if kind == 'deref' else '&'}{written(node[1])})"
    if kind == "binary" and node[1] != ",":
        return f"({written(node[2])} {node[1]} {written(node[3])})"
    if kind == "unary":
        return f"({node[1]}{written(node[2])})"
    if kind == "cast":
        return f"(({node[1]}{'*' * node[3]}){written(node[2])})"
    if kind == "choose":
        return f"({written(node[1])} ? {written(node[2])} : {written(node[3])})"
    if kind == "call":
        return f"{node[1]}({', '.join(bare(written(x)) for x in node[2])})"
    raise Unplayable(kind)


def bare(text: str) -> str:
    """Without brackets around the whole."""
    while text.startswith("(") and text.endswith(")"):
        depth, within = 0, True
        for n, c in enumerate(text):
            depth += (c == "(") - (c == ")")
            within &= depth > 0 or n == len(text) - 1
        if not within:
            break
        text = text[1:-1]
    return text


def names(node: object) -> set[str]:
    """Names in a tree."""
    if isinstance(node, tuple) and len(node) == 2 and node[0] == "name":
        return {str(node[1])}
    parts = node if isinstance(node, (tuple, list)) else ()
    return {name for part in parts for name in names(part)}


def form(node: Node, known: Mapping[str, Form], kind: str) -> Form:
    """known: forms of names that depend on a state; kind: the state's type. Raises Unplayable where the dependence is
    no such one, or is on two states."""
    if not names(node) & known.keys():
        return Form("", "0", written(node))
    if node[0] == "name":
        return known[node[1]]
    if node[0] == "unary" and node[1] in "+-":
        one = form(node[2], known, kind)
        return one if node[1] == "+" else _sum(Form("", "0", "0"), one, "-")
    if node[0] == "cast" and node[1] == kind and not node[3]:
        return form(node[2], known, kind)
    if node[0] == "call" and node[1] in ("fmaf", "__fmaf_rn", "fma") and len(node[2]) == 3:
        a, b, c = (form(x, known, kind) for x in node[2])
        return _sum(_product(a, b), c, "+")
    if node[0] == "binary" and node[1] in "+-*/":
        a, b = form(node[2], known, kind), form(node[3], known, kind)
        if node[1] in "+-":
            return _sum(a, b, node[1])
        if node[1] == "*":
            return _product(a, b)
        if not b.state and kind in ("float", "double"):
            return _product(a, Form("", "0", f"({'1.f' if kind == 'float' else '1.0'} / {b.rest})"))
    raise Unplayable("no linear dependence")


def _sum(a: Form, b: Form, op: str) -> Form:
    if a.state and b.state and a.state != b.state:
        raise Unplayable("two states")
    return Form(a.state or b.state, _added(a.factor, b.factor, op), _added(a.rest, b.rest, op))


def _product(a: Form, b: Form) -> Form:
    if a.state and b.state:
        raise Unplayable("a state's square")
    if b.state:
        a, b = b, a
    return Form(a.state, _times(a.factor, b.rest), _times(a.rest, b.rest))


def _added(a: str, b: str, op: str) -> str:
    if b == "0":
        return a
    if a == "0":
        return b if op == "+" else f"(-{b})"
    return f"({a} {op} {b})"


def _times(a: str, b: str) -> str:
    if "0" in (a, b):
        return "0"
    return b if a == "1" else a if b == "1" else f"({a} * {b})"
