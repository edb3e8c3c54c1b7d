"""Functions that a kernel's text calls where it is played, and operations on numbers of two bytes that are moved as
something larger: a half is the number that it is, wherever it lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.kinds import MADE, Pointer, Values, Vector
from kscope.fixes.given.lanes_played import bits_of
from kscope.fixes.given.whole_numbers import REAL
from kscope.model.lazily import np, of_numpy

CALLS: dict[str, Any] = {
    **dict.fromkeys(("fmaxf", "fmax", "max"), of_numpy("maximum")),
    **dict.fromkeys(("fminf", "fmin", "min"), of_numpy("minimum")),
    "fabsf": of_numpy("abs"),
    "__fadd_rn": of_numpy("add"), "__fsub_rn": of_numpy("subtract"), "__fmul_rn": of_numpy("multiply"),
    "fmaf": lambda a, b, c: a * b + c, "__fmaf_rn": lambda a, b, c: a * b + c,
    "__popc": bits_of, "__threadfence": lambda: 0,
}  # fmt: skip
_BITS = ("__float_as_int", "__int_as_float", "__float_as_uint", "__uint_as_float")
_UPPER, _LOWER = (0xFFFF0000, -65536), 0xFFFF  # masks of both numbers of a word


def _each(how: Callable[..., Any]) -> Callable[..., Vector]:
    return lambda *given: Vector(tuple(how(*one) for one in zip(*(_two(v) for v in given), strict=True)), 2)


def _both(a: Values, b: Values) -> Vector:
    return Vector((_one(a), _one(b)), 2)


def _one(value: Values) -> Values:
    if isinstance(value, (Vector, Pointer)):
        raise Unplayable("several numbers as one")
    return value


def _two(value: Values) -> tuple[Values, ...]:
    """Both numbers of a __half2; no word that holds two in its bits."""
    if not isinstance(value, Vector) or len(value.parts) != 2 or (value.size, value.each) != (2, 1):
        raise Unplayable("one number as two")
    return value.parts


def _floats(value: Values) -> Values:
    if not isinstance(value, Vector) or len(value.parts) != 2 or value.size != 4:
        raise Unplayable("no float2")
    return value.parts


_SINGLE: dict[str, Any] = {
    **dict.fromkeys(("__half2float", "__float2half", "__float2half_rn", "__bfloat162float", "__float2bfloat16",
                     "__float2bfloat16_rn"), _one),
    "__hadd": lambda a, b: a + b, "__hsub": lambda a, b: a - b, "__hmul": lambda a, b: a * b,
    "__hfma": lambda a, b, c: a * b + c,
}  # fmt: skip
_PAIRS: dict[str, Any] = {
    **dict.fromkeys(("__half22float2", "__bfloat1622float2"), lambda v: Vector(_two(v))),
    **dict.fromkeys(("__float22half2_rn", "__float22bfloat162_rn"), lambda v: _both(*_floats(v))),
    **dict.fromkeys(("__floats2half2_rn", "__floats2bfloat162_rn", "__halves2half2", "__halves2bfloat162",
                     "make_half2", "make_bfloat162", "__half2", "__nv_bfloat162"), _both),
    **dict.fromkeys(("__float2half2_rn", "__half2half2", "__float2bfloat162_rn", "__bfloat162bfloat162"),
                    lambda v: _both(v, v)),
    **dict.fromkeys(("__low2float", "__low2half", "__low2bfloat16"), lambda v: _two(v)[0]),
    **dict.fromkeys(("__high2float", "__high2half", "__high2bfloat16"), lambda v: _two(v)[1]),
    **dict.fromkeys(("__low2half2", "__low2bfloat162"), lambda v: _both(_two(v)[0], _two(v)[0])),
    **dict.fromkeys(("__high2half2", "__high2bfloat162"), lambda v: _both(_two(v)[1], _two(v)[1])),
    "__hadd2": _each(of_numpy("add")), "__hsub2": _each(of_numpy("subtract")), "__hmul2": _each(of_numpy("multiply")),
    "__hfma2": _each(lambda a, b, c: a * b + c),
}  # fmt: skip
_OPERATORS = {"+": _PAIRS["__hadd2"], "-": _PAIRS["__hsub2"], "*": _PAIRS["__hmul2"]}


def result_of(name: str, given: Sequence[Values], on: Any, *, real: bool, upper: bool) -> Values:
    """What a function gives. on: which threads call it; real: whether fractions are played as what they are; upper:
    whether a two-byte number is the upper half of the float that it is (bfloat16)."""
    if name in MADE and len(given) == MADE[name] and not any(isinstance(x, (Pointer, Vector)) for x in given):
        return Vector(tuple(given))
    if name in _PAIRS:
        return _PAIRS[name](*given)
    if name in _BITS and isinstance(given[0], Vector):
        low = given[0].parts[0]
        if not upper or name.startswith("__float") or given[0].each != 2 or not (isinstance(low, int) and low == 0):
            raise Unplayable("bits of several numbers")
        return given[0].parts[1]
    single = [_one(x) for x in given]
    if name in _BITS:
        if np.any(np.asarray(single[0])[..., on if np.ndim(single[0]) else None] < 0):
            raise Unplayable("bits of a negative number")  # those of others are in their order
        return single[0]
    return (REAL[name] if real and name in REAL else _SINGLE.get(name) or CALLS[name])(*single)


def packed(op: str, a: Values, b: Values) -> Values:
    """a op b of two-byte numbers: of a pair by its parts; of a word that holds two what takes one of them out."""
    if isinstance(a, Vector) and isinstance(b, Vector) and op in _OPERATORS:
        return _OPERATORS[op](a, b)
    if not isinstance(a, Vector) or (a.size, a.each, len(a.parts)) != (2, 2, 2) or not isinstance(b, int):
        raise Unplayable("an operation of vectors")
    low, high = a.parts
    if op == "&" and b in _UPPER:
        return Vector((0, high), 2, 2)
    if op == "&" and b == _LOWER:
        return Vector((low, 0), 2, 2)
    if op == "<<" and b == 16:
        return Vector((0, low), 2, 2)
    raise Unplayable("an operation of vectors")


def addressed(node: Any) -> set[str]:
    """Names of variables whose address a text takes."""
    if not isinstance(node, (tuple, list)):
        return set()
    if len(node) == 2 and node[0] == "address":
        inner: Node = node[1]
        while inner[0] == "member":
            inner = inner[1]
        return {inner[1]} if inner[0] == "name" else addressed(inner)
    return set().union(*map(addressed, node)) if node else set()
