"""Shared memory by addresses, where a kernel's text is played: bytes that hold two-byte numbers, and what is still on
its way there."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.kinds import Pointer, Values, Vector, carried, words
from kscope.fixes.given.places import CELL
from kscope.fixes.given.played import Threads
from kscope.fixes.warpgroup.fragments import ROW, bits, both
from kscope.model.lazily import np

LINE = 1024  # bytes: a block's shared memory begins on a multiple of it
NOBODY = -1
FLOAT = 2.0**61  # what stands behind a float among two-byte numbers, in place of its other half


class _Flight(Struct):
    """Numbers on their way: by thread that asked for them (rows) to which cells, of which of its groups."""

    name: str
    threads: Any
    cells: Any
    numbers: Any
    group: Any


class Shared(Threads):
    """Threads whose shared memory has addresses. past: bytes that the first array begins behind a line; fenced: of
    words that were written the ordinary way, which thread has not told the other way of reading yet."""

    past: int

    def begin(self) -> None:
        self.bases: list[tuple[int, int, str]] = []
        self.unfenced: dict[str, Any] = {}
        self.flights: list[_Flight] = []
        self.closed = np.zeros(self.threads, dtype=np.int64)  # groups of copies that each thread has closed

    def array(self, name: str, kind: str, dims: tuple[int, ...], value: Node | None, *, shared: bool) -> None:
        if not shared:
            super().array(name, kind, dims, value, shared=shared)
            return
        if words(kind) == (1, 1):  # bytes
            if len(dims) != 1 or dims[0] % 2 or not self.halves or value is not None:
                raise Unplayable("bytes of several dimensions")
            self.pay(CELL * dims[0] * self.blocks)
            self.arrays[name] = np.zeros((dims[0] // 2, self.blocks)), True
            self.names[name] = Pointer(f"[{name}]", 0, dims, 1, 1)
            self.written[f"[{name}]"] = np.zeros((dims[0] // 2, self.blocks), dtype=bool)
            self.shared += dims[0]
        else:
            super().array(name, kind, dims, value, shared=shared)
        size = max(2, self.names[name].size)
        end = max((at + count for at, count, _ in self.bases), default=-1)
        at = (end + LINE) // LINE * LINE + self.past
        self.bases.append((at, len(self.arrays[name][0]) * size, name))
        self.unfenced[f"[{name}]"] = np.full(self.arrays[name][0].shape, NOBODY)

    def recast(self, to: Pointer, kind: str) -> Pointer:
        width, size = words(kind)
        if to.size != 1 or size == 1 or not to.memory.startswith("["):
            return super().recast(to, kind)
        if size > 2:
            width, size, each = carried(kind)
        else:
            each = 1
        if np.any(np.asarray(to.at) % 2):
            raise Unplayable("a number across two")
        return Pointer(to.memory, np.asarray(to.at) // 2 if np.ndim(to.at) else to.at // 2, (), width, size, each)

    def got(self, to: Pointer) -> Values:
        if to.size == 1 and not to.dims:
            raise Unplayable("bytes as numbers")
        found = super().got(to)
        if isinstance(found, Vector) and (found.size, found.each) == (2, 2):
            behind = [self.here(part) == FLOAT for part in found.parts[1::2]]
            if all(one.all() for one in behind):
                found = Vector(found.parts[::2]) if len(behind) > 1 else found.parts[0]
            elif any(one.any() for one in behind):
                raise Unplayable("floats and others in one place")
        return found

    def put(self, to: Pointer, value: Values) -> None:
        if to.size == 1:
            raise Unplayable("bytes as numbers")
        if to.size == 4 and to.width == 1 and isinstance(value, Vector) and self.own_words(to.memory):
            value = bits(value, upper=self.upper)
        if (to.size, to.each) == (2, 2):
            value = self._in_halves(to, value)
        super().put(to, value)

    def _in_halves(self, to: Pointer, value: Values) -> Values:
        """What is put into an array of two-byte numbers as something larger: words of two of them, or floats, each a
        number and a mark behind it."""
        floats = isinstance(value, Vector) and value.size == 4
        if floats or (not isinstance(value, (Vector, Pointer)) and np.asarray(value).dtype.kind == "f"):
            if not to.memory.startswith("["):
                raise Unplayable("floats among others")
            parts = value.parts if isinstance(value, Vector) else (value,)
            return Vector(tuple(x for part in parts for x in (part, FLOAT)), 2, 2)
        return value if isinstance(value, (Vector, Pointer)) else Vector(both(value, upper=self.upper), 2, 2)

    def own_words(self, memory: str) -> bool:
        """Whether it is a thread's own array of whole numbers, which may hold two of two bytes."""
        return self._own(memory) and self.arrays[memory[1:-1]][0].dtype.kind == "i"

    def _put(self, name: str, at: Values, value: Values) -> None:
        super()._put(name, at, value)
        if name in self.unfenced:
            self.unfenced[name][self.place(name, at)[2]] = self.here(self.each)

    def address(self, to: Values) -> Values:
        """__cvta_generic_to_shared"""
        if not isinstance(to, Pointer) or not to.memory.startswith("["):
            raise Unplayable("an address of another kind")
        base = next((at for at, _, name in self.bases if f"[{name}]" == to.memory), None)
        if base is None:
            raise Unplayable("an address of another kind")
        return base + to.at * (to.size if to.size == 1 else self._size(to.memory))

    def _size(self, memory: str) -> int:
        return next(count for _, count, name in self.bases if f"[{name}]" == memory) // len(self.cells(memory)[0])

    def lies(self, addresses: Any, count: int) -> tuple[str, Any]:
        """(array, first cell) of pieces of so many bytes, which hold two-byte numbers."""
        addresses = np.asarray(addresses)
        for base, size, name in self.bases:
            if (addresses >= base).all() and (addresses + count <= base + size).all():
                if self._size(f"[{name}]") != 2 or (addresses % min(count, 16)).any():
                    raise Unplayable("a piece of other numbers")
                return f"[{name}]", (addresses - base) // 2
        raise Unplayable("out of bounds")

    def copy(self, to: Values, source: Values, count: Values, given: Values) -> None:
        """cp.async: `given` bytes from a place, zeros behind them."""
        if not isinstance(source, Pointer) or source.dims[1:] or source.size != 2 or count not in (4, 8, 16):
            raise Unplayable("a copy of another kind")
        name, first = self.lies(self.here(to), count)
        numbers = np.zeros((self.threads, count // 2))
        was = self.on
        for n in range(count // 2):
            self.on = was & (np.broadcast_to(given, was.shape) > 2 * n)
            if self.on.any():
                if (self.here(source.at) % (count // 2)).any():
                    raise Unplayable("a piece across its alignment")
                numbers[:, n] = np.where(self.on, self._load(source.memory, source.at + n), 0)
        self.on = was
        cells, threads = first[:, None] + np.arange(count // 2), self.here(self.each)
        self._noted(name, cells, threads, "write")
        self.written[name][cells, self.block[threads][:, None]] = False
        self.flights.append(_Flight(name, threads, cells, numbers[threads], self.closed[threads]))

    def close(self) -> None:
        """cp.async.commit_group"""
        self.closed[self.on] += 1

    def land(self, left: Values) -> None:
        """cp.async.wait_group: all copies but those of the last groups are there."""
        if not isinstance(left, (int, np.integer)):
            raise Unplayable("a number of groups of each thread's own")
        flying = []
        for one in self.flights:
            there = self.on[one.threads] & (one.group < self.closed[one.threads] - left)
            if there.any():
                self._landed(one, there)
            if not there.all():
                stay = ~there
                flying.append(_Flight(one.name, one.threads[stay], one.cells[stay], one.numbers[stay], one.group[stay]))
        self.flights = flying

    def _landed(self, one: _Flight, there: Any) -> None:
        cells, threads = one.cells[there], one.threads[there]
        where = cells, self.block[threads][:, None]
        self._noted(one.name, cells, threads, "write")
        self.cells(one.name)[0][where] = one.numbers[there]
        self.written[one.name][where] = True
        self.unfenced[one.name][where] = threads[:, None]

    def fence(self) -> None:
        """fence.proxy.async"""
        for name, by in self.unfenced.items():
            self.unfenced[name] = np.where((by >= 0) & self.on[by], NOBODY, by)

    def _noted(self, name: str, cells: Any, threads: Any, how: str) -> None:
        """That threads (a row of cells each) read or write."""
        self.pay(math.prod(cells.shape))
        if self.races is not None:
            all_threads = np.broadcast_to(threads[:, None], cells.shape).ravel()
            named = (cells * self.blocks + self.block[threads][:, None]).ravel()
            getattr(self.races, how)(name, named, all_threads, len(self.cells(name)[0]))

    def rows(self, addresses: Any, threads: Any) -> Any:
        """Of each address the eight numbers there, which its thread reads."""
        name, first = self.lies(addresses, 2 * ROW)
        cells = first[:, None] + np.arange(ROW)
        where = cells, self.block[threads][:, None]
        self._noted(name, cells, threads, "read")
        if not self.written[name][where].all():
            raise Unplayable("a value that nobody wrote")
        return self.cells(name)[0][where]
