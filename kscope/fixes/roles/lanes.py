"""Lanes of one warp in a play: what they know, where they are, what they load and store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.given.lanes_played import WARP
from kscope.fixes.roles.events import Access, Event, Stopped
from kscope.fixes.roles.functions import number_of
from kscope.fixes.roles.texts import UNKNOWN, Kernel
from kscope.fixes.roles.values import NEVER, Failed, Place, Tried
from kscope.model.lazily import np

STEPS = 200_000  # nodes of its tree that a warp is played for (judged)
DYNAMIC, STATIC, LINE = 1 << 16, 1 << 10, 1 << 10
WINDOW = 1 << 24  # between the addresses of shared memory of a cluster's blocks (as cute's masks of addresses have it)
NAMED = 16  # barriers of a block

class Shared(Struct):
    """Where arrays of shared memory lie: the same for all warps."""

    at: dict[str, int] = {}
    end: int = STATIC
    rank: int = 0
    """Of the block in its cluster."""

    def place(self, name: str, size: int, *, last: bool) -> int:
        if name not in self.at:
            self.at[name] = DYNAMIC if last else self.end
            self.end = self.end if last else -(-(self.end + size) // LINE) * LINE
            if self.end > DYNAMIC:
                raise Unplayable("shared memory")
        return self.at[name] + self.rank * WINDOW


class Lanes:
    """Values: one number for all lanes, an array of them, UNKNOWN, a Place."""

    def __init__(self, kernel: Kernel, names: Mapping[str, Any], shared: Shared, threads: int, blocks: int) -> None:
        """threads: of a block; blocks: of a cluster."""
        self.kernel, self.shared, self.threads, self.blocks = kernel, shared, threads, blocks
        self.arrived = -1  # at a barrier of the cluster: events until then
        self.events: list[Event] = []
        self.everyone, self.nobody = np.ones(WARP, dtype=bool), np.zeros(WARP, dtype=bool)
        self.alive = self.everyone
        self.on, self.left = self.alive, np.zeros(WARP, dtype=bool)  # left: a loop, a round, a function
        self.broken = self.continued = self.returned = self.left
        self.names: dict[str, Any] = dict(names)
        self.outside = dict(names)
        self.taken = kernel.taken
        self.own: dict[int, dict[int, Any] | None] = {}
        self.maybe = self.steps = 0
        self.result: Any = NEVER
        self.deep, self.mark = 0, -1

    def pay(self) -> None:
        self.steps += 1
        if self.steps > STEPS:
            raise Unplayable("long")

    def tell(self, event: Event) -> None:
        if self.maybe and not isinstance(event, Access):
            raise Unplayable("a barrier that data decide")
        if isinstance(event, Access) and event.write and self.mark >= 0:
            event, self.mark = structs.replace(event, mark=-1 if self.maybe else self.mark), -1
        if isinstance(event, Stopped):
            event, self.mark = structs.replace(event, mark=self.mark), -1
            if event.number >= NAMED:
                raise Unplayable("a barrier of no such number")
            if event.number >= 0:
                number, count = event.number + NAMED * self.shared.rank, event.count or self.threads
                event = structs.replace(event, number=number, count=count)
        self.events.append(event)

    def truth(self, value: Any, *, again: bool = False) -> Any:
        """A mask of lanes; None where nobody knows. again: whether what comes true is tried again."""
        if isinstance(value, Failed) and again:
            return np.zeros(WARP, dtype=bool)
        if value is UNKNOWN or isinstance(value, Place):
            return None
        if isinstance(value, (Tried, Failed)):
            raise Unplayable("a try that may fail")
        if type(value) is int:
            return self.everyone if value else self.nobody
        return np.broadcast_to(np.asarray(value) != 0, (WARP,))

    def whole(self) -> bool:
        """Whether all lanes are here that have not left the kernel."""
        return self.on is self.alive or bool((self.on == self.alive).all())

    def lanes(self) -> Any:
        return np.flatnonzero(self.on)

    def load(self, to: Place) -> Any:
        if isinstance(to.space, int):
            mine = self.own[to.space]
            if mine is None or not isinstance(to.at, int):
                return UNKNOWN
            return mine.get(to.at, UNKNOWN)
        self.tell(Access(self.lanes(), to.space, self._each(to.at), to.size, write=False))
        return UNKNOWN

    def store(self, to: Place, value: Any) -> None:
        if isinstance(to.space, int):
            mine = self.own[to.space]
            if mine is None or not isinstance(to.at, int):
                self.own[to.space] = None
            else:
                mine[to.at] = self._mixed(value, mine.get(to.at, NEVER))
            return
        self.tell(Access(self.lanes(), to.space, self._each(to.at), to.size, write=True))

    def _each(self, at: Any) -> Any:
        return None if at is UNKNOWN else np.broadcast_to(np.asarray(at, dtype=np.int64), (WARP,))[self.on]

    def _mixed(self, new: Any, old: Any) -> Any:
        """A value for the lanes that are here."""
        if self.maybe:
            return UNKNOWN
        return new if self.whole() else merged(self.on, new, old)


class Scope(dict[str, Any]):
    """Names of a block, on top of those around it."""

    def __init__(self, around: Any) -> None:
        super().__init__()
        self.around = around

    def __missing__(self, name: str) -> Any:
        return self.around[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.around

    def __setitem__(self, name: str, value: Any) -> None:
        if super().__contains__(name):
            super().__setitem__(name, value)
        else:
            self.around[name] = value

    def new(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)


def merged(mask: Any, new: Any, old: Any) -> Any:
    if isinstance(new, Place) and isinstance(old, Place) and (new.space, new.size) == (old.space, old.size):
        unknown = new.at is UNKNOWN or old.at is UNKNOWN
        return structs.replace(new, at=UNKNOWN if unknown else np.where(mask, new.at, old.at))
    if old is NEVER:
        return new
    plain = all(number_of(v) for v in (new, old))
    if isinstance(new, (Tried, Failed)):
        return new
    return np.where(mask, new, old) if plain else UNKNOWN
