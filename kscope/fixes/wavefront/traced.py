"""Who wrote what threads read from shared memory in the steps of a loop: how many threads beside, and how many steps
before, seen where one block is played."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kscope.fixes.given.functions import addressed
from kscope.fixes.given.grammar import Node, Unplayable
from kscope.fixes.given.kinds import Pointer, Values
from kscope.fixes.given.played import Rules, Threads
from kscope.model.lazily import np

STEPS = 400_000_000  # numbers that are worked on: some seconds at most (judged)
NEVER = -1


class Seen(Struct, frozen=True):
    """`writes`: arrays by the place (of the tree) that writes to them in the loop. `reads`: (writes, threads beside,
    steps before) by the place that reads; only of threads and steps that write."""

    writes: Mapping[int, set[str]]
    reads: Mapping[int, tuple[frozenset[int], int, int]]


class Tracing(Threads):
    """Threads that note it. step: name of the loop's count."""

    def __init__(self, step: str, *given: Any) -> None:
        super().__init__(*given)
        self.step, self.site = step, 0
        self.tags: dict[str, Any] = {}
        self.wrote: dict[int, set[str]] = {}
        self.logs: dict[int, list[Any]] = {}
        self.active: dict[int, Any] = {}

    def _of_index(self, node: Node) -> Values:
        to = self.spot(node)
        assert to is not None
        self.site = id(node)
        return self.got(to)

    _of_deref = _of_index

    def _store(self, target: Node, value: Values, to: Pointer | None) -> None:
        self.site = id(target)
        super()._store(target, value, to)

    def _seen(self, name: str) -> bool:
        return name.startswith("[") and self.arrays[name[1:-1]][1] and np.ndim(self.names.get(self.step, [])) == 0

    def _put(self, name: str, at: Values, value: Values) -> None:
        super()._put(name, at, value)
        if not self._seen(name):
            return
        where, threads = self.here(at), self.here(self.each)
        self.wrote.setdefault(self.site, set()).add(name[1:-1])
        table = self._tags(name)
        table[0, where], table[1, where], table[2, where] = self.site, threads, self.names[self.step]
        step = int(self.names[self.step])
        self.active.setdefault(step, np.zeros(self.threads, dtype=bool))[threads] = True

    def _load(self, name: str, at: Values) -> Values:
        if self._seen(name):
            where = self.here(at)
            self.logs.setdefault(self.site, []).append(
                (int(self.names[self.step]), self.here(self.each).copy(), self._tags(name)[:, where].copy())
            )
        return super()._load(name, at)

    def _tags(self, name: str) -> Any:
        if name not in self.tags:
            self.tags[name] = np.full((3, len(self.cells(name)[0])), NEVER, dtype=np.int64)
        return self.tags[name]


def seen(
    body: Node, step: str, block: int, memory: dict[str, Any], numbers: Mapping[str, Any], kinds: Mapping[str, str]
) -> Seen:
    """One block is played. Raises Unplayable where what a place reads is not always written as many
    threads beside and steps before."""
    one = Tracing(step, (1, 1, 1), (block, 1), memory, numbers,
                  Rules(literals="drawn", races=True, kinds=kinds, steps=STEPS))  # fmt: skip
    one.taken = addressed(body)
    try:
        with np.errstate(all="ignore"):
            one.run(body)
    except (IndexError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise Unplayable(str(error)) from error
    reads: dict[int, tuple[frozenset[int], int, int]] = {}
    for site, log in one.logs.items():
        found: set[tuple[int, ...]] = set()
        for at, threads, (by, thread, when) in log:
            if at in one.active and (some := one.active[at][threads] & (by != NEVER)).any():
                rows = np.stack([by[some], thread[some] - threads[some], at - when[some]])
                found |= {tuple(row) for row in np.unique(rows, axis=1).T.tolist()}
        if len({x[1:] for x in found}) > 1:
            raise Unplayable("a place that reads what several have written")
        if found:
            reads[site] = frozenset(x[0] for x in found), *min(found)[1:]  # type: ignore[assignment]
    return Seen(one.wrote, reads)
