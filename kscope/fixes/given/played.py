"""A kernel's text played on whole numbers: all threads of all blocks step by step together, one of the orders in which
a GPU may run them. Sums of whole numbers are exact, so that two texts give the same or do not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from kscope.fixes.given.grammar import Node, Parser, Unplayable
from kscope.fixes.given.whole_numbers import combined

STEPS = 100_000_000  # numbers that are worked on in all: a second at most (judged)
LEAST = 256  # of them that a step is taken for, however few it is of: what looking at its text costs
CELL = 8  # that an element of an array is taken for, so that no text asks for a gigabyte
ROUNDS = 4096  # of one loop
_CALLS = {"fmaxf": np.maximum, "fminf": np.minimum, "max": np.maximum, "min": np.minimum, "fabsf": np.abs}
Values = Any
"""One number for all threads, or an array of one for each."""


class Pointer(Struct, frozen=True):
    """A place in an array: `at` counts elements."""

    memory: str
    at: Values


class Played(Struct, frozen=True):
    """What a play took: elements that threads loaded from global memory, and words of shared memory a block."""

    loads: int
    shared: int


def play(
    text: str, grid: tuple[int, int], block: tuple[int, int], memory: dict[str, Any], numbers: Mapping[str, int]
) -> Played:  # fmt: skip
    """Runs a kernel's body (from its brace on) on arrays, in place. memory: arrays of whole numbers by the names of
    pointers; numbers: what other names stand for. Raises Unplayable, also where something is read that nobody has
    written."""
    body = Parser(text).body()
    try:
        one = _Threads(grid, block, memory, numbers)
        one.run(body)
        return Played(one.loads, one.shared)
    except (IndexError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise Unplayable(str(error)) from error


class _Threads:
    """All threads. Local arrays have a row for each element, and in it a number for each thread; shared ones a number
    for each block."""

    def __init__(
        self, grid: tuple[int, int], block: tuple[int, int], memory: dict[str, Any], numbers: Mapping[str, int]
    ) -> None:
        size, self.blocks = block[0] * block[1], grid[0] * grid[1]
        self.threads = size * self.blocks
        self.each = np.arange(self.threads)
        self.block, lane = self.each // size, self.each % size
        self.memory, self.steps = memory, STEPS
        self.loads = self.shared = 0
        self.written: dict[str, Any] = {}  # of an array here, which elements have a value
        self.names: dict[str, Values] = {
            **numbers, "threadIdx.x": lane % block[0], "threadIdx.y": lane // block[0], "threadIdx.z": 0,
            "blockDim.x": block[0], "blockDim.y": block[1], "blockDim.z": 1, "blockIdx.x": self.block % grid[0],
            "blockIdx.y": self.block // grid[0], "blockIdx.z": 0, "gridDim.x": grid[0], "gridDim.y": grid[1],
            "gridDim.z": 1,
        }  # fmt: skip
        self.names |= {name: Pointer(name, 0) for name in memory}
        self.arrays: dict[str, tuple[Any, tuple[int, ...], bool]] = {}  # elements, dimensions, whether shared
        self.on: Any = np.ones(self.threads, dtype=bool)
        self.alive = self.on.copy()

    def run(self, node: Node) -> None:
        self._pay()
        getattr(self, f"_do_{node[0]}")(node)

    def _do_block(self, node: Node) -> None:
        before = dict(self.names)
        for one in node[1]:
            self.run(one)
        hidden = self.names
        self.names = {name: hidden[name] for name in before}

    def _do_barrier(self, node: Node) -> None:
        if not np.array_equal(self.on, self.alive):
            raise Unplayable("a barrier that not all come to")

    def _do_do(self, node: Node) -> None:
        self.value(node[1])

    def _do_return(self, node: Node) -> None:
        self.alive = self.alive & ~self.on
        self.on = np.zeros_like(self.on)

    def _do_if(self, node: Node) -> None:
        test = self.value(node[1])
        was = self.on
        for mask, part in ((np.asarray(test) != 0, node[2]), (np.asarray(test) == 0, node[3])):
            self.on = was & self.alive & mask
            if self.on.any():
                self.run(part)
        self.on = was & self.alive

    def _do_for(self, node: Node) -> None:
        outside, was = dict(self.names), self.on
        self.run(node[1])
        for _ in range(ROUNDS):
            self.on = self.on & self.alive & (np.asarray(self.value(node[2])) != 0)
            if not self.on.any():
                break
            self.run(node[4])
            self.value(node[3])
            self._pay()
        else:
            raise Unplayable("a long loop")
        inside = self.names
        self.names = {name: inside[name] for name in outside}
        self.on = was & self.alive

    def _do_declare(self, node: Node) -> None:
        _, _, made, shared = node
        for name, pointer, dims, value in made:
            if dims:
                self._array(name, tuple(int(self.value(d)) for d in dims), value, shared=shared)
            else:
                first = self.value(value) if value is not None else 0
                if isinstance(first, Pointer) != pointer:
                    raise Unplayable("a pointer of a number")
                self.names[name] = first
                self.arrays.pop(name, None)

    def _array(self, name: str, dims: tuple[int, ...], value: Node | None, *, shared: bool) -> None:
        count = math.prod(dims)
        shape = count, self.blocks if shared else self.threads
        self._pay(CELL * shape[0] * shape[1])
        self.arrays[name] = np.zeros(shape, dtype=np.int64), dims, shared
        self.names[name] = Pointer(f"[{name}]", 0)
        self.written[f"[{name}]"] = np.full(shape, value is not None)
        self.shared += count * shared
        if value is not None and value != ("list", [("number", 0)] * len(value[1])):
            raise Unplayable("values of an array")

    def value(self, node: Node) -> Values:
        return getattr(self, f"_of_{node[0]}")(node)

    def _of_number(self, node: Node) -> Values:
        return node[1]

    def _of_cast(self, node: Node) -> Values:
        return self.value(node[2])

    def _of_name(self, node: Node) -> Values:
        return self.names[node[1]]

    def _of_index(self, node: Node) -> Values:
        return self._load(*self._element(node))

    def _of_choose(self, node: Node) -> Values:
        test, was = np.asarray(self.value(node[1])) != 0, self.on
        out = []
        for mask, part in ((test, node[2]), (~test, node[3])):
            self.on = was & mask
            out.append(self.value(part) if self.on.any() else 0)
        self.on = was
        return np.where(test, *out)

    def _of_unary(self, node: Node) -> Values:
        one = self.value(node[2])
        if node[1] == "!":
            return np.asarray(one) == 0
        return {"-": lambda v: -v, "~": lambda v: ~v, "+": lambda v: v}[node[1]](one)

    def _of_binary(self, node: Node) -> Values:
        _, op, left, right = node
        a, b = self.value(left), self.value(right)
        self._pay(self.threads)
        if isinstance(a, Pointer) and not isinstance(b, Pointer) and op in "+-":
            return Pointer(a.memory, a.at + (b if op == "+" else -b))
        if isinstance(b, Pointer) and op == "+":
            return Pointer(b.memory, b.at + a)
        return combined(op, a, b)

    def _of_call(self, node: Node) -> Values:
        given = [self.value(x) for x in node[2]]
        self._pay(self.threads)
        if node[1] in ("fmaf", "__fmaf_rn"):
            return given[0] * given[1] + given[2]
        return _CALLS[node[1]](*given)

    def _of_assign(self, node: Node) -> Values:
        _, op, target, right = node
        value = self.value(right)
        if op != "=":
            value = combined(op[:-1], self.value(target), value) if not isinstance(self.value(target), Pointer) else \
                Pointer(self.value(target).memory, self.value(target).at + value)  # fmt: skip
        self._store(target, value)
        return value

    def _of_after(self, node: Node) -> Values:
        before = self.value(node[2])
        self._of_assign(node)
        return before

    def _store(self, target: Node, value: Values) -> None:
        self._pay(self.threads)
        if target[0] == "name":
            old = self.names[target[1]]
            every = bool(self.on.all())
            self.names[target[1]] = value if every or isinstance(value, Pointer) else np.where(self.on, value, old)
            if isinstance(value, Pointer) and not every:
                raise Unplayable("a pointer of some threads")
            return
        if target[0] != "index":
            raise Unplayable(target[0])
        name, at = self._element(target)
        cells, of = self._cells(name)
        every = bool(self.on.all())
        where, what = np.broadcast_to(at, self.on.shape), np.broadcast_to(value, self.on.shape)
        if not every:
            where, what, of = where[self.on], what[self.on], of[self.on] if of is not None else None
        if where.size and not (where.min() >= 0 and where.max() < len(cells)):
            raise Unplayable("out of bounds")
        place = (where, of) if of is not None else where
        cells[place] = what
        if name in self.written:
            self.written[name][place] = True

    def _load(self, name: str, at: Values) -> Values:
        self._pay(self.threads)
        cells, of = self._cells(name)
        every = bool(self.on.all())
        where = np.asarray(at) if every else np.where(self.on, at, 0)
        if where.min() < 0 or where.max() >= len(cells):
            raise Unplayable("out of bounds")
        self.loads += int(self.on.sum()) * (name in self.memory)
        place = (where, of) if of is not None else where
        if name in self.written:
            known = self.written[name][place]
            if not (known.all() if every else np.broadcast_to(known, self.on.shape)[self.on].all()):
                raise Unplayable("a value that nobody wrote")
        return cells[place]

    def _cells(self, name: str) -> tuple[Any, Any]:
        """An array's elements, and which column of them is whose; None for memory, which is everybody's."""
        if name.startswith("["):
            cells, _, shared = self.arrays[name[1:-1]]
            return cells, self.block if shared else self.each
        return self.memory[name], None

    def _element(self, node: Node) -> tuple[str, Values]:
        name, at, within = self._place(node)
        if within:
            raise Unplayable("a row of an array")
        return name, at

    def _place(self, node: Node) -> tuple[str, Values, tuple[int, ...]]:
        """(array, element, the dimensions that are not indexed yet) of `base[at]`."""
        _, base, index = node
        at = self.value(index)
        if base[0] == "index":
            name, first, within = self._place(base)
            if not within:
                raise Unplayable("an element of an element")
        else:
            pointer = self.value(base)
            if not isinstance(pointer, Pointer):
                raise Unplayable("an index of a number")
            name, first = pointer.memory, pointer.at
            within = self.arrays[name[1:-1]][1] if name.startswith("[") else (1,)
        return name, first + at * math.prod(within[1:]), within[1:]

    def _pay(self, count: int = 0) -> None:
        self.steps -= max(count, LEAST)
        if self.steps < 0:
            raise Unplayable("long")
