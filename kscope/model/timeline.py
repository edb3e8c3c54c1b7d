"""`Timeline`: what one recording saw of a program, as columns. Plain values, no I/O; the same for Nsight Systems and
the torch profiler. All times are integer nanoseconds from an origin of the recording's own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Column: TypeAlias = NDArray[np.int64]


class Op(IntEnum):
    """What a GPU operation is. GRAPH is a whole graph launch recorded as one row: its kernels were not recorded."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    GRAPH = 3


class Copy(IntEnum):
    """Direction of a copy, numbered as CUPTI does (CUpti_ActivityMemcpyKind)."""

    UNKNOWN = 0
    HTOD = 1
    DTOH = 2
    DTOD = 8
    HTOH = 9
    PTOP = 10


class GpuOps(Struct, frozen=True):
    """Operations of all devices, sorted by start. Columns of equal length.

    name: index into Timeline.names. process and correlation name the API call that launched the operation. bytes: of
    copies and sets, else 0. copy: a Copy. pageable: 1 where a copy touches pageable host memory. grid, block: shape
    (n, 3), zero where unknown. graph: id of the graph or of its node, 0 outside graphs.
    """

    start: Column
    end: Column
    kind: Column
    name: Column
    device: Column
    stream: Column
    process: Column
    correlation: Column
    bytes: Column
    copy: Column
    pageable: Column
    graph: Column
    grid: Column
    block: Column

    def __len__(self) -> int:
        return len(self.start)


class Calls(Struct, frozen=True):
    """CUDA API calls of all threads, sorted by start. name: index into Timeline.names; thread: index of a thread."""

    start: Column
    end: Column
    name: Column
    thread: Column
    process: Column
    correlation: Column

    def __len__(self) -> int:
        return len(self.start)


class Spans(Struct, frozen=True):
    """Named intervals of host threads, sorted by start. name: index into Timeline.names."""

    start: Column
    end: Column
    name: Column
    thread: Column

    def __len__(self) -> int:
        return len(self.start)


class Coverage(Struct, frozen=True):
    """What the recording cannot tell. truncated: why the file ends early, "" when it is whole. damaged: events that
    could not be read. gpu_rows, api_rows: whether such events were recorded at all. graph_rows: launches recorded as
    one row. missing: tables of an export that are not there (no such event, or not recorded)."""

    truncated: str = ""
    damaged: int = 0
    gpu_rows: bool = True
    api_rows: bool = True
    graph_rows: int = 0
    missing: tuple[str, ...] = ()


class Timeline(Struct, frozen=True):
    """One recording. ranges: what the user named (NVTX, record_function); operators: the framework's (aten::mm);
    overhead: time that the profiler itself took; full: intervals in which the launch queue was full; sources: files of
    kernels that torch.compile generated, by index into `names`."""

    path: str
    kind: str
    tool_version: str | None
    names: tuple[str, ...]
    devices: dict[int, str]
    ops: GpuOps
    calls: Calls
    syncs: Spans
    ranges: Spans
    operators: Spans
    overhead: Spans
    full: Spans
    coverage: Coverage
    sources: dict[int, str] = {}


def column(values: Any) -> Column:
    """An int64 column of a sequence or buffer of integers."""
    return np.asarray(values, dtype=np.int64)


def distinct(values: Column) -> tuple[Column, Column]:
    """(the different values, sorted; for each value its index among them). For columns of few values that differ, such
    as names, threads and devices: ten times as fast as numpy.unique on millions of rows."""
    if not len(values):
        return column([]), column([])
    low, high = int(values.min()), int(values.max())
    if high - low < max(len(values), 1 << 16):
        seen = np.zeros(high - low + 1, dtype=bool)
        seen[values - low] = True
        found = np.flatnonzero(seen)
        table = np.zeros(len(seen), dtype=np.int64)
        table[found] = np.arange(len(found))
        return found + low, table[values - low]
    found = np.unique(values[np.append(True, values[1:] != values[:-1])])  # neighbours are often equal
    return found, np.searchsorted(found, values)


def by_start(columns: dict[str, Column]) -> dict[str, Column]:
    """The columns in the order of their `start` (stable, ties by `end`); untouched where they are sorted already."""
    start = columns["start"]
    if len(start) < 2 or bool(np.all(start[1:] >= start[:-1])):
        return columns
    order = np.lexsort((columns["end"], start))
    return {name: values[order] for name, values in columns.items()}


def spans(start: Any = (), end: Any = (), name: Any = (), thread: Any = ()) -> Spans:
    """Spans from four equal sequences, sorted."""
    raw = {"start": column(start), "end": column(end), "name": column(name), "thread": column(thread)}
    return Spans(**by_start(raw))
