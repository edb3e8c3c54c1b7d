"""The NVTX ranges of an SQLite export from its pages: integer columns, and the texts that differ. Under emit_nvtx each
range has a text of its own, `aten::mm, op_id = 1234567`: a Python object and a search for each take most of the time
that an export of millions of ranges takes. Here texts are cut before the number, told apart by numpy, and decoded once.

Like sqlite_pages it raises `Unusual` for all that it does not know for certain, and sqlite3 reads that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.model.columns import Column, constant
from kscope.parsers.timeline.sqlite_pages import Pages
from kscope.parsers.timeline.sqlite_records import Bytes, Integers, Record, Rows, Unusual, records
from kscope.parsers.timeline.sqlite_texts import Texts

_MORE = 0x80


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
    texts = Texts()
    last = max(*places, text, known)
    for some in pages.blocks(root):
        rows = records(some.buffer, some.cells, some.ends, pages.usable, last + 3)
        keep, columns, begin, length = _fields(rows, last, places, text, known)
        if not keep.all():
            columns = {place: values[keep] for place, values in columns.items()}
            begin, length = begin[keep], length[keep]
        if len(begin):
            label = texts.labels(rows.buffer, begin, length)
            yield Labelled(columns, label, texts.texts, some.pages.stop / some.whole)


def _fields(
    rows: Rows, last: int, places: Sequence[int], text: int, known: int
) -> tuple[NDArray[np.bool_], dict[int, Column], Integers, Integers]:
    """(rows to keep, integers by place, begins and lengths of the texts, -1 for NULL)."""
    buffer, at, head = rows.buffer, rows.at, rows.head
    first, differs = head[0].tolist(), rows.differs.tolist()
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

    record = rows.record(_BEFORE)
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
    if (record.at + record.shift > rows.stop).any():
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
