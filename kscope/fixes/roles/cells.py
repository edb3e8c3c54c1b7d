"""The words of memory that the threads of a block use, as numbers without gaps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kscope.fixes.given.grammar import Unplayable
from kscope.fixes.roles.events import Access, Copy
from kscope.model.lazily import np

WORD = 4  # bytes that are looked at as one, where nobody uses fewer
SPACES = 1 << 44  # between the addresses of arrays


class Cells:
    """`at`: of each event by its id the numbers of its words, a row a lane, where it is of an array that somebody
    writes; `row`: of each word that is both read and written a number of its own, -1 for the others."""

    def __init__(self, events: Sequence[Access | Copy], bars: Iterable[int]) -> None:
        """bars: addresses of mbarriers. Raises Unplayable where these are used as data, or a store may go anywhere."""
        _known(events)
        self.word = min([WORD, *(e.wide for e in events if isinstance(e, Access))])
        self.spaces = {name: n for n, name in enumerate(sorted({"", *map(_space, events)}))}
        written = {_space(e) for e in events if _writes(e)}
        kept = [e for e in events if _space(e) in written]
        keys = {id(e): self._keys(e) for e in kept}
        flat = [np.concatenate(k) if isinstance(k, list) else k.ravel() for k in keys.values() if k is not None]
        self.names = np.unique(np.concatenate(flat)) if flat else np.zeros(0, dtype=np.int64)
        self._apart(bars)
        if written & {e.source for e in events if isinstance(e, Copy)}:
            raise Unplayable("a copy of what is written")
        self.at = {id(e): self._numbers(e, keys[id(e)]) for e in kept}
        self.row = self._rows(kept)

    def _apart(self, bars: Iterable[int]) -> None:
        own = [b // self.word + n for b in bars for n in range(8 // self.word)]
        if len(np.intersect1d(self.names, np.array(own, dtype=np.int64) + self.spaces[""] * SPACES)):
            raise Unplayable("an mbarrier as data")

    def _keys(self, event: Access | Copy) -> Any:
        """The words that lanes name, a row a lane; None for a whole array."""
        base = self.spaces[_space(event)] * SPACES
        if isinstance(event, Copy):
            ends = zip(event.at // self.word, -(-(event.at + event.bytes) // self.word), strict=True)
            return [base + np.arange(start, end) for start, end in ends]
        if event.at is None:
            return None
        return base + np.asarray(event.at)[:, None] // self.word + np.arange(-(-event.wide // self.word))[None, :]

    def _numbers(self, event: Access | Copy, keys: Any) -> Any:
        if isinstance(keys, list):
            return [np.searchsorted(self.names, one) for one in keys]
        if keys is None:
            every = np.flatnonzero(self.names // SPACES == self.spaces[_space(event)])
            return every[None, :].repeat(len(event.lanes), 0)
        return np.searchsorted(self.names, keys)

    def _rows(self, events: Sequence[Access | Copy]) -> Any:
        read, written = (np.zeros(len(self.names), dtype=bool) for _ in range(2))
        for e in events:
            found = self.at[id(e)]
            for one in found if isinstance(found, list) else [found]:
                (written if _writes(e) else read)[one] = True
        return np.where(read & written, np.cumsum(read & written) - 1, -1)


def _known(events: Iterable[Access | Copy]) -> None:
    if any(isinstance(e, Access) and e.write and e.at is None for e in events):
        raise Unplayable("a store to anywhere")


def _space(event: Access | Copy) -> str:
    return event.space if isinstance(event, Access) else ""


def _writes(event: Access | Copy) -> bool:
    return isinstance(event, Copy) or event.write
