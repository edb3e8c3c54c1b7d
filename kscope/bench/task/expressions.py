"""Sizes as people write them: `m`, `2*k`, `ceil(n/256)`, over the dimensions of a case. Nothing else is evaluated."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.model.quoted import quoted

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_CALLS: dict[str, Callable[..., float]] = {"ceil": math.ceil, "floor": math.floor, "min": min, "max": max}
LONGEST = 200  # characters; judged: nobody writes more


def value(text: str, dims: Mapping[str, int]) -> float:
    """Raises KscopeError (status 2) for what is no expression over these dimensions."""
    try:
        if len(text) > LONGEST:
            raise ValueError
        return float(_value(ast.parse(text, mode="eval").body, dims))
    except (SyntaxError, ValueError, TypeError, ZeroDivisionError, OverflowError, RecursionError):
        known = ", ".join(dims) or "none"
        raise KscopeError("bad-task", f"{quoted(text)} is no size", f"dimensions here: {known}", EXIT_USAGE) from None


def whole(text: str, dims: Mapping[str, int]) -> int:
    """The same for a size, which is whole and not negative."""
    found = value(text, dims)
    if found != int(found) or found < 0:
        what = f"{quoted(text)} is {found:g}: no size"
        raise KscopeError("bad-task", what, "sizes are whole and not negative", EXIT_USAGE)
    return int(found)


def names(text: str) -> set[str]:
    """The dimensions that an expression names."""
    try:
        return {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)} - set(_CALLS)
    except SyntaxError:
        return set()


def _value(node: ast.expr, dims: Mapping[str, int]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.Name) and node.id in dims:
        return dims[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, dims), _value(node.right, dims))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, dims)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS and not node.keywords:
        return _CALLS[node.func.id](*(_value(one, dims) for one in node.args))
    raise ValueError
