"""What a name or a place of a play holds, and how large it is: numbers, vectors, pointers, references."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct, structs

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.type_names import HALVES, PAIRS, VECTORS
from kscope.model.lazily import np

LETTERS = "xyzw"
MADE = {f"make_{name}": count for name, count in VECTORS.items()}
BYTES = {"double": 8, "long": 8, "size_t": 8, "short": 2, "char": 1, "bool": 1, "int64_t": 8, "uint64_t": 8,
         **dict.fromkeys((*HALVES, *PAIRS), 2)}  # else 4  # fmt: skip
FLOATS = ("float", "double", *HALVES)
ATOMICS = {"atomicAdd": "add", "atomicMin": "minimum", "atomicMax": "maximum"}
CARRIERS = ("unsigned", "int", "uint", "uint32_t", "int32_t", "uint2", "int2", "uint4", "int4")
"""Types that hold halves by the way."""
NOWHERE = "[]"  # where a pointer leads that has no value yet
Values = Any
"""One number for all threads, an array of one for each, a vector of such, or a pointer."""


class Pointer(Struct, frozen=True):
    """A place in an array: `at` counts words, elements of no vector. dims: of the array that it names, or of a row of
    it; none where it leads to elements one behind the other. width: words of an element; size: bytes of a word; each:
    words of a part of it (of `.x`), which are several where two-byte numbers are moved as something larger."""

    memory: str
    at: Values
    dims: tuple[int, ...] = ()
    width: int = 1
    size: int = 4
    each: int = 1

    def moved(self, by: Values) -> Pointer:
        """The place so many elements, or rows, further on."""
        at = self.at + by * math.prod(self.dims[1:]) * self.width
        return Pointer(self.memory, at, self.dims[1:] and (1, *self.dims[1:]), self.width, self.size, self.each)


class Vector(Struct, frozen=True):
    """float4 and its like, or several two-byte numbers. size, each: as of a Pointer."""

    parts: tuple[Values, ...]
    size: int = 4
    each: int = 1


def unset(star: str, width: int, size: int) -> Values:
    """What a name stands for that is declared without a value."""
    if star:
        return Pointer(NOWHERE, 0, (), width, size)
    return Vector((0,) * width, size) if width > 1 else 0


def part(whole: Vector, n: int) -> Values:
    """Its .x, .y, .z or .w."""
    mine = whole.parts[n * whole.each : (n + 1) * whole.each]
    return mine[0] if whole.each == 1 else Vector(mine, whole.size, whole.each)


def with_part(whole: Vector, n: int, value: Values) -> Vector:
    """With another .x, .y, .z or .w."""
    mine = value.parts if isinstance(value, Vector) else (value,)
    if len(mine) != whole.each:
        raise Unplayable("a value of another type")
    return Vector((*whole.parts[: n * whole.each], *mine, *whole.parts[(n + 1) * whole.each :]), whole.size, whole.each)


class Reference(Struct, frozen=True):
    """A name that stands for a place."""

    to: Pointer


def words(kind: str) -> tuple[int, int]:
    """(words of an element, bytes of a word) of a type."""
    last = kind.split(" ")[-1] if kind else ""
    if last in VECTORS:
        return VECTORS[last], 8 if last.startswith("double") else 4
    return 1 + (last in PAIRS), next((BYTES[w] for w in kind.split(" ") if w in BYTES), 4)


def carried(kind: str) -> tuple[int, int, int]:
    """(words, bytes of a word, words of a part) of a type that holds two-byte numbers."""
    width, size = words(kind)
    return width * size // 2, 2, size // 2


def chosen(mask: Any, new: Values, old: Values) -> Values:
    """The new value where the mask says so, the old one elsewhere."""
    if isinstance(new, Vector) and isinstance(old, Vector):
        parts = tuple(np.where(mask, a, b) for a, b in zip(new.parts, old.parts, strict=True))
        return Vector(parts, new.size, new.each)
    both = isinstance(new, Pointer) and isinstance(old, Pointer)
    if both and old.memory == NOWHERE:
        return new
    if both and structs.replace(new, at=0) == structs.replace(old, at=0):
        return structs.replace(new, at=np.where(mask, new.at, old.at))
    if isinstance(new, (Vector, Pointer)) or isinstance(old, (Vector, Pointer)):
        raise Unplayable("a vector or a pointer of some threads")
    return np.where(mask, new, old)


def as_float(value: Values) -> Values:
    return value if isinstance(value, (Vector, Pointer)) else value * 1.0


def as_whole(value: Values) -> Values:
    """A fraction without what is behind its point."""
    if isinstance(value, (Vector, Pointer)) or np.asarray(value).dtype.kind != "f":
        return value
    return np.trunc(value).astype(np.int64)


def typed(value: Values, kind: str, *, real: bool) -> Values:
    """As a variable of a type holds it. real: whether fractions are played as what they are."""
    if kind == "auto" or isinstance(value, (Vector, Pointer)) or not (real or kind == "bool"):
        return value
    return as_float(value) if kind.startswith(FLOATS) else np.asarray(value) != 0 if kind == "bool" else as_whole(value)


def fits(value: Values, kind: str) -> bool:
    """Whether a variable of a type may hold a value, as far as their sizes say."""
    width, size = words(kind)
    if not isinstance(value, Vector) or value.size != 2:
        return (len(value.parts) if isinstance(value, Vector) else 1) == width
    return len(value.parts) * 2 == width * size and (width > 1 or kind.split(" ")[-1] in CARRIERS)
