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

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.parsers.timeline.growing_column import GrowingColumn, Numbers
from kscope.parsers.timeline.sqlite_records import Bytes, Integers, Unusual, decoded, windows

_MAGIC = b"SQLite format 3\0"
_HEAD = struct.Struct(">16sH2xB3xII60xI4x")  # magic, page size, bytes unused in each, changes, pages, changes then
_INTERIOR, _LEAF = 5, 13  # kinds of pages of tables with row ids
_DEEPEST = 20
AT_ONCE = 2 << 20  # bytes of pages that are decoded together: they and what is made of them stay in the caches
_ROOM = 1.1  # for more rows than the pages so far let expect
SPARE = 256  # bytes behind the last page: what is gathered may reach beyond a record


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
            count, values = decoded(some.buffer, some.cells, some.ends, self.usable, places, known)
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
