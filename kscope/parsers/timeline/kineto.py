"""Traces of the torch profiler (Kineto's Chrome trace JSON, 2021 to 2026) to a Timeline, streamed.

Memory is a chunk of text and about 50 bytes an event that is kept. What the format holds, and its traps:
parsers/kineto.md.
"""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kscope.model.columns import by_start, column, constant
from kscope.model.errors import KscopeError, one_line
from kscope.model.timeline import (
    LATEST,
    Awaited,
    Calls,
    Copy,
    Coverage,
    GpuOps,
    Op,
    Recorded,
    Spans,
    Sync,
    Timeline,
)
from kscope.parsers.files.stream import Stream
from kscope.parsers.timeline._names import Interner
from kscope.parsers.timeline.allocations import NAME, AllocationRows
from kscope.parsers.timeline.chrome_events import CHUNK, Event, Events
from kscope.parsers.timeline.distributed import integer as _int
from kscope.parsers.timeline.distributed import message_of, place_of
from kscope.parsers.timeline.event_batches import Table, Threads, correlations, gpu_columns, integers, times
from kscope.parsers.timeline.operator_inputs import OperatorInputs

_GPU = {"kernel": Op.KERNEL, "gpu_memcpy": Op.MEMCPY, "memcpy": Op.MEMCPY, "gpu_memset": Op.MEMSET, "memset": Op.MEMSET}
_CALL, _OPERATOR, _RANGE, _OVERHEAD, _SYNC, _SPAN, _PYTHON, _OTHER = range(10, 18)
_CATEGORIES: dict[str, int] = {
    **_GPU, "cuda_runtime": _CALL, "cuda_driver": _CALL, "runtime": _CALL, "cpu_op": _OPERATOR, "operator": _OPERATOR,
    "user_annotation": _RANGE, "overhead": _OVERHEAD, "cuda_sync": _SYNC, "trace": _SPAN,
    "python_function": _PYTHON,
}  # fmt: skip
"""Lower-case category -> what its events are. Before 2022: Kernel, Memcpy, Memset, Runtime, Operator."""
_DIRECTIONS = {"HtoD": Copy.HTOD, "DtoH": Copy.DTOH, "DtoD": Copy.DTOD, "HtoH": Copy.HTOH, "PtoP": Copy.PTOP}
_USERS = ("ProfilerStep", "enumerate(DataLoader)", "Optimizer.")  # operators of 2021 that are ranges since
_COMPILER = ("## Call CompiledFxGraph", "compile_id=")  # ranges of torch.compile, not of the user
_SYNCS = {"Event Sync": Sync.EVENT, "Stream Wait Event": Sync.STREAM_WAIT, "Stream Sync": Sync.STREAM,
          "Context Sync": Sync.CONTEXT}  # fmt: skip
_OPTIONS = ("record_shapes", "with_stack", "profile_memory", "with_modules", "with_flops")
_QUEUE_FULL = "Command Buffer Full"


def read(path: Path | str, chunk: int = CHUNK) -> Timeline:
    """The Timeline of a trace. `chunk`: bytes of text to decode at a time.

    A truncated file gives what is whole in it, and says so in `coverage`. Raises KscopeError (input) where the file
    cannot be read or is no trace.
    """
    stream = Stream(path)
    events = Events(stream, str(path), chunk)
    build = _Builder()
    for some in events:
        build.add(some, events.shift_us * 1000)
    truncated = stream.cut or ("the list of events has no end" if events.truncated else "")
    return build.timeline(str(path), events.header, truncated, events.damaged)


class _Categories(dict[str | None, int]):
    """Category as it is written -> what its events are; _OTHER for what nobody asks for."""

    def __missing__(self, category: str) -> int:
        what = self[category] = _CATEGORIES.get(category.lower(), _OTHER)
        return what


@cache
def _way(name: str) -> tuple[int, int]:
    """Direction of a copy and whether its host memory is pageable, from its name."""
    return next((d for word, d in _DIRECTIONS.items() if word in name), Copy.UNKNOWN), int("Pageable" in name)


@cache
def _is_users(what: int, name: str) -> bool:
    """Whether an operator or range of this name is one that the program set, and not a library."""
    return name.startswith(_USERS) if what == _OPERATOR else not any(word in name for word in _COMPILER)


class _Builder:
    """Columns filled from events."""

    def __init__(self) -> None:
        self.names = Interner()
        self.threads = Interner()
        self.ops = Table("start", "end", "kind", "name", "device", "stream", "correlation", "bytes", "copy",
                          "pageable", "graph", "message", "gx", "gy", "gz", "bx", "by", "bz")  # fmt: skip
        self.calls = Table("start", "end", "name", "thread", "correlation")
        self.syncs, self.ranges, self.overhead, self.full = (
            Table("start", "end", "name", "thread") for _ in range(4)
        )
        self.operators = Table("start", "end", "name", "thread", "input")
        self.awaited = Table("correlation", "kind", "device", "stream", "of", "record")
        self.thread_of = Threads(self.threads)
        self.categories: dict[str | None, int] = _Categories({None: _OTHER})
        self.sources: dict[int, str] = {}
        self.messages = Interner()
        self.inputs = OperatorInputs()
        self.memory = False
        self.allocations = AllocationRows()
        self.python = 0
        self.odd = 0
        self.shift = 0
        self.graph_rows = 0

    def add(self, events: list[Any], shift: int = 0) -> None:
        """shift: ns to be added to the times of these events."""
        self.shift = shift
        categories = self.categories
        kinds: defaultdict[int, list[Any]] = defaultdict(list)
        for event in events:
            if event.ph == "X":
                kinds[categories[event.cat]].append(event)
            elif event.name == NAME:
                self._allocation(event)
        for what, some in kinds.items():
            if what < _SPAN:
                self._many(what, some)
        self.python += len(kinds[_PYTHON])

    def _many(self, what: int, events: list[Any]) -> None:
        """All of one kind at once or, where one of them is odd, one by one."""
        try:
            if isinstance(events[0], Event) and self._batch(what, events):
                return
        except (TypeError, ValueError, OverflowError, AttributeError):
            pass
        for event in events:
            try:
                self._event(what, event)
            except (TypeError, ValueError, OverflowError, ArithmeticError):
                self.odd += 1

    def _batch(self, what: int, events: list[Any]) -> bool:
        """Whether events of this kind are read at once. Nothing of them is kept where it raises."""
        if what >= _OVERHEAD:
            return False
        start, end = times(events, self.shift)
        name = integers([self.names[e.name or ""] for e in events])
        if what <= Op.GRAPH:
            copy = _way if what == Op.MEMCPY else None
            self.ops.extend(start, end, what, name, *gpu_columns(events, self._message, copy))
            return True
        thread = integers([self.thread_of[e.pid, e.tid] for e in events])
        if what == _CALL:
            self.calls.extend(start, end, name, thread, correlations(events))
            return True
        user = np.array([_is_users(what, e.name or "") for e in events])
        given = integers([self.inputs.of(e.args) if e.args is not None else 0 for e in events])
        for n, e in zip(name.tolist(), events, strict=True) if what == _OPERATOR else ():
            if e.args is not None and e.args.kernel_file is not None:
                self.sources.setdefault(n, one_line(str(e.args.kernel_file))[:500])
        self.ranges.extend(start[user], end[user], name[user], thread[user])
        own = ~user
        self.operators.extend(start[own], end[own], name[own], thread[own], given[own] if what == _OPERATOR else 0)
        return True

    def _message(self, args: Any) -> int:
        return self.messages[message_of(args)] + 1

    def _allocation(self, event: Any) -> None:
        self.memory = True
        try:
            start = _ns(event.ts) + self.shift
            self.allocations.add(start, self.threads[(str(event.pid), str(event.tid))], event.args)
        except (TypeError, ValueError, OverflowError, ArithmeticError):
            self.odd += 1

    def _event(self, what: int, event: Any) -> None:
        ts, dur = event.ts, event.dur
        start = (ts * 1000 if type(ts) is int else _ns(ts)) + self.shift
        end = start + (dur * 1000 if type(dur) is int else _ns(dur))
        if not -LATEST < start <= end < LATEST:
            raise ValueError("an event that ends before it starts, or lies out of all time")
        text = event.name or ""
        name = self.names[text]
        if what <= Op.GRAPH:
            self._op(what, event, start, end, text)
            return
        pid, tid = event.pid, event.tid
        thread = self.threads[(str(pid), str(tid))]
        if what == _CALL:
            args = event.args
            self.calls.add(start, end, name, thread, _int(args.correlation) if args is not None else 0)
        elif what == _OPERATOR:
            if _is_users(what, text):
                self.ranges.add(start, end, name, thread)
                return
            args = event.args
            self.operators.add(start, end, name, thread, self.inputs.of(args) if args is not None else 0)
            if args is not None and args.kernel_file is not None:
                self.sources.setdefault(name, one_line(str(args.kernel_file))[:500])
        elif what == _RANGE:
            if _is_users(what, text):
                self.ranges.add(start, end, name, thread)
            else:
                self.operators.add(start, end, name, thread, 0)
        elif what == _SYNC:
            self.syncs.add(start, end, name, thread)
            if event.args is not None:
                self._awaited(text, event.args)
        else:
            loading = text.endswith("Loading")  # of code, by the program: not the profiler's doing
            if loading:
                self.operators.add(start, end, name, thread, 0)
            else:
                (self.full if text == _QUEUE_FULL else self.overhead).add(start, end, name, thread)

    def _op(self, what: int, event: Any, start: int, end: int, text: str) -> None:
        args = event.args
        device, stream, correlation, size, graph, message = event.pid, event.tid, 0, 0, 0, 0
        grid: tuple[int, int, int] = (0, 0, 0)
        block = grid
        if args is not None:
            device = args.device if args.device is not None else device
            stream = args.stream if args.stream is not None else stream
            correlation, size = _int(args.correlation), _int(args.bytes)
            graph = _int(args.graph or args.graph_id)
            grid, block = _dim(args.grid), _dim(args.block)
            if args.collective is not None:
                message = self._message(args)
        direction, pageable = _way(text) if what == Op.MEMCPY else (Copy.UNKNOWN, 0)
        self.ops.add(start, end, what, self.names[text], _int(device), _int(stream), correlation, size, direction,
                     pageable, graph, message, *grid, *block)  # fmt: skip

    def _awaited(self, text: str, args: Any) -> None:
        kind = _SYNCS.get(text, Sync.UNKNOWN)
        of = _int(args.waits_on) if args.waits_on is not None else -1
        self.awaited.add(_int(args.correlation), kind, _int(args.device), _int(args.stream), of, _int(args.record))

    def _recorded(self, header: dict[str, Any]) -> Recorded:
        """The options of the profiler: the file says them, or its events show them."""
        shown = {"record_shapes": len(self.inputs) > 0, "with_stack": self.python > 0, "profile_memory": self.memory}
        return Recorded(tuple(o for o in _OPTIONS if header.get(o) == 1 or shown.get(o)), self.python)

    def timeline(self, path: str, header: dict[str, Any], truncated: str, damaged: int) -> Timeline:
        """The columns as a Timeline. Raises KscopeError where the trace holds no event of a known kind."""
        tables = (self.ops, self.calls, self.ranges, self.operators)
        if not any(len(t.columns["start"]) for t in tables):
            why = f" ({truncated})" if truncated else ""
            message = f"{path}: no event of a program in this trace{why}"
            raise KscopeError("no-events", message, "record with activities=[ProfilerActivity.CPU, ...CUDA]")
        raw = by_start({name: column(values) for name, values in self.ops.columns.items()})
        size = len(raw["start"])
        grid, block = ((raw.pop(f"{what}x"), raw.pop(f"{what}y"), raw.pop(f"{what}z")) for what in "gb")
        calls = by_start({name: column(values) for name, values in self.calls.columns.items()})
        operators = by_start({name: column(values) for name, values in self.operators.columns.items()})
        given = operators.pop("input")
        awaited = {name: column(values) for name, values in self.awaited.columns.items()}
        return Timeline(
            path=path, kind="kineto", tool_version=None, names=tuple(self.names), devices=_devices(header),
            ops=GpuOps(**raw, process=constant(0, size), grid=grid, block=block),
            calls=Calls(**calls, process=constant(0, len(calls["start"]))),
            syncs=self.syncs.spans(), ranges=self.ranges.spans(), operators=Spans(**operators),
            overhead=self.overhead.spans(), full=self.full.spans(), sources=self.sources,
            awaited=Awaited(process=constant(0, len(awaited["kind"])), **awaited),
            inputs=self.inputs.decoded(), input=given if len(self.inputs) else None, recorded=self._recorded(header),
            messages=tuple(self.messages), place=place_of(header), allocations=self.allocations.sorted(),
            coverage=Coverage(
                truncated=truncated, damaged=damaged + self.odd, gpu_rows=size > 0, api_rows=len(calls["start"]) > 0
            ),
        )  # fmt: skip


def _ns(us: int | float | Decimal) -> int:
    """Nanoseconds of microseconds, without the rounding that makes durations negative. Raises TypeError for None,
    ValueError for what is out of range, before an integer is made of it: that of 1e9999999 takes minutes."""
    if not -LATEST < us < LATEST:
        raise ValueError("a time out of range")
    whole = int(us)
    return whole * 1000 + round((us - whole) * 1000)


def _dim(value: Any) -> tuple[int, int, int]:
    if isinstance(value, list) and len(value) == 3:
        return _int(value[0]), _int(value[1]), _int(value[2])
    return 0, 0, 0


def _devices(header: dict[str, Any]) -> dict[int, str]:
    found = header.get("deviceProperties")
    rows = [r for r in found if isinstance(r, dict)] if isinstance(found, list) else []
    return {_int(r["id"]): one_line(str(r.get("name", ""))) for r in rows if type(r.get("id")) is int}
