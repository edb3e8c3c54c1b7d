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

from kscope.model.columns import Column, constant
from kscope.parsers.timeline.growing_column import Numbers
from kscope.parsers.timeline.sqlite_pages import (
    SURELY_LOCAL,
    Bytes,
    Integers,
    Pages,
    Record,
    Unusual,
    differing,
    gather,
    records,
    windows,
)

CUTS = (b", op_id = ", b", seq = ")
"""What torch.autograd.profiler.emit_nvtx writes between the name of an operator and its numbers."""
_WIDTH = 64  # bytes of a text that are looked at together; longer ones without a cut in them are read one by one
_MORE = 0x80
_WORD = np.uint64(32)
_SLOT_BITS = 14  # of the table of sums: recordings have some hundred names of operators
_SLOT = np.uint64(64 - _SLOT_BITS)


class Labelled(Struct, frozen=True):
    """Some rows. columns: integers by their places. label: of each row the index of its text in `texts`, -1 where it
    has none. texts: of all rows so far, (as far as the cut, whether there was one). done: share of the table."""

    columns: Mapping[int, Column]
    label: Column
    texts: Sequence[tuple[bytes, bool]]
    done: float


def labelled(pages: Pages, root: int, places: Sequence[int], text: int, known: int) -> Iterator[Labelled]:
    """Columns at `places`, NULL as 0, and the texts at `text`, of the rows of the table at page `root` in which `known`
    is not NULL, many rows at a time. `known` and what comes before the text are integers."""
    texts = _Texts()
    last = max(*places, text, known)
    for buffer, at, stop, done in _blocks(pages, root):
        keep, columns, begin, length = _fields(buffer, at, stop, last, places, text, known)
        if not keep.all():
            columns = {place: values[keep] for place, values in columns.items()}
            begin, length = begin[keep], length[keep]
        if len(begin):
            label = texts.labels(buffer, begin, length)
            yield Labelled(columns, label, texts.texts, done)


def _blocks(pages: Pages, root: int) -> Iterator[tuple[Bytes, Integers, Integers, float]]:
    """(bytes of some pages, offsets of the records in them and of their ends, share of the pages that was seen) of a
    table's rows, in order."""
    for some in pages.blocks(root):
        size, at = records(some.buffer, some.cells)
        stop = at + size
        if int(size.max()) > pages.usable - SURELY_LOCAL or (stop > some.ends).any():
            raise Unusual("overflow pages, or a record outside its page")
        yield some.buffer, at, stop, some.pages.stop / some.whole


def _fields(
    buffer: Bytes, at: Integers, stop: Integers, last: int, places: Sequence[int], text: int, known: int
) -> tuple[NDArray[np.bool_], dict[int, Column], Integers, Integers]:
    """(rows to keep, integers by place, begins and lengths of the texts, -1 for NULL) of records at these offsets."""
    head = gather(buffer, at, -(-(last + 3) // 8) * 8)
    first, differs = head[0].tolist(), differing(head).tolist()
    wide = head[:, text + 1] >= _MORE  # the type of a text of more than 57 bytes takes two
    some_wide = bool(wide.any())
    short = (head[:, 0] < last + 2 + wide).any() if some_wide or differs[0] else first[0] < last + 2
    if (int(head[:, 0].max()) if differs[0] else first[0]) >= _MORE or short:
        raise Unusual("a record unlike the table")

    def kind_of(place: int) -> int | Bytes:
        """The type of the values there, or of each."""
        if place > text and some_wide:
            return np.where(wide, head[:, place + 2], head[:, place + 1])
        return np.ascontiguousarray(head[:, place + 1]) if differs[place + 1] else int(first[place + 1])

    record = Record(buffer, at + (head[:, 0] if differs[0] else first[0]), _BEFORE)
    columns: dict[int, Column] = {}
    begin = length = np.zeros(0, dtype=np.int64)
    keep = np.ones(len(at), dtype=bool)
    for place in range(last + 1):
        if place == text:
            begin, length = record.at + record.shift, _lengths(head, text, wide if some_wide else None)
            record = Record(buffer, begin + np.maximum(length, 0), _BEHIND)
            continue
        kind = kind_of(place)
        if (kind if isinstance(kind, int) else int(kind.max())) >= _MORE or _has(kind, _REAL) or _has(kind, *_RESERVED):
            raise Unusual("a value that is no integer")
        if place in places:
            value = record.value(kind)
            columns[place] = constant(value, len(at)) if isinstance(value, int) else value
        if place == known:
            keep = np.full(len(at), kind != 0) if isinstance(kind, int) else kind != 0
        record.pass_by(kind)
    if (record.at + record.shift > stop).any():
        raise Unusual("a record that ends early")
    return keep, columns, begin, length


_REAL, _RESERVED = 7, (10, 11)  # types of values, as sqlite_pages has them
_BEFORE, _BEHIND = 32, 16  # bytes that are gathered together before a text, and behind it


def _has(kind: int | Bytes, *wanted: int) -> bool:
    return kind in wanted if isinstance(kind, int) else any(bool((kind == one).any()) for one in wanted)


def _lengths(head: Bytes, text: int, wide: NDArray[np.bool_] | None) -> Integers:
    """Of the texts whose types these heads of records have at a place, -1 for NULL. wide: those that take two bytes."""
    kind = head[:, text + 1].astype(np.int64)
    if wide is not None:
        second = head[:, text + 2].astype(np.int64)
        if int(second[wide].max()) >= _MORE:
            raise Unusual("a text of more than 8 KB")
        kind = np.where(wide, (kind & 0x7F) << 7 | second, kind)
    if ((kind != 0) & ((kind < 13) | (kind & 1 == 0))).any():
        raise Unusual("no text")
    length: Integers = np.where(kind == 0, -1, (kind - 13) >> 1)
    return length


class _Texts:
    """The texts so far, and a table in which their sums are looked up; a slot holds the last text that belongs there.
    Sums have 64 bits and factors of this process alone: two texts have the same by a chance of one in four billion."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[bytes, bool], int] = {}
        self.texts: list[tuple[bytes, bool]] = []
        self.sums = ~(np.arange(1 << _SLOT_BITS, dtype=np.uint64) << _SLOT)  # none: these belong into other slots
        self.of_slot = np.zeros(1 << _SLOT_BITS, dtype=np.int32)

    def labels(self, buffer: Bytes, begin: Integers, length: Integers) -> Numbers:
        """The number of each text at these offsets; -1 where the length is."""
        there = np.flatnonzero(length >= 0)
        if len(there) < len(length):
            out = np.full(len(begin), -1, dtype=np.int32)
            if len(there):
                out[there] = self.labels(buffer, begin[there], length[there])
            return out
        end, cut, sums = _summed(buffer, begin, length)
        slot = (sums >> _SLOT).astype(np.int64)
        out = self.of_slot[slot]
        other = np.flatnonzero(self.sums[slot] != sums)
        if len(other):
            _, first, inverse = np.unique(sums[other], return_index=True, return_inverse=True)
            numbers = np.zeros(len(first), dtype=np.int32)
            for place in np.argsort(first).tolist():  # in the order in which they come
                i = int(other[first[place]])
                numbers[place] = self._number(buffer, int(begin[i]), int(end[i]), bool(cut[i]))
                self.sums[slot[i]], self.of_slot[slot[i]] = sums[i], numbers[place]
            out[other] = numbers[inverse]
        for i in np.flatnonzero(end > _WIDTH).tolist():  # found by their beginnings alone
            out[i] = self._number(buffer, int(begin[i]), int(end[i]), False)
        return out

    def _number(self, buffer: Bytes, begin: int, end: int, cut: bool) -> int:
        said = buffer[begin : begin + end].tobytes()
        if not cut:  # a long one may have its cut further on
            places = [at for word in CUTS if (at := said.find(word)) >= 0]
            said, cut = (said[: min(places)], True) if places else (said, False)
        number = self.numbers.setdefault((said, cut), len(self.texts))
        if number == len(self.texts):
            self.texts.append((said, cut))
        return number


def _summed(buffer: Bytes, begin: Integers, length: Integers) -> tuple[Integers, NDArray[np.bool_], NDArray[np.uint64]]:
    """(length before the cut, whether there is one, sum of what is before it) of each text. Eight bytes at a time, as
    far as the first comma: behind the name of an operator that is the cut."""
    end, cut, sums = length.copy(), np.zeros(len(begin), dtype=bool), np.zeros(len(begin), dtype=np.uint64)
    ahead, shortest = gather(buffer, begin, 8 * _AHEAD).view("<u8"), int(length.min())
    live: Any = None  # all bits where no comma was met
    odd: list[Integers] = []
    for number in range(_AHEAD):
        word = ahead[:, number].copy()
        comma = _first_comma(word, _KEPT[np.clip(length - 8 * number, 0, 8)] if shortest < 8 * number + 8 else None)
        if live is not None:
            comma &= live
            word &= live
        sums += (word ^ word >> _WORD) * _MIX[number]
        found = np.flatnonzero(comma)
        if len(found):
            odd.append(_cut(buffer, found, begin[found], comma[found], number, end, cut))
            met = np.negative((comma == 0).astype(np.uint64))
            live = met if live is None else live & met
    over = length > 8 * _AHEAD
    rows = np.flatnonzero(over if live is None else over & (live != 0))
    words = windows(buffer, "<u8")
    for number in range(_AHEAD, _WIDTH // 8):
        if not len(rows):
            break
        word = np.asarray(words[begin[rows] + 8 * number], dtype=np.uint64)
        rest = length[rows] - 8 * number
        comma = _first_comma(word, _KEPT[np.minimum(rest, 8)])
        sums[rows] += (word ^ word >> _WORD) * _MIX[number]
        found = np.flatnonzero(comma)
        odd.append(_cut(buffer, rows[found], begin[rows[found]], comma[found], number, end, cut))
        rows = rows[(comma == 0) & (rest > 8)]
    if odd and len(again := np.concatenate(odd)):
        end[again], sums[again] = _past_commas(buffer, begin[again], length[again])
        cut[again] = end[again] < length[again]
    return end, cut, sums + (end * 2 + cut).astype(np.uint64) * _MIX[-1]


_AHEAD = 4  # words of a text that are looked at whether or not it is over: most names are no longer


def _first_comma(word: Any, kept: Any) -> NDArray[np.uint64]:
    """The highest bit of the first byte that is a comma, 0 where none is; of `word` what is before it is left. kept:
    bits that belong to the text, None for all."""
    comma = word ^ _COMMAS
    other: NDArray[np.uint64] = comma - _ONES
    np.invert(comma, out=comma)
    comma &= other
    comma &= _HIGHS  # the lowest one that is left is right
    if kept is not None:
        comma &= kept
        word &= kept
    np.negative(comma, out=other)
    comma &= other
    np.right_shift(comma, _SEVEN, out=other)
    other -= _ONE
    word &= other
    return comma  # type: ignore[no-any-return]


def _cut(
    buffer: Bytes, rows: Integers, begin: Integers, comma: Any, number: int, end: Integers, cut: NDArray[np.bool_]
) -> Integers:
    """Enter the cuts of the texts whose first comma is in their word `number`; the rows whose comma is none."""
    before = (np.bitwise_count(comma - _ONE) >> 3).astype(np.int64) + 8 * number
    pair = windows(buffer, "V16")[begin + before].view("<u8").reshape(-1, 2)
    hit = (pair[:, 0] == _LONG) & (pair[:, 1] & _TWO == _REST) | (pair[:, 0] == _SHORT)
    mine = rows if (every := bool(hit.all())) else rows[hit]
    end[mine] = before if every else before[hit]
    cut[mine] = True
    return rows[:0] if every else rows[~hit]


_COMMAS, _ONES, _HIGHS = (np.uint64(each * 0x0101010101010101) for each in (0x2C, 0x01, 0x80))
_ONE, _SEVEN, _TWO = np.uint64(1), np.uint64(7), np.uint64(0xFFFF)
_KEPT = np.array([(1 << 8 * n) - 1 for n in range(9)], dtype=np.uint64)  # masks of the first n bytes
_MIX = np.frombuffer(os.urandom(8 * (_WIDTH // 8 + 1)), dtype=np.uint64) | np.uint64(1)
"""Factors of the sums that texts are told apart by: what a file holds cannot be made for them."""


def _past_commas(buffer: Bytes, begin: Integers, length: Integers) -> tuple[Integers, NDArray[np.uint64]]:
    """(length before the cut, sum) of texts that have commas of their own."""
    matrix = gather(buffer, begin, _WIDTH)
    end = _ends(buffer, matrix, begin, length)
    matrix = np.where(np.arange(_WIDTH) < np.minimum(end, _WIDTH)[:, None], matrix, np.uint8(0))
    words = matrix.view("<u8")
    return end, ((words ^ (words >> _WORD)) * _MIX[:-1]).sum(axis=1)


def _ends(buffer: Bytes, matrix: Bytes, begin: Integers, length: Integers) -> Integers:
    """Length of each text before the cut."""
    end = length.copy()
    commas = matrix == ord(",")
    eight, two = windows(buffer, "<u8"), windows(buffer, "<u2")
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


_LONG, _REST = int.from_bytes(CUTS[0][:8], "little"), int.from_bytes(CUTS[0][8:], "little")
_SHORT = int.from_bytes(CUTS[1], "little")
