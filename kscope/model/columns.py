"""Columns of integers, as a Timeline has them: millions of rows, often of few values, often nearly sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Column: TypeAlias = NDArray[np.signedinteger[Any]]
"""Integers: of 64 bits for all that is reckoned with; names, threads, shapes and their like may be narrower."""

_Integer: TypeAlias = type[np.signedinteger[Any]]
_BLOCK = 1 << 15
_DENSE = 1 << 20  # as many numbers a table may have to be worth it


def column(values: Any) -> Column:
    """An int64 column of a sequence or buffer of integers."""
    return np.asarray(values, dtype=np.int64)


def blocks(count: int, least: int = 0) -> Iterator[slice]:
    """The rows 0..count, some (at least so many) at a time: what is computed of so many stays in the caches, and the
    system need not clear memory for it again and again."""
    step = max(least, _BLOCK)
    return (slice(i, min(i + step, count)) for i in range(0, count, step))


def constant(value: int, size: int) -> Column:
    """A column of one value, which takes no memory: a view that may not be written to."""
    return np.broadcast_to(np.int64(value), (size,))


def is_constant(values: Column) -> bool:
    """Whether a column is a view of one value."""
    return len(values) > 0 and values.strides[0] == 0


def even(table: Mapping[str, Any]) -> None:
    """Raises ValueError where the columns of a table differ in length: its rows would be mixed up."""
    lengths = {name: len(values) for name, values in table.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns of one table differ in length: {lengths}")


def taken(values: Column, rows: Any) -> Column:
    """`values[rows]` (a mask or indices); a constant stays one."""
    if not is_constant(values):
        some: Column = values[rows]
        return some
    return constant(int(values[0]), int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows))


def distinct(values: Column) -> tuple[Column, Column]:
    """(the different values, sorted; for each value its index among them). For columns of few values that differ, such
    as names, threads and devices: ten times as fast as numpy.unique on millions of rows."""
    found: list[Column] = []

    def numbers(those: Column) -> Column:
        found.append(those)
        return np.arange(len(those))

    index = renumbered(values, numbers, np.int64)
    return found[0], index


def different(values: Column) -> Column:
    """The different values, sorted: numpy.unique, which imports all of numpy.ma for it."""
    if not len(values) or is_constant(values):
        return column(values[:1])
    ordered = np.sort(values)
    found: Column = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found


def combinations(*parts: Column) -> list[tuple[int, ...]]:
    """The different combinations of values in the rows of columns, sorted."""
    index = combined(*parts)
    row = np.zeros(int(index.max(initial=-1)) + 1, dtype=np.int64)
    row[index] = np.arange(len(index))  # any of those alike
    return sorted(zip(*(part[row].tolist() for part in parts), strict=True))


def renumbered(values: Column, numbers: Callable[[Column], Any], type_: _Integer = np.int32) -> Column:
    """Each value replaced: `numbers` says by what, of the different values, sorted."""
    if not len(values):
        return np.asarray(numbers(column([])), dtype=type_)
    if is_constant(values):
        return constant(int(numbers(column(values[:1]))[0]), len(values))
    low, high = int(values.min()), int(values.max())
    return _renumbered(lambda rows: values[rows].astype(np.int64), len(values), low, high, numbers, type_)


def _renumbered(
    values: Callable[[slice], Column], size: int, low: int, high: int, numbers: Callable[[Column], Any], type_: _Integer
) -> Column:
    """The same of values that are made some rows at a time, between `low` and `high`."""
    if high - low >= max(size, 1 << 16):
        every = np.concatenate([values(rows) for rows in blocks(size)])
        found = different(every[np.append(True, every[1:] != every[:-1])])  # neighbours are often equal
        return np.asarray(numbers(found), dtype=type_)[np.searchsorted(found, every)]
    seen = np.zeros(high - low + 1, dtype=bool)
    for rows in blocks(size):
        seen[values(rows) - low] = True
    found = np.flatnonzero(seen)
    table = np.zeros(len(seen), dtype=type_)
    table[found] = numbers(found + low)
    out = np.empty(size, dtype=type_)
    for rows in blocks(size):
        out[rows] = table[values(rows) - low]
    return out


def combined(*parts: Column) -> Column:
    """A number for each row that is the same for rows in which all columns are; in the order of their values."""
    digits: list[tuple[Column, int, int]] = []  # column, lowest value, number of values
    size = 1
    for part in parts:
        if not len(part) or is_constant(part):
            continue
        low, span = int(part.min()), int(part.max()) - int(part.min()) + 1
        if span > _DENSE:
            part = _index(part)
            low, span = 0, int(part.max()) + 1
        if size * span > _DENSE and digits:
            number = _numbered(digits, size)
            size = int(number.max()) + 1
            digits = [(number, 0, size)]
        digits.append((part, low, span))
        size *= span
    return _numbered(digits, size) if digits else constant(0, len(parts[0]))


def _numbered(digits: Sequence[tuple[Column, int, int]], size: int) -> Column:
    """The same of columns whose values make numbers below `size`, one digit each."""

    def number(rows: slice) -> Column:
        out = np.zeros(rows.stop - rows.start, dtype=np.int64)
        for part, low, span in digits:
            out *= span
            out += part[rows]
            out -= low
        return out

    return _renumbered(number, len(digits[0][0]), 0, size - 1, lambda found: np.arange(len(found)), np.int32)


def _index(values: Column) -> Column:
    return renumbered(values, lambda found: np.arange(len(found)))


def in_order(parts: Sequence[dict[str, Column]]) -> dict[str, Column]:
    """The columns of several tables as one table in the order of `start` (stable, ties by `end`). The tables are used
    up: their columns are let go one by one. Raises ValueError where columns of one table differ in length."""
    for part in parts:
        even(part)
    parts = [p for p in parts if len(p["start"])] or list(parts[:1])
    if len(parts) > 1 and (merged := _merged(parts)) is not None:
        return merged
    start = parts[0]["start"] if len(parts) == 1 else np.concatenate([p["start"] for p in parts])
    if bool(np.all(start[1:] >= start[:-1])):
        places = None
    else:
        order = np.argsort(start, kind="stable")  # fast on what is nearly sorted, or joined from sorted parts
        start = start[order]
        tied = np.flatnonzero(start[1:] == start[:-1])
        if len(tied):
            rows = different(np.append(tied, tied + 1))
            end = np.concatenate([p["end"] for p in parts])[order[rows]]
            order[rows] = order[rows[np.lexsort((end, start[rows]))]]
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
    return {"start": start, **{n: _laid([p.pop(n) for p in parts], places) for n in tuple(parts[0]) if n != "start"}}


def _merged(parts: Sequence[dict[str, Column]]) -> dict[str, Column] | None:
    """`in_order` of a long table and some short ones without work for the rows of the long one; None where it is not in
    order itself, or starts are not distinct."""
    longest = max(parts, key=lambda p: len(p["start"]))
    others = in_order([dict(p) for p in parts if p is not longest])
    start, short = longest["start"], others["start"]
    if not bool((start[1:] > start[:-1]).all()) or not bool((short[1:] > short[:-1]).all()):
        return None
    places = np.searchsorted(start, short)
    if (start[np.minimum(places, len(start) - 1)] == short).any():
        return None
    return {name: _inserted(longest.pop(name), places, others[name]) for name in tuple(longest)}


def _inserted(values: Column, places: Column, others: Column) -> Column:
    """numpy.insert, which leaves constants what they are."""
    if is_constant(values) and is_constant(others) and values[0] == others[0]:
        return constant(int(values[0]), len(values) + len(others))
    types = [_narrowest(p) for p in (values, others)]
    if not is_constant(values):
        return np.insert(values.astype(np.result_type(*types), copy=False), places, others)
    out = np.full(len(values) + len(others), values[0], dtype=np.result_type(*types))
    out[places + np.arange(len(places))] = others
    return out


def _narrowest(values: Column) -> np.dtype[Any]:
    return np.min_scalar_type(-abs(int(values[0])) - 1) if is_constant(values) else values.dtype


def _laid(parts: Sequence[Column], places: Column | None) -> Column:
    """One column of the parts, their values at these places; one behind the other where there are none."""
    size = sum(map(len, parts))
    if size and all(is_constant(p) and p[0] == parts[0][0] for p in parts):
        return constant(int(parts[0][0]), size)
    if places is None:
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    out = np.empty(size, dtype=np.result_type(*map(_narrowest, parts)))
    begin = 0
    for number, part in enumerate(parts):
        if number == 0 and is_constant(part):
            out.fill(int(part[0]))
        else:
            out[places[begin : begin + len(part)]] = part
        begin += len(part)
    return out


def by_start(columns: dict[str, Column]) -> dict[str, Column]:
    """The columns in the order of their `start` (stable, ties by `end`); untouched where they are sorted already."""
    return in_order([dict(columns)])
