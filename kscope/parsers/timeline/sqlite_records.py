"""Records of an SQLite table in the bytes of its pages, many at a time: their integers, column by column. See
sqlite_pages, which finds them; what is not known for certain is `Unusual`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.parsers.timeline.growing_column import Values

Bytes: TypeAlias = NDArray[np.uint8]
Integers: TypeAlias = NDArray[np.int64]

_WINDOW, _BEGIN = 64, 32  # bytes of a record that are gathered together, and of its values with its head
_MORE = 0x80  # this byte of a varint is not its last
_MORES = np.uint64(0x8080808080808080)
_SURELY_LOCAL = 35  # a record that leaves so much of its page free is on this page as a whole

_WIDTH = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *((t - 12) // 2 for t in range(12, 128))], dtype=np.int64)
"""Bytes of a value by its serial type. 0 is NULL, 1 to 6 are integers, 7 a real, 8 and 9 the numbers 0 and 1, 10 and 11
SQLite's own, even ones from 12 blobs and odd ones texts."""
_REAL, _INTEGERS = 7, 10
_BARE = frozenset((0, 8, 9))
_DROP = np.minimum(64 - 8 * _WIDTH[:10], 63)  # bits of eight bytes that are not the value's


class Unusual(Exception):
    """This table is for sqlite3 to read."""


def windows(buffer: Bytes, dtype: str) -> NDArray[np.void]:
    """Views of the bytes at every offset, to be indexed with offsets."""
    item = np.dtype(dtype)
    return np.ndarray((len(buffer) - item.itemsize + 1,), dtype=item, buffer=buffer, strides=(1,))


def gather(buffer: Bytes, at: Integers, width: int) -> Bytes:
    """The `width` bytes at each offset, a row each."""
    if int(at.max()) + width > len(buffer):
        raise Unusual("a record outside its page")
    return windows(buffer, f"V{width}")[at].view(np.uint8).reshape(len(at), width)


def decoded(
    buffer: Bytes, cells: Integers, ends: Integers, usable: int, places: Sequence[int], known: Sequence[int]
) -> tuple[int, list[Values]]:
    """(rows, values of each place) of the cells at these offsets."""
    last = max(*places, *known) if known else max(places)
    rows = records(buffer, cells, ends, usable, last + 2)
    head, differs = rows.head, rows.differs
    first = head[0]
    if ((first | differs) >= _MORE).any() or int(head[:, 0].min()) < last + 2:
        raise Unusual("a record unlike the table")
    keep = None
    for place in known:
        null = head[:, place + 1] == 0
        if null.any():
            keep = ~null if keep is None else keep & ~null
    record = rows.record()
    values: dict[int, Values] = {}
    for place in range(last + 1):
        type_ = np.ascontiguousarray(head[:, place + 1]) if differs[place + 1] else int(first[place + 1])
        if place in places:
            values[place] = record.value(type_)
        record.pass_by(type_)
    if (record.at + record.shift > rows.stop).any():
        raise Unusual("a record that ends early")
    if keep is None:
        return len(cells), [values[p] for p in places]
    return int(keep.sum()), [v if isinstance(v, int) else v[keep] for v in (values[p] for p in places)]


class Rows(Struct, frozen=True):
    """Records in cells. at, stop: offsets of their begins and ends. head: their first bytes; differs: the bits of these
    that are not the same in all. begin: the first bytes of the cells, where the records begin `there` bytes behind in
    all of them, else -1."""

    buffer: Bytes
    at: Integers
    stop: Integers
    head: Bytes
    differs: Bytes
    begin: Bytes
    there: int

    def record(self, width: int | None = None) -> Record:
        """At the first value of each. width: of what is gathered together, where it has to be."""
        if self.there < 0 or self.differs[0]:
            return Record(self.buffer, self.at + self.head[:, 0], width or _WINDOW)
        record = Record(self.buffer, self.at - self.there, self.begin.shape[1])
        record.window, record.shift = self.begin, self.there + int(self.head[0, 0])
        return record


def records(buffer: Bytes, cells: Integers, ends: Integers, usable: int, width: int) -> Rows:
    """The records in the cells at these offsets, with heads of `width` bytes. ends: of their pages."""
    size, at, head, differs, begin, there = _begun(buffer, cells, width)
    if int(size.max()) > usable - _SURELY_LOCAL:
        raise Unusual("overflow pages")
    stop = at + size
    if (stop > ends).any():
        raise Unusual("a record outside its page")
    return Rows(buffer, at, stop, head, differs, begin, there)


def _begun(buffer: Bytes, cells: Integers, width: int) -> tuple[Integers, Integers, Bytes, Bytes, Bytes, int]:
    """(sizes, then as in Rows: at, head, differs, begin, there): a cell begins with its size and the row id."""
    upto = 8 + -(-width // 8) * 8
    begin = gather(buffer, cells, upto + _BEGIN)  # of most tables a record begins as far behind in all cells
    lead = begin[:, :8]
    sizes = lead[:, 0].astype(np.int64)
    more = begin.view(np.uint64)[:, 0] & _MORES
    if (more == more[0]).all():
        flags = (lead[0] >= _MORE).tolist()
        wide = flags[0]
        if (flags[1] and wide) or False not in flags[1 + wide :]:
            raise Unusual("a record of more than 16 KB, or a row id of more than six bytes")
        if wide:
            sizes = (sizes & 0x7F) << 7 | lead[:, 1]
        there = flags.index(False, 1 + wide) + 1
        heads = slice(there, there + width)
        return sizes, cells + there, begin[:, heads], differing(begin[:, :upto])[heads], begin, there
    each = lead >= _MORE
    two = each[:, 0].copy()
    sizes[two] = (sizes[two] & 0x7F) << 7 | lead[two, 1]
    unusual = two & each[:, 1]
    each[two, 1] = True  # as if the size were a part of the row id
    each[:, 0] = True
    if (unusual | each.all(axis=1)).any():
        raise Unusual("a record of more than 16 KB, or a row id of more than six bytes")
    at = cells + each.argmin(axis=1) + 1
    head = gather(buffer, at, -(-width // 8) * 8)
    return sizes, at, head[:, :width], differing(head)[:width], begin, -1


def differing(rows: Bytes) -> Bytes:
    """The bits of each column that are not the same in all rows. The width is a multiple of eight."""
    words = rows.view(np.uint64)
    found = [np.bitwise_or.reduce(words[:, i] ^ words[0, i]) for i in range(words.shape[1])]
    return np.array(found, dtype=np.uint64).view(np.uint8)


class Record:
    """Reads the values of many records one column after the other. at: offsets; shift: bytes behind them, for all;
    width: of what is gathered together, bytes."""

    def __init__(self, buffer: Bytes, at: Integers, width: int = _WINDOW) -> None:
        self.buffer, self.at, self.shift, self.width = buffer, at, 0, width
        self.window: Bytes | None = None

    def pass_by(self, type_: int | Bytes) -> None:
        if isinstance(type_, int):
            self.shift += int(_WIDTH[type_])
            return
        self.at = self.at + (self.shift + _WIDTH.take(type_))
        self.shift, self.window = 0, None

    def _eight(self) -> Integers:
        """The eight bytes here as numbers."""
        if self.window is None or self.shift > self.width - 8:
            self.at = self.at + self.shift
            self.shift, self.window = 0, gather(self.buffer, self.at, self.width)
        there = (len(self.at),)
        return np.ndarray(there, ">i8", self.window.data, self.shift, (self.width,)).astype(np.int64)

    def value(self, type_: int | Bytes) -> Values:
        """The values here, of one serial type or of one each."""
        types = [type_] if isinstance(type_, int) else [t for t in range(_INTEGERS) if (type_ == t).any()]
        if _REAL in types or (type_ if isinstance(type_, int) else int(type_.max())) >= _INTEGERS:
            raise Unusual("a value that is no integer")
        if isinstance(type_, int) and type_ in _BARE:
            return int(type_ == 9)
        number = self._eight()
        number >>= int(_DROP[type_]) if isinstance(type_, int) else _DROP.take(type_)
        if not isinstance(type_, int) and not _BARE.isdisjoint(types):
            number = np.where(_WIDTH.take(type_) > 0, number, type_ == 9)
        return number if 5 in types or 6 in types else number.astype(np.int32)
