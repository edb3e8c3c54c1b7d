"""The bytes of memory that the threads of a block use, as numbers without gaps: what all of them use as one is one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.roles.events import Access, Copy, Multiplied
from kscope.model.lazily import np

WORD = 4  # bytes that are looked at as one, where nobody uses fewer
SPACES = 1 << 44  # between the addresses of arrays
Used = Access | Copy | Multiplied


class Cells:
    """`at`: of each event by its id the numbers of its cells, a row a lane, where it is of an array that somebody
    writes; `row`: of each cell that is both read and written a number of its own, -1 for the others; `words`: how many
    words it is."""

    def __init__(self, events: Sequence[Used], bars: Iterable[int]) -> None:
        """bars: addresses of mbarriers. Raises Unplayable where these are used as data, or a store may go anywhere."""
        _known(events)
        self.word = min([WORD, *(e.wide for e in events if isinstance(e, Access))])
        self.spaces = {name: n for n, name in enumerate(sorted({"", *map(_space, events)}))}
        written = {_space(e) for e in events if _writes(e)}
        kept = [e for e in events if _space(e) in written]
        if written & {e.source for e in events if isinstance(e, Copy)}:
            raise Unplayable("a copy of what is written")
        self.ends: dict[tuple[int, int], Any] = {}
        own = self._apart(bars)
        keys = {id(e): self._keys(e) for e in kept}
        flat = [k.ravel() for k in keys.values() if k is not None and not isinstance(k, list)]
        flat += [np.array([end for one in self.ends for end in one], dtype=np.int64), own, own + 1]
        self.names = np.unique(np.concatenate([*flat, *(k + 1 for k in flat[:-3])]))
        self.words = np.append(np.diff(self.names), 1)
        self.ends = {one: np.arange(*np.searchsorted(self.names, one)) for one in self.ends}
        self.at = {id(e): self._numbers(e, keys[id(e)]) for e in kept}
        self.row = self._rows(kept, np.searchsorted(self.names, own))

    def _apart(self, bars: Iterable[int]) -> Any:
        """The words that mbarriers are."""
        words = [b // self.word + n for b in bars for n in range(8 // self.word)]
        return np.array(words, dtype=np.int64) + self.spaces[""] * SPACES

    def _keys(self, event: Used) -> Any:
        """The words that lanes name, a row a lane; ends of ranges as a list; None for a whole array."""
        base = self.spaces[_space(event)] * SPACES
        if isinstance(event, Access):
            if event.at is None:
                return None
            return base + np.asarray(event.at)[:, None] // self.word + np.arange(-(-event.wide // self.word))[None, :]
        at, size = (event.at, event.bytes) if isinstance(event, Copy) else zip(*event.read, strict=True)
        ends = zip(at, size, strict=True)
        found = [(int(base + a // self.word), int(base - (-(a + n) // self.word))) for a, n in ends]
        self.ends |= dict.fromkeys(found)
        return found

    def _numbers(self, event: Used, keys: Any) -> Any:
        if isinstance(keys, list):
            return [self.ends[one] for one in keys]
        if keys is None:
            every = np.flatnonzero(self.names // SPACES == self.spaces[_space(event)])
            return every[None, :].repeat(len(event.lanes), 0)
        return np.searchsorted(self.names, keys)

    def _rows(self, events: Sequence[Used], bars: Any) -> Any:
        read, written = (np.zeros(len(self.names), dtype=bool) for _ in range(2))
        for e in events:
            found = self.at[id(e)]
            for one in found if isinstance(found, list) else [found]:
                (written if _writes(e) else read)[one] = True
        if (read | written)[bars].any():
            raise Unplayable("an mbarrier as data")
        return np.where(read & written, np.cumsum(read & written) - 1, -1)


def _known(events: Iterable[Used]) -> None:
    if any(isinstance(e, Access) and e.write and e.at is None for e in events):
        raise Unplayable("a store to anywhere")


def _space(event: Used) -> str:
    return event.space if isinstance(event, Access) else ""


def _writes(event: Used) -> bool:
    return isinstance(event, Copy) or (isinstance(event, Access) and event.write)
