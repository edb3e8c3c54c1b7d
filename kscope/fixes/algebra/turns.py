"""Numbers that an angle gives, which are the same for all directions between two neighbours of eight: found by
computing them for many directions, and written as comparisons of the direction's two parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from msgspec import Struct

from kscope.fixes.given.grammar import Node
from kscope.model.lazily import np, of_numpy

DIRECTIONS = 720  # of each eighth
NEAR = 1e-5  # of an eighth's width: directions as near to its ends as float tells them apart
_AT = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1), (0, 0))  # axes, diagonals, the origin
_SIDES = ("beyond", "on", "origin")  # of the axis across: what lies on it belongs to the one or the other
LENGTHS = (1e-3, 1.0, 3.0, 700.0)
NAMES = {"M_PI": False, "CUDART_PI_F": True, "M_PI_F": True}  # pi; whether as a float
_CALLS: Mapping[str, Any] = {
    **{f"{name}f": of_numpy(name) for name in ("fmod", "floor", "trunc", "rint", "ceil")}, "fabsf": of_numpy("abs"),
    "floor": of_numpy("floor"), "atan2f": of_numpy("arctan2"),
    "roundf": lambda v: np.copysign(np.floor(np.abs(v) + np.float32(0.5)), v),
    "__float2int_rn": lambda v: np.rint(v).astype(np.int64), "__float2int_rd": lambda v: np.floor(v).astype(np.int64),
    "__float2int_rz": lambda v: np.trunc(v).astype(np.int64),
}  # fmt: skip
_OPERATIONS: Mapping[str, Any] = {
    "+": of_numpy("add"), "-": of_numpy("subtract"), "*": of_numpy("multiply"), "<": of_numpy("less"),
    ">": of_numpy("greater"), "<=": of_numpy("less_equal"), ">=": of_numpy("greater_equal"), "==": of_numpy("equal"),
    "!=": of_numpy("not_equal"), "&&": of_numpy("logical_and"), "||": of_numpy("logical_or"),
    "&": of_numpy("bitwise_and"),
}  # fmt: skip


class Strange(Exception):
    """An expression of something else than one angle."""


class Eighths(Struct, frozen=True):
    """`values` of the eighths from the right on, towards the first part's growing; `turned`: they lie around the axes
    and diagonals, instead of between them. `text`: the number as comparisons."""

    values: tuple[int, ...]
    turned: bool
    text: str
    ran: int


def number(word: str) -> Any:
    """What a literal is: a float, a double or a whole number."""
    if word[:2].lower() == "0x" or not any(c in word.lower() for c in ".ef"):
        return int(word.rstrip("uUlL"), 0)
    return np.float32(word.rstrip("fF")) if word[-1] in "fF" else np.float64(word)


def computed(node: Node, names: Mapping[str, Any]) -> Any:
    """An expression's value for each direction. names: what names stand for."""
    kind = node[0]
    if kind == "number":
        return node[1]
    if kind == "name" and (node[1] in names or node[1] in NAMES):
        return names[node[1]] if node[1] in names else np.float32(math.pi) if NAMES[node[1]] else math.pi
    if kind == "call" and node[1] in _CALLS:
        return _CALLS[node[1]](*(computed(x, names) for x in node[2]))
    if kind == "cast" and not node[3] and node[1] in ("int", "float"):
        value = np.asarray(computed(node[2], names))
        return np.trunc(value).astype(np.int64) if node[1] == "int" else value.astype(np.float32)
    if kind == "unary" and node[1] in "-+":
        return -computed(node[2], names) if node[1] == "-" else computed(node[2], names)
    if kind == "choose":
        return np.where(*(computed(x, names) for x in node[1:]))
    if kind == "binary":
        return _combined(node[1], computed(node[2], names), computed(node[3], names))
    raise Strange(kind)


def _combined(op: str, a: Any, b: Any) -> Any:
    whole = all(np.asarray(x).dtype.kind in "iu" for x in (a, b))
    if op == "/":
        return np.trunc(np.true_divide(a, b)).astype(np.int64) if whole else np.true_divide(a, b)
    if op == "%" and whole:
        return np.fmod(a, b)
    if op not in _OPERATIONS:
        raise Strange(op)
    return _OPERATIONS[op](a, b)


def eighths(of: Any, y: str, x: str) -> Eighths | None:
    """The number as comparisons of two names, where it is one for each eighth. of: the number for arrays of both."""
    for turned in (False, True):
        start = -math.pi / 8 if turned else 0.0
        values, ran = list[int](), 0
        for n in range(8):
            angles = start + math.pi / 4 * (n + np.linspace(NEAR, 1 - NEAR, DIRECTIONS))
            found = [_values(of, np.sin(angles) * r, np.cos(angles) * r) for r in LENGTHS]
            ran += sum(len(f) for f in found)
            values += [int(v) for v in np.unique(np.concatenate(found))]
        if len(values) == 8 and len(set(values)) > 1:
            text = _around(values, of, y, x) if turned else _between(values, of, y, x)
            return Eighths(tuple(values), turned, text, ran) if text else None
    return None


def _values(of: Any, y: Any, x: Any) -> Any:
    with np.errstate(all="ignore"):
        found = np.asarray(of(np.asarray(y, dtype=np.float32), np.asarray(x, dtype=np.float32)))
    found = np.broadcast_to(found, np.shape(y))
    return found if np.isfinite(found).all() and (found == np.trunc(found)).all() else np.array([0, 1])


def _around(v: Sequence[int], of: Any, y: str, x: str) -> str:
    """Eighths whose middles are axes and diagonals: their ends are where one part is tan(22.5 degrees) of the other. ""
    where the middles or the origin have other numbers."""
    if [int(_values(of, [a], [b])[0]) for a, b in _AT] != [*v, v[0]]:
        return ""
    low, high = "0.41421356f", "2.4142136f"
    return (
        f"(fabsf({y}) <= {low} * fabsf({x}) ? ({x} >= 0 ? {v[0]} : {v[4]}) : fabsf({y}) > {high} * fabsf({x}) ? "
        f"({y} > 0 ? {v[2]} : {v[6]}) : {y} > 0 ? ({x} > 0 ? {v[1]} : {v[3]}) : ({x} < 0 ? {v[5]} : {v[7]}))"
    )


def _between(v: Sequence[int], of: Any, y: str, x: str) -> str:
    """Eighths whose ends are axes and diagonals, ends and the origin where the number has them; "" where no order of
    comparisons has."""
    wanted = [int(_values(of, [a], [b])[0]) for a, b in _AT]
    halves = (f"{y} >= 0", f"{y} > 0", f"({y} > 0 || ({y} == 0 && {x} >= 0))", f"({y} > 0 || ({y} == 0 && {x} < 0))")
    tests = (lambda a, b: a >= 0, lambda a, b: a > 0, lambda a, b: a > 0 or (a == 0 and b >= 0),
             lambda a, b: a > 0 or (a == 0 and b < 0))  # fmt: skip
    ways = product(range(len(halves)), _SIDES, _SIDES, product((">", ">="), repeat=4))
    for half, right, left, steep in ways:
        if [v[_eighth(a, b, tests[half](a, b), (right, left), steep)] for a, b in _AT] == wanted:
            over = [f"fabsf({y}) {s} fabsf({x})" for s in steep]
            return (
                f"({halves[half]} ? ({_side(right, '>', y, x)} ? ({over[0]} ? {v[1]} : {v[0]}) : "
                f"({over[1]} ? {v[2]} : {v[3]})) : ({_side(left, '<', y, x)} ? ({over[2]} ? {v[5]} : {v[4]}) : "
                f"({over[3]} ? {v[6]} : {v[7]})))"
            )
    return ""


def _side(which: str, op: str, y: str, x: str) -> str:
    return {"beyond": f"{x} {op} 0", "on": f"{x} {op}= 0", "origin": f"{x} {op} 0 || {x} == {y}"}[which]


def _eighth(y: float, x: float, upper: bool, sides: tuple[str, str], steep: Sequence[str]) -> int:
    """The eighth that comparisons find."""
    side, toward = (sides[0], x) if upper else (sides[1], -x)
    first = toward > 0 or (toward == 0 and (side == "on" or (side == "origin" and x == y)))
    quarter = (0 if first else 1) if upper else (2 if first else 3)
    high = abs(y) > abs(x) or (abs(y) == abs(x) and steep[quarter] == ">=")
    return ((0, 1), (3, 2), (4, 5), (7, 6))[quarter][high]
