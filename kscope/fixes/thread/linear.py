"""An index as a sum of names times numbers."""

from __future__ import annotations

from collections.abc import Mapping

from kscope.fixes.given.grammar import Node, Parser, Unplayable

Linear = dict[str, int]
"""Coefficient by name; of "" the number that is added."""


def linear(expression: str, known: Mapping[str, int | Linear]) -> Linear | None:
    """known: what names stand for, numbers or sums themselves; others stay. None where it is no such sum."""
    try:
        return _of(Parser(f"{{({expression});}}").body()[1][0][1], known)
    except (Unplayable, IndexError):
        return None


def _of(node: Node, known: Mapping[str, int | Linear]) -> Linear | None:
    if node[0] == "number":
        return {"": int(node[1])}
    if node[0] == "name":
        value = known.get(node[1], {node[1]: 1})
        return {"": value} if isinstance(value, int) else dict(value)
    if node[0] == "cast" and not node[3] and node[1] in ("int", "unsigned", "size_t", "long", "long long"):
        return _of(node[2], known)
    if node[0] == "unary" and node[1] in "+-":
        return _times(_of(node[2], known), -1 if node[1] == "-" else 1)
    return _pair(node, known) if node[0] == "binary" and node[1] in ("+", "-", "*") else None


def _pair(node: Node, known: Mapping[str, int | Linear]) -> Linear | None:
    left, right = _of(node[2], known), _of(node[3], known)
    if left is None or right is None:
        return None
    if node[1] == "*":
        if set(left) <= {""}:
            left, right = right, left
        return _times(left, right.get("", 0)) if set(right) <= {""} else None
    sign = 1 if node[1] == "+" else -1
    made = {n: left.get(n, 0) + sign * right.get(n, 0) for n in (*left, *right)}
    return {n: c for n, c in made.items() if c}


def _times(sum_: Linear | None, by: int) -> Linear | None:
    return {n: c * by for n, c in sum_.items() if c * by} if sum_ is not None else None
