"""SQLite exports of Nsight Systems (2021 to 2026) to a Timeline.

Columns are chosen by name, since NVIDIA inserts some in the middle from version to version; a table that is missing
means that no such event happened or that it was not recorded. What the format holds, and its traps: parsers/nsys.md.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from kscope.model.errors import KscopeError, one_line
from kscope.model.timeline import (
    Calls,
    Column,
    Coverage,
    GpuOps,
    Op,
    Spans,
    Timeline,
    by_start,
    column,
    distinct,
    spans,
)
from kscope.parsers._names import Interner
from kscope.parsers.compressed import open_input

_CUPTI = "CUPTI_ACTIVITY_KIND_"
_GPU_TABLES = {"KERNEL": Op.KERNEL, "MEMCPY": Op.MEMCPY, "MEMSET": Op.MEMSET, "GRAPH_TRACE": Op.GRAPH}
_ROWS = 20_000
_RANGES = (59, 60)  # NvtxPushPopRange, NvtxStartEndRange
_OP_ID = re.compile(r", (?:op_id|seq) = .*$")
_SYNCS = {1: "event synchronize", 2: "stream wait event", 3: "stream synchronize", 4: "context synchronize"}
_DIRECTIONS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
_OVERHEADS = {2: "JIT compilation", 6: "module loading", 7: "lazy function loading"}  # of the program, not the profiler
_QUEUE_FULL = 8  # ENUM_CUPTI_OVERHEAD_TYPE: the host is ahead of the GPU and waits for room


def read(path: Path | str) -> Timeline:
    """The Timeline of an export, plain or compressed. Raises KscopeError (input) for what is no sound export."""
    with open_input(path) as plain, _named(plain, path) as name, contextlib.closing(_connect(name, path)) as db:
        return read_database(db, str(path))


def read_database(db: sqlite3.Connection, path: str) -> Timeline:
    """The Timeline of an open export; `path` is what errors and results call it."""
    try:
        return _Reader(db, path).timeline()
    except sqlite3.Error as e:
        message = f"{path}: the SQLite file is cut short or damaged ({e})"
        raise KscopeError("truncated", message, "copy it again, or export it again") from None
    except (ValueError, OverflowError, TypeError) as e:
        raise KscopeError("corrupt", f"{path}: a column holds what it should not ({e})", "export it again") from None


@contextlib.contextmanager
def _named(plain: str, path: Path | str) -> Iterator[str]:
    """A file with a name of its own: SQLite cannot open what `open_input` unpacked into a file without one."""
    if plain == str(path):
        yield plain
        return
    try:
        with tempfile.TemporaryDirectory(prefix="kscope-") as folder:
            target = Path(folder, "export.sqlite")
            shutil.copyfile(plain, target)
            yield str(target)
    except OSError as e:
        message = f"{path}: cannot be unpacked ({e.strerror})"
        raise KscopeError("too-large", message, "make room, or set TMPDIR") from None


def _connect(plain: str, path: Path | str) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(f"file:{quote(str(Path(plain).absolute()))}?mode=ro&immutable=1", uri=True)
        db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        db.execute("PRAGMA trusted_schema=OFF")
        db.execute("PRAGMA mmap_size=1073741824")
    except sqlite3.Error as e:
        raise KscopeError("unreadable", f"{path}: cannot be opened ({e})", "check the file") from None
    return db


class _Reader:
    """Tables of one export as columns."""

    def __init__(self, db: sqlite3.Connection, path: str) -> None:
        self.db = db
        self.path = path
        found = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        self.tables = {name for (name,) in found}  # no views: those are programs
        known = ("StringIds", "META_DATA_EXPORT", "EXPORT_META_DATA", *(_CUPTI + t for t in (*_GPU_TABLES, "RUNTIME")))
        if not self.tables.intersection(known):
            message = f"{path}: an SQLite file, but no export of Nsight Systems"
            raise KscopeError("unknown-kind", message, "nsys export --type sqlite REPORT.nsys-rep makes one")
        self.names = Interner()
        self.threads = Interner()
        self.strings: dict[int, str] = {}
        if "StringIds" in self.tables:
            self.strings = {int(i): str(s) for i, s in db.execute("SELECT id, value FROM StringIds")}

    def has(self, table: str) -> set[str]:
        """Names of a table's columns; empty where there is no such table."""
        if table not in self.tables:
            return set()
        return {row[1] for row in self.db.execute(f'PRAGMA table_info("{table}")')}

    def columns(self, table: str, wanted: Sequence[str], where: str = "") -> dict[str, Column]:
        """Integer columns by name; zeros for a column that this version does not have, or that is NULL."""
        there = self.has(table)
        chosen = [name for name in wanted if name in there]
        parts: list[NDArray[np.int64]] = []
        never_null = {row[1] for row in self.db.execute(f'PRAGMA table_info("{table}")') if row[3]} if chosen else set()
        values = [f'"{name}"' if name in never_null else f'ifnull("{name}", 0)' for name in chosen]
        for rows in self._rows(table, values, where):
            flat = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64, count=len(rows) * len(chosen))
            parts.append(flat.reshape(len(rows), len(chosen)))
        data = np.concatenate(parts) if parts else np.zeros((0, max(len(chosen), 1)), dtype=np.int64)
        out = {name: np.ascontiguousarray(data[:, i]) for i, name in enumerate(chosen)}
        return {name: out.get(name, np.zeros(len(data), dtype=np.int64)) for name in wanted}

    def _rows(self, table: str, chosen: Sequence[str], where: str = "") -> Iterator[list[tuple[Any, ...]]]:
        if not chosen:
            return
        cursor = self.db.execute(f'SELECT {", ".join(chosen)} FROM "{table}" {where}')
        while rows := cursor.fetchmany(_ROWS):
            yield rows

    def named(self, ids: Column, suffix: bool = True) -> Column:
        """String ids to indices of Timeline.names. suffix: keep what follows `_v` in `cudaLaunchKernel_v7000`."""
        unique, inverse = distinct(ids)
        texts = [self.strings.get(int(i), "(unnamed)") for i in unique]
        texts = texts if suffix else [re.sub(r"_v\d+$", "", t) for t in texts]
        table = column([self.names[one_line(t)] for t in texts])
        return table[inverse] if len(table) else column([])

    def thread(self, ids: Column) -> Column:
        unique, inverse = distinct(ids)
        table = column([self.threads[int(i)] for i in unique])
        return table[inverse] if len(table) else column([])

    def ops(self) -> GpuOps:
        parts = [self._ops(table, kind) for table, kind in _GPU_TABLES.items()]
        return GpuOps(**by_start({name: np.concatenate([p[name] for p in parts]) for name in parts[0]}))

    def _ops(self, table: str, kind: Op) -> dict[str, Column]:
        there = self.has(_CUPTI + table)
        title = next((c for c in ("demangledName", "shortName", "mangledName") if c in there), "demangledName")
        raw = self.columns(_CUPTI + table, (
            "start", "end", "deviceId", "streamId", "correlationId", "globalPid", title, "bytes", "copyKind", "srcKind",
            "dstKind", "graphNodeId", "graphId", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
        ))  # fmt: skip
        size = len(raw["start"])
        pageable = np.zeros(size, dtype=np.int64)
        if kind == Op.KERNEL:
            name = self.named(raw[title])
        elif kind == Op.MEMCPY:
            unique, inverse = distinct(raw["copyKind"])
            table_ = column([self.names[f"Memcpy {_DIRECTIONS.get(int(c), '')}".strip()] for c in unique])
            name = table_[inverse] if size else column([])
            host_from = np.isin(raw["copyKind"], (1, 9)) & (raw["srcKind"] == 0)
            host_to = np.isin(raw["copyKind"], (2, 9)) & (raw["dstKind"] == 0)
            pageable = (host_from | host_to).astype(np.int64) * int("srcKind" in there)
        else:
            name = np.full(size, self.names["Memset" if kind == Op.MEMSET else "CUDA graph"], dtype=np.int64)
        return {
            "start": raw["start"], "end": np.maximum(raw["end"], raw["start"]),
            "kind": np.full(size, kind, dtype=np.int64), "name": name, "device": raw["deviceId"],
            "stream": raw["streamId"], "process": _pid(raw["globalPid"]), "correlation": raw["correlationId"],
            "bytes": raw["bytes"], "copy": raw["copyKind"], "pageable": pageable,
            "graph": np.where(raw["graphNodeId"] != 0, raw["graphNodeId"], raw["graphId"]),
            "grid": np.stack([raw["gridX"], raw["gridY"], raw["gridZ"]], axis=1),
            "block": np.stack([raw["blockX"], raw["blockY"], raw["blockZ"]], axis=1),
        }  # fmt: skip

    def calls(self) -> Calls:
        """API calls, one a correlation: the runtime's row wins over the driver's and over other layers'."""
        wanted = ("start", "end", "globalTid", "correlationId", "nameId", "eventClass")
        raw = self.columns(_CUPTI + "RUNTIME", wanted, "WHERE end IS NOT NULL")
        raw["process"] = _pid(raw["globalTid"])
        twice = _repeated(raw["process"], raw["correlationId"])
        if len(twice):
            key = raw["process"][twice], raw["correlationId"][twice]
            order = np.lexsort((raw["eventClass"][twice], key[1], key[0]))
            again = (np.diff(key[1][order]) == 0) & (np.diff(key[0][order]) == 0)
            keep = np.ones(len(raw["start"]), dtype=bool)
            keep[twice[order[1:][again]]] = False
            raw = {name: values[keep] for name, values in raw.items()}
        return Calls(**by_start({
            "start": raw["start"], "end": np.maximum(raw["end"], raw["start"]),
            "name": self.named(raw["nameId"], suffix=False), "thread": self.thread(raw["globalTid"]),
            "process": raw["process"], "correlation": raw["correlationId"],
        }))  # fmt: skip

    def nvtx(self) -> tuple[Spans, Spans]:
        """(ranges of the user, operators of torch.autograd.profiler.emit_nvtx)."""
        there = self.has("NVTX_EVENTS")
        rows: dict[bool, list[tuple[int, int, int, int]]] = {False: [], True: []}
        text = [c if c in there else "NULL" for c in ("text", "textId")]
        if {"start", "end", "eventType", "globalTid"} <= there:
            where = f"WHERE end IS NOT NULL AND eventType IN {_RANGES}"
            for some in self._rows("NVTX_EVENTS", ["start", "end", *text, "ifnull(globalTid, 0)"], where):
                for start, end, own, ident, tid in some:
                    title = str(own if own is not None else self.strings.get(ident, ""))
                    plain = _OP_ID.sub("", title)
                    operator = plain != title or plain.startswith("aten::")
                    row = (int(start), int(end), self.names[one_line(plain)], self.threads[tid])
                    rows[operator].append(row)
        return _spans(rows[False]), _spans(rows[True])

    def overheads(self) -> dict[int, Spans]:
        """By kind: 0 the profiler's own, 1 loading of code by the program, 2 full queue."""
        rows: dict[int, list[tuple[int, int, int, int]]] = {0: [], 1: [], 2: []}
        for table in ("PROFILER_OVERHEAD", _CUPTI + "OVERHEAD"):
            cupti = table != "PROFILER_OVERHEAD"
            raw = self.columns(table, ("start", "end", "globalTid", "nameId", "overheadType"), "WHERE end IS NOT NULL")
            thread, title = self.thread(raw["globalTid"]), self.named(raw["nameId"])
            for i, what in enumerate(raw["overheadType"].tolist()):
                kind = 2 if cupti and what == _QUEUE_FULL else int(cupti and what in _OVERHEADS)
                name = self.names[_OVERHEADS[what]] if kind == 1 else int(title[i])
                rows[kind].append((int(raw["start"][i]), int(raw["end"][i]), name, int(thread[i])))
        return {kind: _spans(some) for kind, some in rows.items()}

    def syncs(self) -> Spans:
        raw = self.columns(_CUPTI + "SYNCHRONIZATION", ("start", "end", "syncType"))
        name = [self.names[_SYNCS.get(int(t), "synchronize")] for t in raw["syncType"]]
        return spans(raw["start"], raw["end"], name, np.full(len(name), -1, dtype=np.int64))

    def meta(self) -> tuple[str | None, dict[int, str]]:
        """(version of Nsight Systems, names of the devices by their number)."""
        version: str | None = None
        for table in self.tables & {"META_DATA_EXPORT", "EXPORT_META_DATA"}:
            for name, value in self.db.execute(f'SELECT name, value FROM "{table}"'):
                if name == "EXPORT_PRODUCT_VERSION":
                    version = one_line(str(value))
        devices: dict[int, str] = {}
        for table, key in (("TARGET_INFO_GPU", "id"), ("TARGET_INFO_CUDA_GPU", "id")):
            if {key, "name"} <= self.has(table):
                found = self.db.execute(f'SELECT "{key}", name FROM "{table}"')
                devices = devices or {int(i): one_line(str(name)) for i, name in found}
        return version, devices

    def timeline(self) -> Timeline:
        ops, calls = self.ops(), self.calls()
        ranges, operators = self.nvtx()
        overhead = self.overheads()
        version, devices = self.meta()
        both = (operators, overhead[1])
        operators = spans(*(np.concatenate([getattr(s, f) for s in both]) for f in Spans.__struct_fields__))
        tables = (*(_CUPTI + t for t in ("KERNEL", "MEMCPY", "RUNTIME")), "NVTX_EVENTS")
        return Timeline(
            path=self.path, kind="nsys", tool_version=version, devices=devices, ops=ops, calls=calls,
            syncs=self.syncs(), ranges=ranges, operators=operators, overhead=overhead[0], full=overhead[2],
            names=tuple(self.names),
            coverage=Coverage(
                gpu_rows=len(ops) > 0, api_rows=len(calls) > 0, graph_rows=int((ops.kind == Op.GRAPH).sum()),
                missing=tuple(t for t in tables if t not in self.tables),
            ),
        )  # fmt: skip


def _repeated(process: Column, correlation: Column) -> Column:
    """Rows whose correlation occurs more than once, whatever the process; all but those of correlation 0."""
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
    return (identity >> 24) & 0xFFFFFF


def _spans(rows: list[tuple[int, int, int, int]]) -> Spans:
    data = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return spans(data[:, 0], np.maximum(data[:, 1], data[:, 0]), data[:, 2], data[:, 3])
