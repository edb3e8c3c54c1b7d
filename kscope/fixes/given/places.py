"""Where the elements of a play lie: arrays, pointers, rows, vectors and their parts, references; what is loaded and
stored there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct

from kscope.fixes.given.grammar import HALVES, VECTORS, Node, Unplayable
from kscope.fixes.given.races import Races

CELL = 8  # steps that an element of an array is taken for, so that no text asks for a gigabyte
LETTERS = "xyzw"
MADE = {f"make_{name}": count for name, count in VECTORS.items()}
BYTES = {"double": 8, "long": 8, "size_t": 8, "short": 2, "char": 1, "bool": 1, "int64_t": 8, "uint64_t": 8,
         **dict.fromkeys(HALVES, 2)}  # else 4; fmt: skip
FLOATS = ("float", "double", *HALVES)
Values = Any
"""One number for all threads, an array of one for each, a vector of such, or a pointer."""


class Pointer(Struct, frozen=True):
    """A place in an array: `at` counts words, elements of no vector. dims: of the array that it names, or of a row of
    it; none where it leads to elements one behind the other. width: words of an element; size: bytes of a word."""

    memory: str
    at: Values
    dims: tuple[int, ...] = ()
    width: int = 1
    size: int = 4

    def moved(self, by: Values) -> Pointer:
        """The place so many elements, or rows, further on."""
        at = self.at + by * math.prod(self.dims[1:]) * self.width
        return Pointer(self.memory, at, self.dims[1:] and (1, *self.dims[1:]), self.width, self.size)


class Vector(Struct, frozen=True):
    """float4 and its like."""

    parts: tuple[Values, ...]


class Reference(Struct, frozen=True):
    """A name that stands for a place."""

    to: Pointer


def words(kind: str) -> tuple[int, int]:
    """(words of an element, bytes of a word) of a type."""
    last = kind.split(" ")[-1] if kind else ""
    if last in VECTORS:
        return VECTORS[last], 8 if last.startswith("double") else 4
    return 1, next((BYTES[w] for w in kind.split(" ") if w in BYTES), 4)


def chosen(mask: Any, new: Values, old: Values) -> Values:
    """The new value where the mask says so, the old one elsewhere."""
    if isinstance(new, Vector) and isinstance(old, Vector):
        return Vector(tuple(np.where(mask, a, b) for a, b in zip(new.parts, old.parts, strict=True)))
    if isinstance(new, (Vector, Pointer)) or isinstance(old, (Vector, Pointer)):
        raise Unplayable("a vector or a pointer of some threads")
    return np.where(mask, new, old)


class Places:
    """What a play has of memory. Local arrays have a row for each word, and in it a number for each thread; shared ones
    a number for each block."""

    block: Any
    each: Any
    blocks: int
    threads: int

    def __init__(self, memory: dict[str, Any], real: bool) -> None:
        self.memory, self.real = memory, real
        self.loads = self.shared = 0
        self.own: dict[str, int] = {}  # words of arrays that a thread has
        self.written: dict[str, Any] = {}  # of an array here, which words have a value
        self.arrays: dict[str, tuple[Any, bool]] = {}  # words, whether shared
        self.names: dict[str, Any] = {}
        self.read = {name: np.zeros(len(words), dtype=bool) for name, words in memory.items()}
        self.races: Races | None = None

    @property
    def on(self) -> Any:
        """Which threads are here."""
        return self._on

    @on.setter
    def on(self, mask: Any) -> None:
        self._on, self.every = mask, bool(mask.all())

    def value(self, node: Node) -> Values:
        raise NotImplementedError

    def pay(self, count: int = 0) -> None:
        raise NotImplementedError

    def array(self, name: str, kind: str, dims: tuple[int, ...], value: Node | None, *, shared: bool) -> None:
        """A new array of a block or a thread."""
        width, size = words(kind)
        count = math.prod(dims) * width
        shape = count, self.blocks if shared else self.threads
        self.pay(CELL * shape[0] * shape[1])
        floats = self.real and any(kind.split(" ")[-1].startswith(f) for f in FLOATS)
        self.arrays[name] = np.zeros(shape, dtype=np.float64 if floats else np.int64), shared
        self.names[name] = Pointer(f"[{name}]", 0, dims, width, size)
        self.written[f"[{name}]"] = np.full(shape, value is not None)
        self.shared += count * shared
        self.own[name] = max(count * (not shared), self.own.get(name, 0))
        if value is not None and value != ("list", [("number", 0)] * len(value[1])):
            raise Unplayable("values of an array")

    def first(self, kind: str, star: str, value: Node | None) -> Values:
        """What a name stands for at first."""
        width, size = words(kind)
        if star == "&":
            return self._reference(width, size, value)
        if value is None or value == ("list", []):
            return Vector((0,) * width) if width > 1 else 0
        if value[0] == "list":
            parts = [self.value(v) for v in value[1]]
            first: Values = Vector((*parts, *(0,) * (width - len(parts)))) if width > 1 else parts[0]
        else:
            first = self.value(value)
        flat = isinstance(first, Pointer) and len(first.dims) > 1
        shape = len(first.parts) if isinstance(first, Vector) else 1
        if isinstance(first, Pointer) != bool(star) or flat or (kind != "auto" and not star and shape != width):
            raise Unplayable("a value of another type")
        if star and kind != "auto" and (first.width, first.size) != (width, size):
            raise Unplayable("a pointer of another type")
        return first

    def _reference(self, width: int, size: int, value: Node | None) -> Reference:
        to = self.spot(value) if value is not None else None
        if to is None or to.dims or (to.width, to.size) != (width, size):
            raise Unplayable("a name for what lies nowhere")
        return Reference(to)

    def spot(self, node: Node) -> Pointer | None:
        """The place that an expression stands for; None for a name of a value that lies nowhere."""
        if node[0] == "index":
            base, by = self.value(node[1]), self.value(node[2])
            if not isinstance(base, Pointer) or isinstance(by, (Pointer, Vector)):
                raise Unplayable("an index of a number")
            to = base.moved(by)
            return Pointer(to.memory, to.at, base.dims[1:], to.width, to.size)
        if node[0] == "deref":
            base = self.value(node[1])
            if not isinstance(base, Pointer) or len(base.dims) > 1:
                raise Unplayable("what a number points to")
            return Pointer(base.memory, base.at, (), base.width, base.size)
        if node[0] == "member":
            base = self.spot(node[1])
            return base and Pointer(base.memory, base.at + self._letter(node[2], base.width), (), 1, base.size)
        known = self.names[node[1]] if node[0] == "name" else None
        return known.to if isinstance(known, Reference) else None

    def _letter(self, letter: str, width: int) -> int:
        if len(letter) != 1 or letter not in LETTERS[:width] or width == 1:
            raise Unplayable(letter)
        return LETTERS.index(letter)

    def got(self, to: Pointer) -> Values:
        """What lies at a place: a row is its address."""
        if to.dims:
            return to
        parts = tuple(self._load(to.memory, self._aligned(to) + n) for n in range(to.width))
        return parts[0] if to.width == 1 else Vector(parts)

    def put(self, to: Pointer, value: Values) -> None:
        parts = value.parts if isinstance(value, Vector) else (value,)
        if to.dims or len(parts) != to.width or any(isinstance(p, (Pointer, Vector)) for p in parts):
            raise Unplayable("a value of another type")
        for n, part in enumerate(parts):
            self._put(to.memory, self._aligned(to) + n, part)

    def _aligned(self, to: Pointer) -> Values:
        """Where a vector may lie: at multiples of its size, in shared memory of arrays that are."""
        if to.width in (2, 4):
            cells, _ = self.cells(to.memory)
            within = np.broadcast_to(to.at, self.on.shape)[self.on]
            if np.any(within % to.width) or (to.memory.startswith("[") and len(cells) % to.width):
                raise Unplayable("a vector across its alignment")
        return to.at

    def _put(self, name: str, at: Values, value: Values) -> None:
        if (row := self._row(name, at)) is not None:
            if self.every:
                row[0][...] = value
                row[1][...] = True
            else:
                np.copyto(row[0], value, where=self.on, casting="unsafe")
                row[1][self.on] = True
            return
        cells, where, place = self.place(name, at)
        what = self.here(value)
        if self.races is not None and not self._own(name):
            self.races.write(name, self._named(name, where), self.here(self.each), len(cells))
        cells[place] = what
        if self.races is not None and not np.array_equal(cells[place], what.astype(cells.dtype)):
            raise Unplayable("several values for one place")
        if name in self.written:
            self.written[name][place] = True

    def _row(self, name: str, at: Values) -> tuple[Any, Any] | None:
        """(numbers, whether they have been written) of a word that each thread has, where it is one for all."""
        if not isinstance(at, int) or not self._own(name):
            return None
        cells, _ = self.arrays[name[1:-1]]
        if not 0 <= at < len(cells):
            raise Unplayable("out of bounds")
        self.pay(self.threads)
        return cells[at], self.written[name][at]

    def here(self, value: Values) -> Any:
        """A number for each thread that is here."""
        one = np.broadcast_to(value, self.on.shape)
        return one if self.every else one[self.on]

    def place(self, name: str, at: Values) -> tuple[Any, Any, Any]:
        """(all words, those of the threads that are here, how these are named among all) of an array."""
        self.pay(self.threads)
        cells, of = self.cells(name)
        where = self.here(at)
        if where.size and not where.astype(np.uint64).max() < len(cells):  # what is negative is large
            raise Unplayable("out of bounds")
        return cells, where, where if of is None else (where, self.here(of))

    def _named(self, name: str, where: Any) -> Any:
        """A number for each word that is another one in another block's shared memory."""
        return where * self.blocks + self.here(self.block) if name.startswith("[") else where

    def _own(self, name: str) -> bool:
        return name.startswith("[") and not self.arrays[name[1:-1]][1]

    def _load(self, name: str, at: Values) -> Values:
        if (row := self._row(name, at)) is not None:
            if not (row[1].all() or row[1][self.on].all()):
                raise Unplayable("a value that nobody wrote")
            return row[0].copy()
        cells, where, place = self.place(name, at)
        self.loads += len(where) * (name in self.memory)
        if self.races is not None and not self._own(name):
            self.races.read(name, self._named(name, where), self.here(self.each), len(cells))
            if name in self.memory:
                self.read[name][where] = True
        got = cells[place]
        if name in self.written and not self.written[name][place].all():
            raise Unplayable("a value that nobody wrote")
        if len(got) == self.threads:
            return got
        out = np.zeros(self.threads, dtype=cells.dtype)
        out[self.on] = got
        return out

    def cells(self, name: str) -> tuple[Any, Any]:
        """An array's words, and which column of them is whose; None for memory, which is everybody's."""
        if name.startswith("["):
            cells, shared = self.arrays[name[1:-1]]
            return cells, self.block if shared else self.each
        return self.memory[name], None

    def joined(self, name: str, to: Values, value: Values) -> None:
        """An atomic whose former value nobody asks for."""
        if not isinstance(to, Pointer) or len(to.dims) > 1 or to.width != 1 or isinstance(value, (Pointer, Vector)):
            raise Unplayable(name)
        cells, where, place = self.place(to.memory, to.at)
        if self._own(to.memory) or (to.memory in self.written and not self.written[to.memory][place].all()):
            raise Unplayable("a value that nobody wrote")
        if self.races is not None:
            self.races.join(to.memory, self._named(to.memory, where), self.here(self.each), len(cells), name)
        ATOMICS[name].at(cells, place, self.here(value))


ATOMICS: dict[str, Any] = {"atomicAdd": np.add, "atomicMin": np.minimum, "atomicMax": np.maximum}
