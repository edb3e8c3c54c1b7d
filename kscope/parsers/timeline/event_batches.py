"""Columns of many events of a trace at once, which takes a third of the time that one after another does. An event with
anything odd in it raises TypeError, ValueError or OverflowError: its batch is then read one by one."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from kscope.model.columns import Column, column
from kscope.model.timeline import LATEST, Spans, spans
from kscope.parsers.timeline._names import Interner

_LATEST_US = LATEST // 1000
_NO_SHAPE = (0, 0, 0)


class Table:
    """Columns that grow by a row, or by many."""

    def __init__(self, *names: str) -> None:
        self.columns = {name: array("q") for name in names}
        self.appends = [c.append for c in self.columns.values()]

    def add(self, *values: int) -> None:
        """All of a row or, where a value is no integer of 64 bits, nothing of it: raises OverflowError, TypeError."""
        if len(values) != len(self.appends):
            raise ValueError(f"{len(values)} values for {len(self.appends)} columns")
        try:
            for append, value in zip(self.appends, values, strict=False):
                append(value)
        except (OverflowError, TypeError):
            size = min(map(len, self.columns.values()))
            for column in self.columns.values():
                del column[size:]
            raise

    def extend(self, *columns: Column | int) -> None:
        """Many rows: a column for each, or the value that all of them have."""
        size = next(len(c) for c in columns if not isinstance(c, int))
        for into, values in zip(self.columns.values(), columns, strict=True):
            full = np.full(size, values) if isinstance(values, int) else values
            into.frombytes(np.ascontiguousarray(full, dtype=np.int64).tobytes())

    def spans(self) -> Spans:
        return spans(**self.columns)


class Threads(dict[Any, int]):
    """(pid, tid) of an event, as they come -> the number of the thread that they name."""

    def __init__(self, named: Interner) -> None:
        self.named = named

    def __missing__(self, key: tuple[Any, Any]) -> int:
        index = self[key] = self.named[str(key[0]), str(key[1])]
        return index


def integers(values: Iterable[Any]) -> Column:
    """Raises TypeError for anything but integers, OverflowError for those of more than 64 bits."""
    return column(array("q", list(values)))


def times(events: Sequence[Any], shift: int) -> tuple[Column, Column]:
    """Start and end in ns, `shift` ns later than they say. Raises ValueError for a time that is missing, out of range,
    or an end before its start."""
    start = _ns([e.ts for e in events]) + shift
    end = start + _ns([e.dur for e in events])
    if not ((start > -LATEST) & (start <= end) & (end < LATEST)).all():
        raise ValueError("an event that ends before it starts, or lies out of all time")
    return start, end


def _ns(us: list[Any]) -> Column:
    """As kineto rounds one: the fraction of a microsecond by itself."""
    values = np.array(us, dtype=np.float64)  # None becomes NaN, which no comparison holds for
    if not (np.abs(values) < _LATEST_US).all():
        raise ValueError("a time out of range")
    whole = values.astype(np.int64)
    part: Column = whole * 1000 + np.rint((values - whole) * 1000).astype(np.int64)
    return part


def correlations(events: Sequence[Any]) -> Column:
    return integers([(e.args.correlation or 0) if e.args is not None else 0 for e in events])


def gpu_columns(
    events: Sequence[Any], message: Callable[[Any], int], copy: Callable[[str], tuple[int, int]] | None
) -> tuple[Column | int, ...]:  # fmt: skip
    """Of operations of one kind: device, stream, correlation, bytes, a copy's direction and pageability, graph,
    message, grid, block. Raises also AttributeError, where an event has no arguments."""
    args = [e.args for e in events]
    device = integers([a.device if a.device is not None else e.pid for a, e in zip(args, events, strict=True)])
    stream = integers([a.stream if a.stream is not None else e.tid for a, e in zip(args, events, strict=True)])
    ways = [copy(e.name or "") for e in events] if copy is not None else []
    directions = (integers([d for d, _ in ways]), integers([p for _, p in ways])) if ways else (0, 0)
    return (device, stream, *_numbers(args), *directions, *_said(args, message))


def _numbers(args: list[Any]) -> tuple[Column, Column]:
    return integers([a.correlation or 0 for a in args]), integers([a.bytes or 0 for a in args])


def _said(args: list[Any], message: Callable[[Any], int]) -> tuple[Column, ...]:
    graph = integers([a.graph or a.graph_id or 0 for a in args])
    of = integers([message(a) if a.collective is not None else 0 for a in args])
    return graph, of, *_shapes([a.grid or _NO_SHAPE for a in args]), *_shapes([a.block or _NO_SHAPE for a in args])


def _shapes(values: list[Any]) -> tuple[Column, Column, Column]:
    if set(map(len, values)) != {3}:
        raise ValueError("a shape of other than three sizes")
    x, y, z = integers(chain.from_iterable(values)).reshape(-1, 3).T
    return x, y, z
