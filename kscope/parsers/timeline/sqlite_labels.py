"""The NVTX ranges of an SQLite export from its pages: integer columns, and the texts that differ. Under emit_nvtx each
range has a text of its own, `aten::mm, op_id = 1234567`: a Python object and a search for each take most of the time
that an export of millions of ranges takes. Here texts are cut before the number, told apart by numpy, and decoded once.

Like sqlite_pages it raises `Unusual` for all that it does not know for certain, and sqlite3 reads that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.model.columns import Column
from kscope.parsers.timeline.sqlite_pages import (
    AT_ONCE,
    SPARE,
    SURELY_LOCAL,
    Bytes,
    GrowingColumn,
    Integers,
    Numbers,
    Pages,
    Unusual,
    records,
    windows,
)

CUTS = (b", op_id = ", b", seq = ")
"""What torch.autograd.profiler.emit_nvtx writes between the name of an operator and its numbers."""
_WIDTH = 64  # bytes of a text that are looked at together; longer ones without a cut in them are read one by one
_MORE = 0x80
_ROOM = 1.1  # for more rows than the pages so far let expect
_WORD = np.uint64(32)
_Found = tuple[NDArray[np.bool_], dict[int, Numbers], Integers, Integers]


class Labelled(Struct, frozen=True):
    """columns: integers by their places. label: of each row the index of its text in `texts`, -1 where it has none.
    texts: (as far as the cut, whether there was one)."""

    columns: Mapping[int, Column]
    label: Column
    texts: list[tuple[bytes, bool]]


def labelled(pages: Pages, root: int, places: Sequence[int], text: int, known: int) -> Labelled:
    """Columns at `places`, NULL as 0, and the texts at `text`, of the rows of the table at page `root` in which `known`
    is not NULL. `known` and what comes before the text are integers."""
    parts = {p: GrowingColumn() for p in places}
    labels = GrowingColumn()
    texts: dict[tuple[bytes, bool], int] = {}
    last = max(*places, text, known)
    for buffer, at, stop, done in _blocks(pages, root):
        keep, columns, begin, length = _fields(buffer, at, stop, last, places, text, known)
        count = int(np.count_nonzero(keep))
        likely = int((labels.size + count) / done * _ROOM)
        for place, values in columns.items():
            parts[place].add(values if count == len(keep) else values[keep], count, likely)
        labels.add(_labels(buffer, begin[keep], length[keep], texts), count, likely)
    return Labelled({p: one.values() for p, one in parts.items()}, labels.values(), list(texts))


def _blocks(pages: Pages, root: int) -> Iterator[tuple[Bytes, Integers, Integers, float]]:
    """(bytes of some pages, offsets of the records in them and of their ends, share of the pages that was seen) of a
    table's rows, in order."""
    leaves = pages.leaves_of(root)
    step = max(AT_ONCE // pages.size, 1)
    buffer = np.zeros(step * pages.size + SPARE, dtype=np.uint8)
    for first in range(0, len(leaves), step):
        some = leaves[first : first + step]
        pages.load(some, buffer)
        cells, ends = pages.cells(buffer, len(some))
        if not len(cells):
            continue
        size, at = records(buffer, cells)
        stop = at + size
        if int(size.max()) > pages.usable - SURELY_LOCAL or (stop > ends).any():
            raise Unusual("overflow pages, or a record outside its page")
        yield buffer, at, stop, (first + len(some)) / len(leaves)


def _gathered(buffer: Bytes, at: Integers, dtype: str) -> Any:
    """What stands at these offsets."""
    item = np.dtype(dtype)
    if int(at.max(initial=0)) + item.itemsize > len(buffer):
        raise Unusual("a record outside its page")
    return windows(buffer, dtype)[at]


def _fields(
    buffer: Bytes, at: Integers, stop: Integers, last: int, places: Sequence[int], text: int, known: int
) -> _Found:
    """(rows to keep, integers by place, begins and lengths of the texts, -1 for NULL) of records at these offsets."""
    head = _gathered(buffer, at, f"V{last + 3}").view(np.uint8).reshape(len(at), -1)
    size = head[:, 0].astype(np.int64)
    wide = head[:, text + 1] >= _MORE  # the type of a text of more than 57 bytes takes two
    if int(head[:, 0].max()) >= _MORE or (size < last + 2 + wide).any():
        raise Unusual("a record unlike the table")
    offset = at + size
    columns: dict[int, Numbers] = {}
    begin = length = np.zeros(0, dtype=np.int64)
    keep = np.ones(len(at), dtype=bool)
    for place in range(last + 1):
        kind, second = (head[:, place + i].astype(np.int64) for i in (1, 2))
        if place >= text and wide.any():
            if place == text and int(second[wide].max()) >= _MORE:
                raise Unusual("a text of more than 8 KB")
            kind = np.where(wide, second if place > text else (kind & 0x7F) << 7 | second, kind)
        if place == text:
            begin, length = offset, np.where(kind == 0, -1, (kind - 13) >> 1)
            if ((kind != 0) & ((kind < 13) | (kind & 1 == 0))).any():
                raise Unusual("no text")
            offset = offset + np.maximum(length, 0)
            continue
        if int(kind.max()) >= _MORE or ((kind == 7) | (kind == 10) | (kind == 11)).any():
            raise Unusual("a value that is no integer")
        width = _WIDTHS[kind]
        if place in places:
            columns[place] = _integers(buffer, offset, kind, width)
        if place == known:
            keep = kind != 0
        offset = offset + width
    if (offset > stop).any():
        raise Unusual("a record that ends early")
    return keep, columns, begin, length


_WIDTHS = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *((t - 12) // 2 for t in range(12, 128))], dtype=np.int64)
"""As sqlite_pages has them: bytes of a value by its serial type."""


def _integers(buffer: Bytes, at: Integers, kind: Integers, width: Integers) -> Numbers:
    most = int(kind.max())
    if most > 9:
        raise Unusual("a value that is no integer")
    if not most:
        return np.zeros(len(at), dtype=np.int32)
    values: Integers = _gathered(buffer, at, ">i8").astype(np.int64)
    values >>= np.minimum(64 - 8 * width, 63)
    if int(width.min()) == 0:
        values = np.where(width > 0, values, kind == 9)
    return values if most in (5, 6) or ((kind == 5) | (kind == 6)).any() else values.astype(np.int32)


def _labels(buffer: Bytes, begin: Integers, length: Integers, texts: dict[tuple[bytes, bool], int]) -> Numbers:
    """The number in `texts`, which grows, of each text at these offsets."""
    out = np.full(len(begin), -1, dtype=np.int32)
    rows = np.flatnonzero(length >= 0)
    if not len(rows):
        return out
    begin, length = begin[rows], length[rows]
    matrix = _gathered(buffer, begin, f"V{_WIDTH}").view(np.uint8).reshape(len(begin), _WIDTH)
    end = _ends(buffer, matrix, begin, length)
    cut = end < length
    short = end <= _WIDTH
    matrix = np.where(np.arange(_WIDTH) < np.minimum(end, _WIDTH)[:, None], matrix, np.uint8(0))
    words = np.append(matrix.view(np.uint64), (end * 2 + cut).astype(np.uint64)[:, None], axis=1)
    sums = ((words ^ (words >> _WORD)) * _MIX).sum(axis=1)
    _, first, inverse = np.unique(sums, return_index=True, return_inverse=True)
    if (words[short] != words[first[inverse]][short]).any():
        raise Unusual("texts that cannot be told apart")
    numbers = np.zeros(len(first), dtype=np.int32)
    for place in np.argsort(first).tolist():  # in the order in which they come
        i = int(first[place])
        numbers[place] = _number(buffer, int(begin[i]), int(end[i]), bool(cut[i]), texts)
    found = numbers[inverse]
    for i in np.flatnonzero(~short).tolist():  # told apart by their beginnings alone
        found[i] = _number(buffer, int(begin[i]), int(end[i]), False, texts)
    out[rows] = found
    return out


_MIX = np.frombuffer(os.urandom(8 * (_WIDTH // 8 + 1)), dtype=np.uint64) | np.uint64(1)
"""Factors of the sums that texts are told apart by: what a file holds cannot be made for them."""


def _number(buffer: Bytes, begin: int, end: int, cut: bool, texts: dict[tuple[bytes, bool], int]) -> int:
    said = buffer[begin : begin + end].tobytes()
    if not cut:  # a long one may have its cut further on
        places = [at for word in CUTS if (at := said.find(word)) >= 0]
        said, cut = (said[: min(places)], True) if places else (said, False)
    return texts.setdefault((said, cut), len(texts))


def _ends(buffer: Bytes, matrix: Bytes, begin: Integers, length: Integers) -> Integers:
    """Length of each text before the cut."""
    end = length.copy()
    commas = matrix == ord(",")
    eight, two = windows(buffer, ">u8"), windows(buffer, ">u2")
    left = np.flatnonzero(commas.any(axis=1))
    while len(left):
        at = commas[left].argmax(axis=1)
        where = begin[left] + at
        word, behind = eight[where], two[where + 8]
        hit = (word == _LONG) & (behind == _REST) | (word == _SHORT)
        inside = hit & (at < length[left])
        end[left[inside]] = at[inside]
        commas[left, at] = False
        left = left[~hit & (at < length[left])]
        left = left[commas[left].any(axis=1)]
    return end


_LONG, _REST = int.from_bytes(CUTS[0][:8], "big"), int.from_bytes(CUTS[0][8:], "big")
_SHORT = int.from_bytes(CUTS[1], "big")
