"""The recordings of fixtures/traces, and small ones made up event by event."""

from __future__ import annotations

import json
import lzma
import re
import sqlite3
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support import patches
from tests.support.reports import FIXTURES

TRACES = FIXTURES.parent / "traces"
KIND = re.compile(r"\.(json|sqlite|ncu-rep)\.xz$")
LABELS: dict[str, dict[str, Any]] = tomllib.loads((TRACES / "TRACES.toml").read_text("utf-8"))


def path(name: str) -> Path:
    """The packed recording: as it lies there, or out of the archive."""
    if (archived := f"traces/{name}.json.xz") in patches.archived():
        return patches.built(archived)
    (found,) = (p for p in TRACES.glob(f"{name}.*.xz") if KIND.sub("", p.relative_to(TRACES).as_posix()) == name)
    return found


def plain(name: str) -> bytes:
    return lzma.decompress(path(name).read_bytes())


def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    """A complete event, times in us."""
    tid = args.pop("tid", 1)
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": tid, "ts": ts, "dur": dur, "args": args}


def launch(number: int, call: float, start: float, dur: float, name: str = "k", **args: Any) -> list[dict[str, Any]]:
    """A launch call of 2 us and its kernel."""
    args = {"device": 0, "stream": 7, "correlation": number, "grid": [1, 1, 1], "block": [32, 1, 1], **args}
    return [
        event("cuda_runtime", "cudaLaunchKernel", call, 2, correlation=number),
        event("kernel", name, start, dur, tid=7, **args),
    ]


def trace(folder: Path, events: Iterable[dict[str, Any]], name: str = "t.json") -> Path:
    """A trace file of these events."""
    target = folder / name
    target.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(events), "traceName": "t"}))
    return target


def database(folder: Path, tables: dict[str, tuple[str, list[tuple[Any, ...]]]]) -> Path:
    """An export with these tables: name -> (columns, rows)."""
    target = folder / "t.sqlite"
    db = sqlite3.connect(target)
    for table, (columns, rows) in tables.items():
        db.execute(f"CREATE TABLE {table} ({columns})")
        db.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(columns.split(',')))})", rows)
    db.commit()
    db.close()
    return target
