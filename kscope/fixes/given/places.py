"""Where the elements of a play lie: arrays, pointers, rows, vectors and their parts, references; what is loaded and
stored there."""

from __future__ import annotations

import math
from typing import Any

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.kinds import (
    ATOMICS,
    CARRIERS,
    FLOATS,
    LETTERS,
    Pointer,
    Reference,
    Values,
    Vector,
    carried,
    fits,
    typed,
    unset,
    words,
)
from kscope.fixes.given.races import Races
from kscope.fixes.given.type_names import HALVES
from kscope.fixes.given.whole_numbers import before, within
from kscope.model.lazily import np

WHOLE = (2, 4, 8)  # words of a vector that lies at a multiple of its size
CELL = 8  # steps that an element of an array is taken for, so that no text asks for a gigabyte


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
        self.taken: set[str] = set()  # variables whose address is taken
        self.halves = False  # whether the kernel's pointers lead to two-byte numbers

    @property
    def on(self) -> Any:
        """Which threads are here."""
        return self._on

    @on.setter
    def on(self, mask: Any) -> None:
        self._on, self.every = mask, bool(mask.all())

    def value(self, node: Node) -> Values:
        raise NotImplementedError

    def pay(self, count: int = 0) -> None: ...

    def array(self, name: str, kind: str, dims: tuple[int, ...], value: Node | None, *, shared: bool) -> None:
        """A new array of a block or a thread."""
        small = self.halves and kind in CARRIERS and words(kind)[0] > 1  # a uint4 holds eight
        width, size, each = carried(kind) if small else (*words(kind), 1)
        count = math.prod(dims) * width
        shape = count, self.blocks if shared else self.threads
        self.pay(CELL * shape[0] * shape[1])
        floats = self.real and (small or kind.split(" ")[-1].startswith(FLOATS))
        self.arrays[name] = np.zeros(shape, dtype=np.float64 if floats else np.int64), shared
        self.names[name] = Pointer(f"[{name}]", 0, dims, width, size, each)
        self.written[f"[{name}]"] = np.full(shape, value is not None)
        self.shared += count * shared
        self.own[name] = max(count * (not shared), self.own.get(name, 0))
        if value is None or value == ("list", [("number", 0)] * len(value[1])):
            return
        if value[0] != "list" or shared or width > 1 or len(dims) > 1 or len(value[1]) > count:
            raise Unplayable("values of an array")
        for n, one in enumerate(value[1]):
            self.put(Pointer(f"[{name}]", n, (), width, size, each), self.value(one))

    def first(self, kind: str, star: str, value: Node | None) -> Values:
        """What a name stands for at first."""
        width, size = words(kind)
        if star == "&":
            return self._reference(width, size, value)
        if value is None or value == ("list", []):
            return typed(unset(star, width, size), kind, real=self.real)
        if value[0] == "list":
            parts = [self.value(v) for v in value[1]]
            first: Values = Vector((*parts, *(0,) * (width - len(parts))), size) if width > 1 else parts[0]
        else:
            first = self.value(value)
        flat = isinstance(first, Pointer) and len(first.dims) > 1
        if isinstance(first, Pointer) != bool(star) or flat or (kind != "auto" and not star and not fits(first, kind)):
            raise Unplayable("a value of another type")
        if star and kind != "auto" and (first.width, first.size) not in ((width, size), carried(kind)[:2]):
            raise Unplayable("a pointer of another type")
        return typed(first, kind, real=self.real)

    def kept(self, name: str, kind: str, value: Node | None) -> None:
        """A variable whose address is taken: it lies in an array of its own, in which it is two-byte numbers where it
        holds such."""
        first = self.first(kind, "", value) if value is not None else None
        small = first.size == 2 if isinstance(first, Vector) else value is None and self.halves and kind in CARRIERS
        width, size, each = carried(kind) if small else (*words(kind), 1)
        if isinstance(self.names.get(name), (Pointer, Reference)):
            raise Unplayable("a name that hides another")
        floats, shape = self.real and (small or kind.startswith(FLOATS)), (width, self.threads)
        self.pay(width * self.threads)
        self.arrays[name] = np.zeros(shape, dtype=np.float64 if floats else np.int64), False
        self.written[f"[{name}]"] = np.zeros(shape, dtype=bool)
        self.names[name] = Reference(Pointer(f"[{name}]", 0, (), width, size, each))
        if first is not None:
            self.put(self.names[name].to, first)

    def recast(self, to: Pointer, kind: str) -> Pointer:
        """A pointer to elements of another type at the same place."""
        width, size = words(kind)
        if to.size == 2 and size > 2:
            width, size, each = carried(kind)
            return Pointer(to.memory, to.at, (), width, size, each)
        if to.size != size or (self.halves and size == 2 and not kind.startswith(HALVES)):
            raise Unplayable("words of another size")
        return Pointer(to.memory, to.at, (), width, size)

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
            return Pointer(to.memory, to.at, base.dims[1:], to.width, to.size, to.each)
        if node[0] == "deref":
            base = self.value(node[1])
            if not isinstance(base, Pointer) or len(base.dims) > 1:
                raise Unplayable("what a number points to")
            return Pointer(base.memory, base.at, (), base.width, base.size, base.each)
        if node[0] == "member":
            base = self.spot(node[1])
            if base is None:
                return None
            at = base.at + base.each * self._letter(node[2], base.width // base.each)
            return Pointer(base.memory, at, (), base.each, base.size, base.each)
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
        if to.width == 1:
            return self._load(to.memory, to.at)
        return Vector(self._loaded(to.memory, self._aligned(to), to.width), to.size, to.each)

    def put(self, to: Pointer, value: Values) -> None:
        parts = value.parts if isinstance(value, Vector) else (value,)
        if to.dims or len(parts) != to.width or any(isinstance(p, (Pointer, Vector)) for p in parts):
            raise Unplayable("a value of another type")
        at = self._aligned(to)
        for n, part in enumerate(parts):
            self._put(to.memory, at + n, part)

    def _aligned(self, to: Pointer) -> Values:
        """Where a vector may lie: at multiples of its size, in shared memory of arrays that are."""
        if to.width in WHOLE:
            cells, _ = self.cells(to.memory)
            begins = to.at if isinstance(to.at, int) else self.here(to.at)
            if np.any(begins % to.width) or (to.memory.startswith("[") and len(cells) % to.width):
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
            self.races.write(name, self._named(name, where, each := self.here(self.each)), each, len(cells))
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
        within(where, len(cells))
        return cells, where, where if of is None else (where, self.here(of))

    def _named(self, name: str, where: Any, threads: Any) -> Any:
        """A number for each word that is another one in another block's shared memory."""
        return where * self.blocks + self.block[threads] if name.startswith("[") else where

    def _own(self, name: str) -> bool:
        return name.startswith("[") and not self.arrays[name[1:-1]][1]

    def _load(self, name: str, at: Values) -> Values:
        if (row := self._row(name, at)) is not None:
            if not (row[1].all() or row[1][self.on].all()):
                raise Unplayable("a value that nobody wrote")
            return row[0].copy()
        self.pay(self.threads)
        return self._spread_out(self._read(name, self.here(at), self.here(self.each)))

    def _loaded(self, name: str, at: Values, width: int) -> tuple[Values, ...]:
        """Words one behind the other, of whole vectors at once: no two of them share a word at different places."""
        if width not in WHOLE or (isinstance(at, int) and self._own(name)):
            return tuple(self._load(name, at + n) for n in range(width))
        self.pay(width * self.threads)
        where, threads = self.here(at), self.here(self.each)
        got = self._read(name, (where + np.arange(width)[:, None]).ravel(), np.tile(threads, width))
        return tuple(self._spread_out(row) for row in got.reshape(width, len(threads)))

    def _read(self, name: str, where: Any, threads: Any) -> Any:
        """What threads find at words of an array."""
        cells, of = self.cells(name)
        within(where, len(cells))
        place = where if of is None else (where, of[threads])
        self.loads += len(where) * (name in self.memory)
        if self.races is not None and not self._own(name):
            self.races.read(name, self._named(name, where, threads), threads, len(cells))
            if name in self.memory:
                self.read[name][where] = True
        if name in self.written and not self.written[name][place].all():
            raise Unplayable("a value that nobody wrote")
        return cells[place]

    def _spread_out(self, got: Any) -> Any:
        """A number for each thread, of those that are here."""
        if len(got) == self.threads:
            return got
        out = np.zeros(self.threads, dtype=got.dtype)
        out[self.on] = got
        return out

    def cells(self, name: str) -> tuple[Any, Any]:
        """An array's words, and which column of them is whose; None for memory, which is everybody's."""
        if name.startswith("["):
            cells, shared = self.arrays[name[1:-1]]
            return cells, self.block if shared else self.each
        return self.memory[name], None

    def joined(self, name: str, to: Values, value: Values) -> Values:
        """An atomic, and of a sum what each thread finds there if they come in the order of their numbers."""
        if not isinstance(to, Pointer) or len(to.dims) > 1 or to.width != 1 or isinstance(value, (Pointer, Vector)):
            raise Unplayable(name)
        at = to.memory
        cells, where, place = self.place(at, to.at)
        if self._own(at) or (at in self.written and not self.written[at][place].all()):
            raise Unplayable("a value that nobody wrote")
        named, added = self._named(at, where, threads := self.here(self.each)), self.here(value)
        if self.races is not None:
            self.races.join(at, named, threads, len(cells), name)
        found = cells[place] + before(named, added)
        getattr(np, ATOMICS[name]).at(cells, place, added)
        return self._spread_out(found)
