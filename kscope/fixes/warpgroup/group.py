"""Products of warpgroups where a kernel's text is played: done when they are waited for, on what shared memory holds
then."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.kinds import Values
from kscope.fixes.given.lanes_played import all_or_none
from kscope.fixes.warpgroup.fragments import GROUP, Tile, of_group, tile
from kscope.fixes.warpgroup.instructions import Instruction
from kscope.fixes.warpgroup.shared import NOBODY, Shared
from kscope.model.lazily import np

_NAME = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.(bf16|f16)\.\2")


class _Flight(Struct):
    """A product on its way. threads: of one warpgroup; rows: of the sums, words of an array that each thread has."""

    threads: Any
    batch: int
    sums: str
    rows: tuple[int, ...]
    a: Tile
    b: Tile


class Groups(Shared):
    """pending: products that were begun, in their order."""

    def begin(self) -> None:
        super().begin()
        self.pending: list[_Flight] = []
        self.batches = np.zeros(self.threads, dtype=np.int64)
        self.ready = np.zeros(self.threads, dtype=bool)  # threads whose registers were handed over by wgmma.fence

    def _combined(self, op: str, a: Values, b: Values) -> Values:
        if op == "|" and isinstance(a, int) and isinstance(b, int):
            return np.bitwise_or(np.int64(a), np.int64(b))  # a descriptor, which fills all bits of a number
        return super()._combined(op, a, b)

    def of_group(self, one: Instruction, value: Callable[[str], Values], sums: list[Node]) -> None:
        groups = self._whole_groups()
        if one.name == "wgmma.fence.sync.aligned":
            self.ready[self.on] = True
        elif one.name == "wgmma.commit_group.sync.aligned":
            self.batches[self.on] += 1
        elif one.name == "wgmma.wait_group.sync.aligned":
            left = value(one.operands[0][0])
            self.ready[self.on] = False
            there = [f for f in self.pending if self.on[f.threads[0]] and f.batch < self.batches[f.threads[0]] - left]
            self.pending = [f for f in self.pending if not any(f is one for one in there)]
            for n, flight in enumerate(there):
                self._multiplied(flight, [*there[n + 1 :], *self.pending])
        elif (m := _NAME.fullmatch(one.name)) is not None:
            self._begun(one, value, sums, m, groups)
        else:
            raise Unplayable(one.name)

    def _whole_groups(self) -> Any:
        """Threads that are here, which are whole warpgroups."""
        size = self.threads // self.blocks
        of = self.block * -(-size // GROUP) + self.lane // GROUP
        if size % GROUP or not all_or_none(self.on, self.alive, of):
            raise Unplayable("a product of some warps")
        return self.here(self.each).reshape(-1, GROUP)

    def _begun(
        self, one: Instruction, value: Callable[[str], Values], sums: list[Node], m: re.Match[str], groups: Any
    ) -> None:  # fmt: skip
        if (m[2] == "bf16") != self.upper or len(one.operands) != 8 or 2 * len(sums) != int(m[1]):
            raise Unplayable("a product of another kind")
        _, (a,), (b,), (adds,), (first,), (second,), (across_a,), (across_b,) = one.operands
        if not self._true(one, adds, value) or value(first) != 1 or value(second) != 1:
            raise Unplayable("a product of another kind")
        if not self.ready[self.on].all():
            raise Unplayable("registers that were not handed over")
        memory, rows = self._sums(sums)
        descriptors = [np.broadcast_to(value(x), self.on.shape)[groups] for x in (a, b)]
        if any((d != d[:, :1]).any() for d in descriptors):
            raise Unplayable("a descriptor of each thread's own")
        for n, threads in enumerate(groups):
            left = tile(int(descriptors[0][n, 0]), across=bool(value(across_a)))
            right = tile(int(descriptors[1][n, 0]), across=bool(value(across_b)))
            for side, of in ((64, left), (int(m[1]), right)):
                self._matrix(threads, of, side)
            self.written[memory][np.array(rows)[:, None], threads] = False
            self.pending.append(_Flight(threads, int(self.batches[threads[0]]), memory, rows, left, right))

    def _true(self, one: Instruction, word: str, value: Callable[[str], Values]) -> bool:
        """Whether a predicate, or a number in place of one, is set."""
        tests = [(int(value(x)) != n) == unequal for name, unequal, x, n in one.predicates if name == word]
        return tests[0] if tests else bool(value(word))

    def _sums(self, nodes: list[Node]) -> tuple[str, tuple[int, ...]]:
        """The array of a thread that sums are in, and which of its words."""
        spots = [self.spot(node) for node in nodes]
        names = {to.memory for to in spots if to is not None}
        if None in spots or len(names) != 1 or not all(self._own(name) for name in names):
            raise Unplayable("sums that lie elsewhere")
        return names.pop(), tuple(int(to.at) for to in spots if to is not None)

    def _matrix(self, threads: Any, of: Tile, side: int) -> Any:
        """What lies where a descriptor says, by (row or column, depth)."""
        places = of.places(side)
        name, cells = self.lies(places.ravel(), 2)
        block = int(self.block[threads[0]])
        if not self.written[name][cells, block].all():
            raise Unplayable("a value that nobody wrote")
        if (self.unfenced[name][cells, block] != NOBODY).any():
            raise Unplayable("numbers that no fence has handed over")
        two = threads[:2]  # of them, as what none of the group may write meanwhile
        self._noted(name, np.broadcast_to(cells, (2, len(cells))), two, "read")
        return self.cells(name)[0][cells, block].reshape(side, 16)

    def _multiplied(self, flight: _Flight, others: list[_Flight]) -> None:
        side = 2 * len(flight.rows)
        a, b = self._matrix(flight.threads, flight.a, 64), self._matrix(flight.threads, flight.b, side)
        made = a @ b.T
        self.pay(64 * side * 16)
        cells = self.arrays[flight.sums[1:-1]][0]
        where = np.array(flight.rows)[:, None], flight.threads
        rows, columns = of_group(len(flight.rows))
        cells[where] += made[rows, columns].T
        later = any(f.sums == flight.sums and f.threads[0] == flight.threads[0] for f in others)
        if not later:
            self.written[flight.sums][where] = True
