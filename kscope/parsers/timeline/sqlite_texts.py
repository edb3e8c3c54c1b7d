"""The texts of many rows of an SQLite export, told apart by numpy as far as the cut before an operator's numbers, and
decoded once: parsers/timeline/sqlite_labels.py says what for.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kscope.parsers.timeline.growing_column import Numbers
from kscope.parsers.timeline.sqlite_records import Bytes, Integers, gather, windows

CUTS = (b", op_id = ", b", seq = ")
"""What torch.autograd.profiler.emit_nvtx writes between the name of an operator and its numbers."""
_WIDTH = 64  # bytes of a text that are looked at together; longer ones without a cut in them are read one by one
_WORD = np.uint64(32)
_SLOT_BITS = 14  # of the table of sums: recordings have some hundred names of operators
_SLOT = np.uint64(64 - _SLOT_BITS)
_TAILS = 3  # lengths of what is behind the cut, as of operators with and without a number of the backward pass


class Texts:
    """The texts so far, and tables in which their sums are looked up; a slot holds the last text that belongs there.
    Sums have 64 bits and factors of this process alone: two texts have the same by a chance of one in four billion."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[bytes, bool], int] = {}
        self.texts: list[tuple[bytes, bool]] = []
        self._known = _Table()
        self._begun = {cut: _Table() for cut in CUTS}  # by the sum of the text with this cut behind it
        self._entered: set[tuple[int, bytes]] = set()  # what is in these

    def labels(self, buffer: Bytes, begin: Integers, length: Integers) -> Numbers:
        """The number of each text at these offsets; -1 where the length is."""
        there = np.flatnonzero(length >= 0)
        if len(there) < len(length):
            out = np.full(len(begin), -1, dtype=np.int32)
            if len(there):
                out[there] = self.labels(buffer, begin[there], length[there])
            return out
        out = np.empty(len(begin), dtype=np.int32)
        rest: Integers | None = None  # all
        for _ in range(_TAILS):
            first = (begin, length) if rest is None else (begin[rest], length[rest])
            found = self._foreseen(buffer, *first)
            if found is None:
                break
            out[slice(None) if rest is None else rest] = found
            if not len(left := np.flatnonzero(found < 0)):
                return out
            rest = left if rest is None else rest[left]
        if rest is None:
            return self._looked_at(buffer, begin, length)
        out[rest] = self._looked_at(buffer, begin[rest], length[rest])
        return out

    def _foreseen(self, buffer: Bytes, begin: Integers, length: Integers) -> Numbers | None:
        """The numbers of known texts that are cut as many bytes before their end as the first of these: most are, as
        long as the numbers behind have as many digits. A known text has no cut inside, so that this is their first. -1
        for others, None where the first has no cut."""
        tail, cut = _behind(buffer, int(begin[0]), int(length[0]))
        table = self._begun.get(cut)
        if table is None or not table.used:
            return None
        upto = length - (tail - len(cut))
        if int(length.min()) < tail:
            np.maximum(upto, 0, out=upto)  # too short for it: the sum of nothing is no known text's
        sums = _sums_upto(buffer, begin, upto)
        return table.found(sums)

    def _looked_at(self, buffer: Bytes, begin: Integers, length: Integers) -> Numbers:
        """The same of texts of any kind."""
        end, cut, sums = _summed(buffer, begin, length)
        out = self._known.found(sums)
        other = np.flatnonzero(out < 0)
        if len(other):
            _, first, inverse = np.unique(sums[other], return_index=True, return_inverse=True)
            numbers = np.zeros(len(first), dtype=np.int32)
            for place in np.argsort(first).tolist():  # in the order in which they come
                i = int(other[first[place]])
                numbers[place] = self._number(buffer, int(begin[i]), int(end[i]), bool(cut[i]))
                self._known.enter(sums[i], numbers[place])
            out[other] = numbers[inverse]
        self._enter(buffer, begin, end, cut, out)
        for i in np.flatnonzero(end > _WIDTH).tolist():  # found by their beginnings alone
            out[i] = self._number(buffer, int(begin[i]), int(end[i]), False)
        return out

    def _enter(self, buffer: Bytes, begin: Integers, end: Integers, cut: NDArray[np.bool_], number: Numbers) -> None:
        """Texts that are to be foreseen from now on: an example of each, with the cut behind it."""
        rows = np.flatnonzero(cut & (end + len(CUTS[0]) <= _WIDTH))
        word = np.asarray(windows(buffer, "<u8")[begin[rows] + end[rows]]) == _SHORT
        for which, kind in enumerate(CUTS):
            some = rows[word == bool(which)]
            _, first = np.unique(number[some], return_index=True)
            for i in some[first].tolist():
                if (entry := (int(number[i]), kind)) not in self._entered:
                    self._entered.add(entry)
                    upto = end[i : i + 1] + len(kind)
                    self._begun[kind].enter(_sums_upto(buffer, begin[i : i + 1], upto)[0], entry[0])

    def _number(self, buffer: Bytes, begin: int, end: int, cut: bool) -> int:
        said = buffer[begin : begin + end].tobytes()
        if not cut:  # a long one may have its cut further on
            places = [at for word in CUTS if (at := said.find(word)) >= 0]
            said, cut = (said[: min(places)], True) if places else (said, False)
        number = self.numbers.setdefault((said, cut), len(self.texts))
        if number == len(self.texts):
            self.texts.append((said, cut))
        return number


class _Table:
    """Numbers by sums."""

    def __init__(self) -> None:
        self.sums = ~(np.arange(1 << _SLOT_BITS, dtype=np.uint64) << _SLOT)  # none: these belong into other slots
        self.numbers = np.zeros(1 << _SLOT_BITS, dtype=np.int32)
        self.used = False

    def found(self, sums: NDArray[np.uint64]) -> Numbers:
        """The number of each, -1 for what is not there."""
        slot = (sums >> _SLOT).astype(np.int64)
        out = self.numbers.take(slot)
        out[self.sums.take(slot) != sums] = -1
        return out

    def enter(self, sums: np.uint64, number: int) -> None:
        slot = int(sums >> _SLOT)
        self.sums[slot], self.numbers[slot], self.used = sums, number, True


def _behind(buffer: Bytes, begin: int, length: int) -> tuple[int, bytes]:
    """(bytes of a text from its cut to its end, the cut); 0 and nothing without one."""
    said = buffer[begin : begin + length].tobytes()
    return max(((length - at, cut) for cut in CUTS if (at := said.find(cut)) >= 0), default=(0, b""))


def _sums_upto(buffer: Bytes, begin: Integers, upto: Integers) -> NDArray[np.uint64]:
    """A sum of the first bytes of each text, 0 of no bytes, and of more than _WIDTH."""
    shortest, longest = int(upto.min()), int(upto.max())
    short = upto if longest <= _WIDTH else np.minimum(upto, _WIDTH)
    ahead, sums = gather(buffer, begin, 8 * _AHEAD).view("<u8"), np.zeros(len(begin), dtype=np.uint64)
    for number in range(min(_AHEAD, -(-longest // 8))):
        word = ahead[:, number].copy()
        if shortest < 8 * number + 8:
            word &= _KEPT_UPTO[number].take(short)
        sums += _mixed(word, number)
    if longest > 8 * _AHEAD:
        rows = np.flatnonzero(upto > 8 * _AHEAD)
        more = gather(buffer, begin[rows] + 8 * _AHEAD, _WIDTH - 8 * _AHEAD).view("<u8")
        left, some = short[rows], sums[rows]
        for number in range(_AHEAD, _WIDTH // 8):
            some += _mixed(more[:, number - _AHEAD] & _KEPT_UPTO[number].take(left), number)
        sums[rows] = np.where(upto[rows] <= _WIDTH, some, 0)
    sums *= upto.astype(np.uint64) * 2 + 1
    return sums


def _mixed(word: Any, number: int) -> Any:
    """What the word of this number (contiguous) adds to a sum."""
    out = word >> _WORD
    out ^= word
    out *= _MIX[number]
    return out


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
        sums += _mixed(word, number)
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
        sums[rows] += _mixed(word, number)
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
_KEPT_UPTO = [_KEPT[np.clip(np.arange(_WIDTH + 1) - 8 * n, 0, 8)] for n in range(_WIDTH // 8)]
"""Of the words of a text, masks of what belongs to its first n bytes."""
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
