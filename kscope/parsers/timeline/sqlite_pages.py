"""Integer columns of a large SQLite table, taken from its pages with numpy: Python's sqlite3 makes an object of every
value, which is most of the time that an export of millions of rows takes.

Reads tables with row ids and nothing else, and raises `Unusual` for all that it does not know for certain (overflow
pages, values that are no integers, records shorter than the schema, a journal beside the file, damage): sqlite3 reads
those, and it alone judges whether a file is sound. The layout is SQLite's own promise: https://sqlite.org/fileformat2.html
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.parsers.timeline.growing_column import GrowingColumn, Numbers, Values

Bytes: TypeAlias = NDArray[np.uint8]
Integers: TypeAlias = NDArray[np.int64]

_MAGIC = b"SQLite format 3\0"
_HEAD = struct.Struct(">16sH2xB3xII60xI4x")  # magic, page size, bytes unused in each, changes, pages, changes then
_INTERIOR, _LEAF = 5, 13  # kinds of pages of tables with row ids
_DEEPEST = 20
AT_ONCE = 2 << 20  # bytes of pages that are decoded together: they and what is made of them stay in the caches
_ROOM = 1.1  # for more rows than the pages so far let expect
_WINDOW = 64  # bytes of a record that are gathered together
SPARE = 256  # bytes behind the last page: what is gathered may reach beyond a record
_MORE = 0x80  # this byte of a varint is not its last
_MORES = np.uint64(0x8080808080808080)
SURELY_LOCAL = 35  # a record that leaves so much of its page free is on this page as a whole

_WIDTH = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *((t - 12) // 2 for t in range(12, 128))], dtype=np.int64)
"""Bytes of a value by its serial type. 0 is NULL, 1 to 6 are integers, 7 a real, 8 and 9 the numbers 0 and 1, 10 and 11
SQLite's own, even ones from 12 blobs and odd ones texts."""
_REAL, _INTEGERS = 7, 10
_BARE = frozenset((0, 8, 9))
_DROP = np.minimum(64 - 8 * _WIDTH[:10], 63)  # bits of eight bytes that are not the value's


class Unusual(Exception):
    """This table is for sqlite3 to read."""


class Block(Struct):
    """Some leaf pages of a table: their bytes, until the next ones are read; the offsets of the cells in them and of
    these cells' pages' ends; which of the table's leaf pages they are, and how many it has in all."""

    buffer: Bytes
    cells: Integers
    ends: Integers
    pages: range
    whole: int


class Pages:
    """The pages of a database file. Raises Unusual where the file's header or what lies beside it speaks against it."""

    def __init__(self, path: Path) -> None:
        if any(path.with_name(path.name + suffix).exists() for suffix in ("-wal", "-journal")):
            raise Unusual("a journal beside the file")
        self.file = path.open("rb", buffering=0)
        head = self.file.read(_HEAD.size)
        there = self.file.seek(0, 2)
        magic, size, reserved, changes, self.count, counted = _HEAD.unpack(head.ljust(_HEAD.size, b"\0"))
        self.size = 65536 if size == 1 else size
        self.usable = self.size - reserved
        sound = magic == _MAGIC and self.size >= 512 and self.usable >= 480 and changes == counted
        if not sound or not 0 < self.count * self.size <= there:
            self.close()
            raise Unusual("the header of the file")

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Pages:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def integers(self, root: int, places: Sequence[int], known: Sequence[int] = ()) -> list[Numbers]:
        """Columns of the table at page `root` by their places in its records, NULL as 0, without the rows in which one
        of the places `known` is NULL. A column is as narrow as its values allow, 32 or 64 bits, and one of one value
        takes no memory: none may be written to."""
        columns = [GrowingColumn() for _ in places]
        for some in self.blocks(root):
            count, values = _decode(some.buffer, some.cells, some.ends, self.usable, places, known)
            likely = int(count / len(some.pages) * some.whole * _ROOM)
            for one, value in zip(columns, values, strict=True):
                one.add(value, count, likely)
        return [one.values() for one in columns]

    def blocks(self, root: int) -> Iterator[Block]:
        """The rows of the table at page `root` in order, many pages at a time; pages without rows are left out."""
        leaves = self.leaves_of(root)
        step = max(AT_ONCE // self.size, 1)
        buffer = np.zeros(step * self.size + SPARE, dtype=np.uint8)
        for first in range(0, len(leaves), step):
            some = leaves[first : first + step]
            self.load(some, buffer)
            cells, ends = self.cells(buffer, len(some))
            if len(cells):
                yield Block(buffer, cells, ends, range(first, first + len(some)), len(leaves))

    def load(self, numbers: Integers, buffer: Bytes) -> None:
        """The pages of these numbers, one behind the other."""
        if int(numbers.min()) < 1 or int(numbers.max()) > self.count:
            raise Unusual("a page that is not there")
        cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
        for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(numbers)], strict=True):
            self.file.seek((int(numbers[begin]) - 1) * self.size)
            part = buffer[begin * self.size : end * self.size].data
            while len(part):
                done = self.file.readinto(part)
                if not done:
                    raise Unusual("the file ends early")
                part = part[done:]

    def leaves_of(self, root: int) -> Integers:
        """Numbers of a table's leaf pages in the order of its rows."""
        level = np.array([root], dtype=np.int64)
        one = np.zeros(self.size, dtype=np.uint8)
        for _ in range(_DEEPEST):
            self.load(level[:1], one)  # all pages of a level are of one kind
            if one[0] == _LEAF and root != 1:
                return level
            buffer = np.zeros(len(level) * self.size + SPARE, dtype=np.uint8)
            self.load(level, buffer)
            pages = buffer[: len(level) * self.size].reshape(-1, self.size)
            if root == 1 or (pages[:, 0] != _INTERIOR).any():
                raise Unusual("no table with row ids")
            pointers, there = self._pointers(pages, 12)
            # what follows the last cell is the right-most child's number
            at = np.where(there, pointers.astype(np.int64), 8)
            at = np.append(at, np.full((len(level), 1), 8), axis=1) + np.arange(len(level))[:, None] * self.size
            there = np.append(there, np.ones((len(level), 1), dtype=bool), axis=1)
            level = windows(buffer, ">u4")[at[there]].astype(np.int64)
            if len(level) > self.count:
                break
        raise Unusual("a tree that does not end")

    def _pointers(self, pages: Bytes, head: int) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
        """Offsets of the cells in their pages, a row for each page, and which of them are there."""
        counts = pages[:, 3].astype(np.int64) << 8 | pages[:, 4]
        most = int(counts.max())
        if head + 2 * most > self.usable:
            raise Unusual("more cells than a page holds")
        raw = np.ascontiguousarray(pages[:, head : head + 2 * most]).view(">u2").astype(np.uint16)
        there = np.arange(most, dtype=np.uint16) < counts[:, None].astype(np.uint16)
        least = np.minimum(head + 2 * counts[:, None], 0xFFFF).astype(np.uint16)
        if (((raw < least) | (raw > self.usable - 4)) & there).any():
            raise Unusual("a cell outside its page")
        return raw, there

    def cells(self, buffer: Bytes, count: int) -> tuple[Integers, Integers]:
        """Offsets of the cells of `count` leaf pages, and of the ends of their pages."""
        pages = buffer[: count * self.size].reshape(-1, self.size)
        if (pages[:, 0] != _LEAF).any():
            raise Unusual("no table with row ids")
        pointers, there = self._pointers(pages, 8)
        begin = np.repeat(np.arange(count, dtype=np.int64) * self.size, there.sum(axis=1))
        return pointers[there] + begin, begin + self.usable


def windows(buffer: Bytes, dtype: str) -> NDArray[np.void]:
    """Views of the bytes at every offset, to be indexed with offsets."""
    item = np.dtype(dtype)
    return np.ndarray((len(buffer) - item.itemsize + 1,), dtype=item, buffer=buffer, strides=(1,))


def gather(buffer: Bytes, at: Integers, width: int) -> Bytes:
    """The `width` bytes at each offset, a row each."""
    if int(at.max()) + width > len(buffer):
        raise Unusual("a record outside its page")
    return windows(buffer, f"V{width}")[at].view(np.uint8).reshape(len(at), width)


def _decode(
    buffer: Bytes, cells: Integers, ends: Integers, usable: int, places: Sequence[int], known: Sequence[int]
) -> tuple[int, list[Values]]:
    """(rows, values of each place) of the cells at these offsets."""
    size, at = records(buffer, cells)
    if int(size.max()) > usable - SURELY_LOCAL:
        raise Unusual("overflow pages")
    stop = at + size
    if (stop > ends).any():
        raise Unusual("a record outside its page")
    last = max(*places, *known) if known else max(places)
    head = gather(buffer, at, -(-(last + 2) // 8) * 8)
    first, differs = head[0], differing(head)
    if ((first | differs)[: last + 2] >= _MORE).any() or int(head[:, 0].min()) < last + 2:
        raise Unusual("a record unlike the table")
    at += head[:, 0]
    keep = None
    for place in known:
        null = head[:, place + 1] == 0
        if null.any():
            keep = ~null if keep is None else keep & ~null
    record = Record(buffer, at)
    values: dict[int, Values] = {}
    for place in range(last + 1):
        type_ = np.ascontiguousarray(head[:, place + 1]) if differs[place + 1] else int(first[place + 1])
        if place in places:
            values[place] = record.value(type_)
        record.pass_by(type_)
    if (record.at + record.shift > stop).any():
        raise Unusual("a record that ends early")
    if keep is None:
        return len(cells), [values[p] for p in places]
    return int(keep.sum()), [v if isinstance(v, int) else v[keep] for v in (values[p] for p in places)]


def records(buffer: Bytes, cells: Integers) -> tuple[Integers, Integers]:
    """(sizes, offsets) of the records in the cells at these offsets: a cell begins with the size and the row id."""
    lead = gather(buffer, cells, 8)
    sizes = lead[:, 0].astype(np.int64)
    more = lead.view(np.uint64)[:, 0] & _MORES
    if (more == more[0]).all():
        flags = (lead[0] >= _MORE).tolist()
        wide = flags[0]
        if (flags[1] and wide) or False not in flags[1 + wide :]:
            raise Unusual("a record of more than 16 KB, or a row id of more than six bytes")
        if wide:
            sizes = (sizes & 0x7F) << 7 | lead[:, 1]
        return sizes, cells + (flags.index(False, 1 + wide) + 1)
    each = lead >= _MORE
    two = each[:, 0].copy()
    sizes[two] = (sizes[two] & 0x7F) << 7 | lead[two, 1]
    unusual = two & each[:, 1]
    each[two, 1] = True  # as if the size were a part of the row id
    each[:, 0] = True
    if (unusual | each.all(axis=1)).any():
        raise Unusual("a record of more than 16 KB, or a row id of more than six bytes")
    return sizes, cells + each.argmin(axis=1) + 1


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
