"""Whether threads of a play use one place with nothing between them that says who comes first: then another order,
which a GPU may take, could give another result, and nothing is shown by playing one."""

from __future__ import annotations

from typing import Any

from kscope.fixes.given.grammar import Unplayable
from kscope.model.lazily import np

NOBODY, SEVERAL = -1, -2


class Races:
    """Of each word who used it last, in which phase of its block and of its warp. A barrier begins a phase. handed:
    arrays whose words blocks hand to each other, each whole, and wait for."""

    def __init__(self, block: Any, warp: Any, handed: tuple[str, ...] = ()) -> None:
        self.handed = handed
        self.block, self.warp = block, warp
        self.phase, self.meeting = (np.zeros(int(of.max()) + 1, dtype=np.int64) for of in (block, warp))
        self.known: dict[tuple[str, str], Any] = {}
        self.joins: dict[str, set[str]] = {}
        self.first: dict[int, Any] = {}  # room for who comes to words, by how many there are

    def barrier(self, on: Any) -> None:
        self.phase[self.block[on]] += 1

    def met(self, on: Any) -> None:
        self.meeting[self.warp[on]] += 1

    def writers(self) -> dict[str, Any]:
        """Of each word of global memory the block that wrote it; SEVERAL where blocks did, NOBODY."""
        return {name: at[1] for (name, kind), at in self.known.items() if kind == "write" and name[0] != "["}

    def read(self, name: str, where: Any, threads: Any, size: int) -> None:
        for kind in ("write", "join"):
            self._follow(name, kind, where, threads, size)
        self._note(name, "read", where, threads, size)

    def write(self, name: str, where: Any, threads: Any, size: int) -> None:
        for kind in ("read", "write", "join"):
            self._follow(name, kind, where, threads, size)
        self._note(name, "write", where, threads, size)

    def join(self, name: str, where: Any, threads: Any, size: int, how: str) -> None:
        """Atomics of one kind may come in any order."""
        for kind in ("read", "write"):
            self._follow(name, kind, where, threads, size)
        self.joins.setdefault(name, set()).add(how)
        if len(self.joins[name]) > 1:
            raise Unplayable("atomics of several kinds")
        self._note(name, "join", where, threads, size)

    def _table(self, name: str, kind: str, size: int) -> Any:
        """Rows: the thread, the blocks so far, the phase of the block and of the warp, the warp, by word."""
        words = size * (len(self.phase) if name.startswith("[") else 1)
        if (name, kind) not in self.known:
            self.known[name, kind] = np.full((5, words), NOBODY, dtype=np.int32)
        return self.known[name, kind]

    def _follow(self, name: str, kind: str, where: Any, threads: Any, size: int) -> None:
        """Raises Unplayable where an earlier use is neither the same thread's nor of an earlier phase."""
        if (name, kind) not in self.known or name in self.handed:
            return
        thread, blocks, phase, meeting, warps = self._table(name, kind, size)[:, where]
        block, warp = self.block[threads], self.warp[threads]
        earlier = (blocks == block) & (phase < self.phase[block])
        earlier |= (blocks == block) & (warps == warp) & (meeting < self.meeting[warp])
        if not ((blocks == NOBODY) | (thread == threads) & (blocks == block) | earlier).all():
            raise Unplayable("a race")

    def _note(self, name: str, kind: str, where: Any, threads: Any, size: int) -> None:
        """Who uses words now; SEVERAL where others of this phase do, or other blocks ever did."""
        table = self._table(name, kind, size)
        block = self.block[threads]
        before = table[:, where]
        words = table.shape[1]
        if words not in self.first:
            self.first[words] = np.empty(words, dtype=np.int32)
        first = self.first[words]  # only what is written next is read
        first[where] = threads
        warp = self.warp[threads]
        beside = (before[0] != NOBODY) & (before[2] == self.phase[block])  # what no barrier puts in front
        met = (before[4] == warp) & (before[3] < self.meeting[warp])
        again = (first[where] != threads) | (beside & (before[0] != threads) & ~met)
        apart = (warp != self.warp[first[where]]) | (beside & (before[4] != warp))
        others = (before[1] != NOBODY) & (before[1] != block) | (block != self.block[first[where]])
        table[0, where] = threads
        table[1, where] = block
        table[2, where] = self.phase[block]
        table[3, where] = self.meeting[warp]
        table[4, where] = warp
        table[4, where[apart]] = SEVERAL
        table[0, where[again]] = SEVERAL
        table[1, where[others]] = SEVERAL
