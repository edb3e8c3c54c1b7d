"""Numbers of a warp's lanes, and the built-in functions that a warp is played with."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.kinds import FLOATS
from kscope.fixes.given.lanes_played import WARP
from kscope.fixes.roles.events import Access
from kscope.fixes.roles.texts import UNKNOWN
from kscope.model.lazily import np

_LARGE = (1 << 63) - 1
_WIDTHS = {"unsigned": 32, "uint32_t": 32, "unsigned int": 32, "uint": 32, "uint8_t": 8, "unsigned char": 8,
           "uint16_t": 16, "unsigned short": 16}  # fmt: skip
_HALF = ("half", "__half", "__nv_bfloat16", "bf16")


def _quotient(a: Any, b: Any) -> Any:
    if type(a) is int and type(b) is int:
        return UNKNOWN if not b else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if type(b) is int and b > 0 and (a >= 0).all():
        return a // b
    if np.any(np.asarray(b) == 0):
        return UNKNOWN
    found = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    return found


def _rest(a: Any, b: Any) -> Any:
    whole = _quotient(a, b)
    return UNKNOWN if whole is UNKNOWN else a - whole * b


_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": _quotient, "%": _rest,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b, "&": lambda a, b: a & b, "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b, "<": lambda a, b: a < b, ">": lambda a, b: a > b, "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b, ",": lambda a, b: b,
    "min": lambda a, b: np.minimum(a, b), "max": lambda a, b: np.maximum(a, b),
}  # fmt: skip
_ONE: dict[str, Callable[[Any], Any]] = {
    "-": lambda a: -a, "+": lambda a: a, "~": lambda a: ~a, "!": lambda a: a == 0, "abs": abs,
}  # fmt: skip


def number_of(value: Any) -> bool:
    """Whether a value is a whole number, or one for each lane."""
    return type(value) is int or hasattr(value, "dtype")


def computed(op: str, *given: Any) -> Any:
    """What an operator gives; UNKNOWN where it takes anything else than whole numbers."""
    if op == "," and len(given) == 2:
        return given[1]
    if not all(map(number_of, given)):
        return UNKNOWN
    found = _TWO[op](*given) if len(given) == 2 else _ONE[op](*given)
    if found is UNKNOWN or (hasattr(found, "shape") and found.shape):
        return found if found is UNKNOWN or found.dtype.kind == "i" else found.astype(np.int64)
    return int(found) if abs(int(found)) < _LARGE else UNKNOWN


def meant(kind: str, value: Any) -> Any:
    """A value as a variable of a type holds it."""
    if not number_of(value):
        return value
    if kind.split(" ")[-1].startswith(FLOATS) or kind in _HALF:
        return UNKNOWN
    if kind == "bool":
        return computed("!=", value, 0)
    if type(value) is int and 0 <= value < 128:
        return value
    if kind in _WIDTHS:
        return computed("&", value, (1 << _WIDTHS[kind]) - 1)
    edge = {"char": 7, "short": 15, "int8_t": 7, "int16_t": 15, "int": 31, "int32_t": 31}.get(kind.split(" ")[-1], 63)
    return value if edge > 62 or np.all(np.abs(np.asarray(value)) < 1 << edge) else UNKNOWN


def _shared(warp: Any, given: Sequence[Any]) -> Any:
    to = given[0]
    if getattr(to, "space", None) != "":
        raise Unplayable("an address of what is not shared")
    return to.at


def _load(warp: Any, given: Sequence[Any]) -> Any:
    if not hasattr(given[0], "space"):
        raise Unplayable("a load")
    return warp.load(given[0])


def _joined(warp: Any, given: Sequence[Any]) -> Any:
    to = given[0]
    if getattr(to, "space", None) != "":
        raise Unplayable("what may tell another block that something is there")
    warp.tell(Access(warp.lanes(), to.space, warp._each(to.at), to.size, write=True))
    return UNKNOWN


def _exchanged(warp: Any, given: Sequence[Any]) -> Any:
    """What comes from another lane; of what is the same in all of them that."""
    return given[1] if isinstance(given[1], int) else UNKNOWN


def _from(warp: Any, given: Sequence[Any]) -> Any:
    value, lane = given[1], given[2]
    if hasattr(value, 'dtype') and isinstance(lane, int) and len(given) == 3:
        return int(value[lane % WARP])
    return _exchanged(warp, given)


def _unknown(warp: Any, given: Sequence[Any]) -> Any:
    if any(getattr(v, "space", None) is not None for v in given):
        raise Unplayable("a pointer that is handed on")
    return UNKNOWN


_MATHS = re.compile(
    r"make_\w+|f(?:ma|abs|max|min|floor|ceil)f?|(?:exp|exp2|log|log2|sqrt|rsqrt|tanh|sin|cos|pow|erf|floor|ceil|round|"
    r"rint|fmod|rcbrt|cbrt|log1p|expm1)f?|__(?:half|float|double|int|uint|bfloat16|bfloat162|low|high|lows|highs|"
    r"halves|floats|ushort|short)\w*2\w+|__h(?:add|sub|mul|fma|max|min|neg|abs)2?|__f(?:add|sub|mul|ma|maf|div|rcp|sqrt)f?"
    r"_\w\w|__(?:exp|log|sin|cos|exp10|log2|pow|tan)f|__fdividef|__saturatef|__(?:popc|clz|ffs|brev|mul24|umulhi|mulhi)"
    r"(?:ll)?|__(?:float|int|uint|half|bfloat16)_as_\w+|__byte_perm|__dp[24]a|__reduce_\w+_sync|__ballot_sync|"
    r"__(?:any|all)_sync|__activemask|clock(?:64)?|__nanosleep|__threadfence_block|isnan|isinf|__trap"
)


class _Maths(dict[str, Any]):
    """Those with a meaning here, and all that only compute."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or _MATHS.fullmatch(str(name)) is not None

    def __missing__(self, name: str) -> Any:
        return _unknown


MATHS: dict[str, Any] = _Maths(
    {
        "__cvta_generic_to_shared": _shared,
        **dict.fromkeys(("__ldg", "__ldcs", "__ldcg", "__ldca", "__ldlu", "__ldcv"), _load),
        **dict.fromkeys(("atomicAdd", "atomicMax", "atomicMin", "atomicOr", "atomicAnd", "atomicXor", "atomicExch",
                         "atomicCAS", "atomicInc", "atomicDec", "atomicSub"), _joined),
        **dict.fromkeys(("__shfl_xor_sync", "__shfl_down_sync", "__shfl_up_sync"), _exchanged),
        "__shfl_sync": _from,
        "min": lambda warp, given: computed("min", *given),
        "max": lambda warp, given: computed("max", *given),
        "abs": lambda warp, given: computed("abs", *given),
    }
)  # fmt: skip
