"""`Timeline`: what one recording saw of a program, as columns. Plain values, no I/O; the same for Nsight Systems and
the torch profiler. All times are integer nanoseconds from an origin of the recording's own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.model.columns import Column, by_start, column, even

LATEST = 1 << 62
"""Nanoseconds on either side of 0 that a time may lie from it (146 years): differences of two fit in 64 bits."""


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


class Sync(IntEnum):
    """What a synchronising call is, numbered as CUPTI does (CUpti_ActivitySynchronizationType)."""

    UNKNOWN = 0
    EVENT = 1
    STREAM_WAIT = 2
    STREAM = 3
    CONTEXT = 4


class GpuOps(Struct, frozen=True):
    """Operations of all devices, sorted by start. Columns of equal length.

    name: index into Timeline.names. process and correlation name the API call that launched the operation. bytes: of
    copies and sets, else 0. copy: a Copy. pageable: 1 where a copy touches pageable host memory. grid, block: x, y
    and z, zero where unknown. graph: id of the graph or of its node, 0 outside graphs. message: of what communicates,
    one more than its index in Timeline.messages; 0 where the recording tells nothing.
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
    message: Column
    grid: tuple[Column, Column, Column]
    block: tuple[Column, Column, Column]

    def __post_init__(self) -> None:
        _closed(self)

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

    def __post_init__(self) -> None:
        _closed(self)

    def __len__(self) -> int:
        return len(self.start)


class Spans(Struct, frozen=True):
    """Named intervals of host threads, sorted by start. name: index into Timeline.names."""

    start: Column
    end: Column
    name: Column
    thread: Column

    def __post_init__(self) -> None:
        _closed(self)

    def __len__(self) -> int:
        return len(self.start)


class Awaited(Struct, frozen=True):
    """What a recording says of synchronising calls: columns of equal length, in no order. process, correlation: of the
    call. kind: a Sync. stream: that the host waits for, or that is to wait (STREAM_WAIT). of, record: the stream that
    the event was recorded on and the correlation of that call; -1 and 0 where the recording does not say."""

    process: Column
    correlation: Column
    kind: Column
    device: Column
    stream: Column
    of: Column
    record: Column

    def __post_init__(self) -> None:
        even({name: getattr(self, name) for name in self.__struct_fields__})

    def __len__(self) -> int:
        return len(self.kind)


def _closed(table: GpuOps | Calls | Spans) -> None:
    """Raises ValueError for columns that differ in length, and for times that cannot be reckoned with."""
    columns: dict[str, Any] = {}
    for name in table.__struct_fields__:
        value = getattr(table, name)
        parts = value if isinstance(value, tuple) else (value,)
        columns.update({f"{name}{i}": part for i, part in enumerate(parts)})
    even(columns)
    if len(table) and not (int(table.start.min()) > -LATEST and int(table.end.max()) < LATEST):
        raise ValueError("times of more than 146 years")


class Message(Struct, frozen=True):
    """What a collective or a transfer between ranks was for, as its framework said. what: all_reduce, send, ..; bytes:
    the larger of what went in and out on this rank; group: name of the communicator; ranks: its members, where known;
    size: how many; peer: the other rank of a send or recv, else -1."""

    what: str
    bytes: int = 0
    group: str = ""
    ranks: tuple[int, ...] = ()
    size: int = 0
    peer: int = -1


class Inputs(Struct, frozen=True):
    """The arguments of an operator, as its framework recorded them: of each its size (empty for what is no tensor), its
    type, its strides (empty where unknown) and its value, "" where it was not written down."""

    dims: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]
    strides: tuple[tuple[int, ...], ...] = ()
    values: tuple[str, ...] = ()


class Place(Struct, frozen=True):
    """Which process of a job a recording is of. rank, world: -1 and 0 where it does not say. origin: ns that all times
    count from, 0 where unknown: recordings of one host with an origin share a clock."""

    rank: int = -1
    world: int = 0
    origin: int = 0


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


class Recorder(Struct, frozen=True):
    """What a recording without GPU operations says of itself. asked: kinds of events it was to hold; trigger: what was
    to start it, "" for the program's start; said: its diagnostics, gravest first; system: calls of the system that took
    the most time, with how often and how many ns."""

    asked: tuple[str, ...] = ()
    trigger: str = ""
    said: tuple[str, ...] = ()
    system: tuple[tuple[str, int, int], ...] = ()


class Recorded(Struct, frozen=True):
    """What the torch profiler was told to record beyond events: its options, as far as the recording names them or
    shows their traces; python: calls of Python functions that it holds."""

    options: tuple[str, ...] = ()
    python: int = 0


class Allocations(Struct, frozen=True):
    """What a framework's allocator did on devices: columns of equal length, sorted by time. bytes: negative for what
    was given back. allocated, reserved: of the device, afterwards. thread: that asked, -1 unknown."""

    at: Column
    device: Column
    bytes: Column
    address: Column
    allocated: Column
    reserved: Column
    thread: Column

    def __post_init__(self) -> None:
        even({name: getattr(self, name) for name in self.__struct_fields__})

    def __len__(self) -> int:
        return len(self.at)


class Counter(Struct, frozen=True):
    """A hardware counter that was sampled, added up by parts of the recording of `width` ns. device: -1 for what is of
    no GPU; source: whose it is. Columns of equal length, of parts that have samples: at (begin, ns), samples, total
    (of their values), most."""

    name: str
    unit: str
    device: int
    source: str
    at: Column
    width: int
    samples: Column
    total: NDArray[np.float64]
    most: NDArray[np.float64]


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
    recorder: Recorder = Recorder()
    messages: tuple[Message, ...] = ()
    place: Place = Place()
    awaited: Awaited | None = None
    inputs: tuple[Inputs, ...] = ()
    input: Column | None = None
    """Of each operator one more than the index of its inputs, 0 where they are unknown; None where all are."""
    recorded: Recorded = Recorded()
    thread_process: tuple[int, ...] = ()
    """The process of each thread; empty where the recording is of one."""
    allocations: Allocations | None = None
    """None where they were not recorded."""
    counters: tuple[Counter, ...] = ()


def spans(start: Any = (), end: Any = (), name: Any = (), thread: Any = ()) -> Spans:
    """Spans from four equal sequences, sorted."""
    raw = {"start": column(start), "end": column(end), "name": column(name), "thread": column(thread)}
    return Spans(**by_start(raw))
