"""SQLite exports of Nsight Systems (2021 to 2026) to a Timeline.

Columns are chosen by name, since NVIDIA inserts some in the middle from version to version; a table that is missing
means that no such event happened or that it was not recorded. What the format holds, and its traps: parsers/nsys.md.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kscope.model.columns import Column, by_start, column, constant, different, in_order, is_constant, renumbered, taken
from kscope.model.errors import KscopeError, one_line
from kscope.model.timeline import Calls, Coverage, GpuOps, Op, Recorder, Spans, Timeline, spans
from kscope.parsers.files.inputs import open_input
from kscope.parsers.timeline._names import Interner
from kscope.parsers.timeline.nsys_counters import counters
from kscope.parsers.timeline.nsys_ranges import COLUMNS, RANGES, SortedRanges
from kscope.parsers.timeline.nsys_recorder import recorder
from kscope.parsers.timeline.nsys_syncs import awaited
from kscope.parsers.timeline.nsys_tables import Tables, open_tables

_CUPTI = "CUPTI_ACTIVITY_KIND_"
_GPU_TABLES = {"KERNEL": Op.KERNEL, "MEMCPY": Op.MEMCPY, "MEMSET": Op.MEMSET, "GRAPH_TRACE": Op.GRAPH}
_OP_ID = re.compile(r", (?:op_id|seq) = .*$")
_SYNCS = {1: "event synchronize", 2: "stream wait event", 3: "stream synchronize", 4: "context synchronize"}
_DIRECTIONS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
_OVERHEADS = {2: "JIT compilation", 6: "module loading", 7: "lazy function loading"}  # of the program, not the profiler
_FREED = 31 << 20  # bytes; glibc goes up to 32 MB. Never touched, they cost nothing
_QUEUE_FULL = 8  # ENUM_CUPTI_OVERHEAD_TYPE: the host is ahead of the GPU and waits for room


def read(path: Path | str) -> Timeline:
    """The Timeline of an export, plain or compressed. Raises KscopeError (input) for what is no sound export."""
    try:
        with open_input(path) as plain, open_tables(plain, path) as tables:
            return timeline_of(tables, str(path))
    except sqlite3.Error as e:
        message = f"{path}: the SQLite file is cut short or damaged ({e})"
        raise KscopeError("truncated", message, "copy it again, or export it again") from None
    except (ValueError, OverflowError, TypeError) as e:
        raise KscopeError("corrupt", f"{path}: a column holds what it should not ({e})", "export it again") from None


def timeline_of(tables: Tables, path: str) -> Timeline:
    """The Timeline of an export's tables; `path` is what it is called."""
    # glibc gives freed memory back to the system from the size on of the largest block that was freed so far
    # (mallopt(3), M_MMAP_THRESHOLD): columns of some MB would be cleared by the system again and again
    np.empty(_FREED, dtype=np.uint8)
    return _Reader(tables, path).timeline()


class _Reader:
    """What the tables of one export say."""

    def __init__(self, tables: Tables, path: str) -> None:
        self.tables = tables
        self.path = path
        known = {"StringIds", "META_DATA_EXPORT", "EXPORT_META_DATA", *(_CUPTI + t for t in (*_GPU_TABLES, "RUNTIME"))}
        if not self.tables.roots.keys() & known:
            message = f"{path}: an SQLite file, but no export of Nsight Systems"
            raise KscopeError("unknown-kind", message, "nsys export --type sqlite REPORT.nsys-rep makes one")
        self.names = Interner()
        self.threads = Interner()
        self.strings: dict[int, str] = {}
        if "StringIds" in self.tables.roots:
            self.strings = {int(i): str(s) for i, s in tables.db.execute("SELECT id, value FROM StringIds")}

    def named(self, ids: Column, suffix: bool = True) -> Column:
        """String ids to indices of Timeline.names. suffix: keep what follows `_v` in `cudaLaunchKernel_v7000`."""

        def numbers(found: Column) -> list[int]:
            texts = [self.strings.get(i, "(unnamed)") for i in found.tolist()]
            texts = texts if suffix else [re.sub(r"_v\d+$", "", t) for t in texts]
            return [self.names[one_line(t)] for t in texts]

        return renumbered(ids, numbers)

    def thread(self, ids: Column) -> Column:
        return renumbered(ids, lambda found: [self.threads[i] for i in found.tolist()])

    def ops(self) -> GpuOps:
        raw = in_order([self._ops(table, kind) for table, kind in _GPU_TABLES.items()])
        grid, block = ((raw.pop(f"{what}X"), raw.pop(f"{what}Y"), raw.pop(f"{what}Z")) for what in ("grid", "block"))
        return GpuOps(**raw, grid=grid, block=block)

    def _ops(self, table: str, kind: Op) -> dict[str, Column]:
        there = self.tables.has(_CUPTI + table)
        title = next((c for c in ("demangledName", "shortName", "mangledName") if c in there), "demangledName")
        raw = self.tables.columns(_CUPTI + table, (
            "start", "end", "deviceId", "streamId", "correlationId", "globalPid", title, "bytes", "copyKind", "srcKind",
            "dstKind", "graphNodeId", "graphId", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
        ))  # fmt: skip
        size = len(raw["start"])
        pageable = constant(0, size)
        if kind == Op.KERNEL:
            name = self.named(raw.pop(title))
        elif kind == Op.MEMCPY:
            kinds = raw["copyKind"]
            name = renumbered(
                kinds, lambda found: [self.names[f"Memcpy {_DIRECTIONS.get(c, '')}".strip()] for c in found.tolist()]
            )
            host_from = np.isin(raw["copyKind"], (1, 9)) & (raw["srcKind"] == 0)
            host_to = np.isin(raw["copyKind"], (2, 9)) & (raw["dstKind"] == 0)
            pageable = (host_from | host_to).astype(np.int64) * int("srcKind" in there)
        else:
            name = constant(self.names["Memset" if kind == Op.MEMSET else "CUDA graph"], size)
        return {
            "start": raw["start"], "end": _not_before(raw["end"], raw["start"]),
            "kind": constant(kind, size), "name": name, "device": raw["deviceId"],
            "stream": raw["streamId"], "process": _pid(raw["globalPid"]), "correlation": raw["correlationId"],
            "bytes": raw["bytes"], "copy": raw["copyKind"], "pageable": pageable,
            "graph": _either(raw["graphNodeId"], raw["graphId"]), "message": constant(0, size),
            **{what + axis: raw[what + axis] for what in ("grid", "block") for axis in "XYZ"},
        }  # fmt: skip

    def calls(self) -> Calls:
        """API calls, one a correlation: the runtime's row wins over the driver's and over other layers'."""
        wanted = ("start", "end", "globalTid", "correlationId", "nameId", "eventClass")
        raw = self.tables.columns(_CUPTI + "RUNTIME", wanted, "end")
        raw["process"] = _pid(raw["globalTid"])
        twice = _repeated(raw["correlationId"])
        if len(twice):
            key = raw["process"][twice], raw["correlationId"][twice]
            order = np.lexsort((raw["eventClass"][twice], key[1], key[0]))
            again = (np.diff(key[1][order]) == 0) & (np.diff(key[0][order]) == 0)
            keep = np.ones(len(raw["start"]), dtype=bool)
            keep[twice[order[1:][again]]] = False
            raw = {name: taken(values, keep) for name, values in raw.items()}
        return Calls(**by_start({
            "start": raw["start"], "end": _not_before(raw["end"], raw["start"]),
            "name": self.named(raw.pop("nameId"), suffix=False), "thread": self.thread(raw.pop("globalTid")),
            "process": raw["process"], "correlation": raw["correlationId"],
        }))  # fmt: skip

    def nvtx(self) -> tuple[Spans, Spans]:
        """(ranges of the user, operators of torch.autograd.profiler.emit_nvtx)."""
        there = self.tables.has("NVTX_EVENTS")
        if not {"start", "end", "eventType", "globalTid"} <= there:
            return _spans(np.zeros((0, 5), dtype=np.int64)), _spans(np.zeros((0, 5), dtype=np.int64))
        if (labels := self._labelled("textId" if "textId" in there else "")) is not None:
            return labels
        raw = self.tables.columns("NVTX_EVENTS", ("start", "end", "eventType", "globalTid"), "end")
        kept = np.isin(raw["eventType"], RANGES)
        start, end, thread = (raw[name][kept] for name in ("start", "end", "globalTid"))
        titles = self._titles([c for c in ("text", "textId") if c in there])
        if len(titles) != len(start):
            raise ValueError(f"{len(start)} NVTX ranges and {len(titles)} titles")
        for tid in dict.fromkeys(thread.tolist()):
            self.threads[tid]  # numbered as they come
        data = np.stack([start, end, titles >> 1, titles & 1, self.thread(thread)], axis=1)
        ranges, operators = (data[data[:, 3] == operator] for operator in (0, 1))
        return _spans(ranges), _spans(operators)

    def _labelled(self, registered: str) -> tuple[Spans, Spans] | None:
        """The same from the pages of the file, each different text once; None where sqlite3 has to read it.
        registered: the column of texts that are named by an id, "" without."""
        found = SortedRanges(self._titled, lambda i: self._title(i or None), self.threads.__getitem__)
        wanted = (*COLUMNS, *([registered] if registered else []))
        return found.spans() if self.tables.labelled("NVTX_EVENTS", wanted, "text", "end", found.add) else None

    def _titles(self, texts: list[str]) -> NDArray[np.int64]:
        """Of each NVTX range, in the order of the rows: twice the index of its name, one more for an operator. texts:
        columns of a text of its own and of a registered one. Read through sqlite3, the rest is from the pages."""
        parts = [np.zeros(0, dtype=np.int64)]
        for said in self.tables.titles("NVTX_EVENTS", texts, RANGES):
            known = {one: self._title(one) for one in dict.fromkeys(said)}
            parts.append(np.fromiter(map(known.__getitem__, said), dtype=np.int64, count=len(said)))
        return np.concatenate(parts)

    def _title(self, said: str | int | None) -> int:
        title = "" if said is None else self.strings.get(said, "") if isinstance(said, int) else str(said)
        plain = _OP_ID.sub("", title)
        return self._titled(plain, plain != title)

    def _titled(self, plain: str, cut: bool) -> int:
        return 2 * self.names[one_line(plain)] + (cut or plain.startswith("aten::"))

    def overheads(self) -> dict[int, Spans]:
        """By kind: 0 the profiler's own, 1 loading of code by the program, 2 full queue."""
        parts: dict[int, list[NDArray[np.int64]]] = {0: [], 1: [], 2: []}
        for table in ("PROFILER_OVERHEAD", _CUPTI + "OVERHEAD"):
            raw = self.tables.columns(table, ("start", "end", "globalTid", "nameId", "overheadType"), "end")
            thread, title, what = self.thread(raw["globalTid"]), self.named(raw["nameId"]).copy(), raw["overheadType"]
            kind = np.zeros(len(what), dtype=np.int64)
            if table != "PROFILER_OVERHEAD":
                kind[what == _QUEUE_FULL] = 2
                for number in different(what[np.isin(what, list(_OVERHEADS))]).tolist():
                    kind[what == number], title[what == number] = 1, self.names[_OVERHEADS[number]]
            rows = np.stack([raw["start"], raw["end"], title, title, thread], axis=1)
            for one, part in parts.items():
                part.append(rows[kind == one])
        return {kind: _spans(np.concatenate(part)) for kind, part in parts.items()}

    def syncs(self, kinds: Column) -> Spans:
        """kinds: of each row, as `awaited` has found them."""
        raw = self.tables.columns(_CUPTI + "SYNCHRONIZATION", ("start", "end"))
        name = [self.names[_SYNCS.get(kind, "synchronize")] for kind in kinds.tolist()]
        return spans(raw["start"], raw["end"], name, np.full(len(name), -1, dtype=np.int64))

    def meta(self) -> tuple[str | None, dict[int, str]]:
        """(version of Nsight Systems, names of the devices by their number)."""
        version: str | None = None
        for table in self.tables.roots.keys() & {"META_DATA_EXPORT", "EXPORT_META_DATA"}:
            for name, value in self.tables.db.execute(f'SELECT name, value FROM "{table}"'):
                if name == "EXPORT_PRODUCT_VERSION":
                    version = one_line(str(value))
        devices: dict[int, str] = {}
        for table, key in (("TARGET_INFO_GPU", "id"), ("TARGET_INFO_CUDA_GPU", "id")):
            if {key, "name"} <= self.tables.has(table):
                found = self.tables.db.execute(f'SELECT "{key}", name FROM "{table}"')
                devices = devices or {int(i): one_line(str(name)) for i, name in found}
        return version, devices

    def timeline(self) -> Timeline:
        ops, calls = self.ops(), self.calls()
        ranges, operators = self.nvtx()
        overhead = self.overheads()
        version, devices = self.meta()
        if len(overhead[1]):
            both = (operators, overhead[1])
            operators = spans(*(np.concatenate([getattr(s, f) for s in both]) for f in Spans.__struct_fields__))
        waits = awaited(self.tables, calls, tuple(self.names))
        tables = (*(_CUPTI + t for t in ("KERNEL", "MEMCPY", "RUNTIME")), "NVTX_EVENTS")
        return Timeline(
            path=self.path, kind="nsys", tool_version=version, devices=devices, ops=ops, calls=calls,
            syncs=self.syncs(waits.kind), ranges=ranges, operators=operators, overhead=overhead[0], full=overhead[2],
            awaited=waits, names=tuple(self.names),
            thread_process=tuple((tid >> 24) & 0xFFFFFF for tid in self.threads),
            counters=counters(self.tables), recorder=Recorder() if len(ops) else recorder(self.tables, self.strings),
            coverage=Coverage(
                gpu_rows=len(ops) > 0, api_rows=len(calls) > 0, graph_rows=int((ops.kind == Op.GRAPH).sum()),
                missing=tuple(t for t in tables if t not in self.tables.roots),
            ),
        )  # fmt: skip


def _repeated(correlation: Column) -> Column:
    """Rows whose correlation occurs more than once, whatever the process; all but those of correlation 0."""
    if not len(correlation) or bool(np.all(correlation[1:] > correlation[:-1])):
        return column([])
    rows = np.flatnonzero(correlation > 0)
    if not len(rows):
        return rows
    known = correlation[rows]
    if bool(np.all(known[1:] > known[:-1])):
        return rows[:0]
    low, high = int(known.min()), int(known.max())
    if high - low < 8 * len(known):
        counts = np.bincount(known - low)
        return rows[counts[known - low] > 1]
    return rows


def _pid(identity: Column) -> Column:
    """The process of a globalPid or globalTid (NVIDIA's documentation of the export)."""
    if is_constant(identity):
        return constant((int(identity[0]) >> 24) & 0xFFFFFF, len(identity))
    return (identity >> 24) & 0xFFFFFF


def _not_before(end: Column, start: Column) -> Column:
    return np.maximum(end, start) if bool((end < start).any()) else end


def _either(first: Column, second: Column) -> Column:
    """The first, where it is not zero."""
    if is_constant(first):
        return first if first[0] else second
    return np.where(first != 0, first, second)


def _spans(rows: NDArray[np.int64]) -> Spans:
    """Rows of start, end, name, anything, thread."""
    return spans(rows[:, 0], np.maximum(rows[:, 1], rows[:, 0]), rows[:, 2], rows[:, 4])
