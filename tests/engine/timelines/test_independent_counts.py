"""Kernel counts, busy time and idle share equal a count that shares no code with kscope: plain SQL, plain json.

On our own recordings, and on every file of the folder that KSCOPE_THIRD_PARTY names (public traces and exports, which
are not part of the repository).
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import re
import sqlite3
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest

from kscope.engine.run import analyze_paths
from tests.support import traces

Interval = tuple[float, float]
Count = tuple[int, float, float]  # kernels, busy us, idle percent
OPS = ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
THIRD_PARTY = os.environ.get("KSCOPE_THIRD_PARTY", "")
OTHERS = sorted(p for p in Path(THIRD_PARTY).glob("*") if p.is_file() and p.suffix in (".gz", ".xz", ".sqlite", ".json")
                ) if THIRD_PARTY else []  # fmt: skip


def union(spans: list[Interval]) -> float:
    total, reach = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reach))
        reach = max(reach, end)
    return total


def counted(kernels: dict[int, int], spans: dict[int, list[Interval]]) -> dict[int, Count]:
    out = {}
    for device, mine in spans.items():
        busy, span = union(mine), max(e for _, e in mine) - min(s for s, _ in mine)
        out[device] = kernels[device], busy, 100 * (1 - busy / span) if span else 0.0
    return out


def of_export(data: bytes, folder: Path) -> dict[int, Count]:
    path = folder / "plain.sqlite"
    path.write_bytes(data)
    db = sqlite3.connect(path)
    there = {n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    kernels: dict[int, int] = defaultdict(int)
    spans: dict[int, list[Interval]] = defaultdict(list)
    for kind in OPS:
        if (table := f"CUPTI_ACTIVITY_KIND_{kind}") in there:
            for device, start, end in db.execute(f"SELECT deviceId, start, end FROM {table}"):
                spans[device].append((start / 1e3, end / 1e3))
                kernels[device] += kind == "KERNEL"
    return counted(kernels, spans)


def of_trace(data: bytes) -> dict[int, Count]:
    """json of the standard library, with decimals: a double would lose nanoseconds of absolute times."""
    trace = json.loads(data, strict=False, parse_float=Decimal)
    kernels: dict[int, int] = defaultdict(int)
    spans: dict[int, list[Interval]] = defaultdict(list)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    origin = min(Decimal(e["ts"]) for e in events if e.get("ph") == "X")
    for e in events:
        kind = re.sub("^gpu_", "", str(e.get("cat", "")).lower())
        if e.get("ph") == "X" and kind in ("kernel", "memcpy", "memset"):
            device = e["args"].get("device", e["pid"])
            start = Decimal(e["ts"]) - origin
            spans[device].append((float(start), float(start + Decimal(e["dur"]))))
            kernels[device] += kind == "kernel"
    return counted(kernels, spans)


def check(path: Path, folder: Path) -> None:
    data = path.read_bytes()
    data = lzma.decompress(data) if path.suffix == ".xz" else gzip.decompress(data) if path.suffix == ".gz" else data
    wanted = of_export(data, folder) if data.startswith(b"SQLite format 3") else of_trace(data)
    (one,) = analyze_paths([path]).timelines
    found = {d.device: d for d in one.devices}
    assert set(found) == set(wanted)
    for device, (kernels, busy, idle) in wanted.items():
        mine = found[device]
        assert mine.kernels == kernels
        assert mine.busy_us == pytest.approx(busy, rel=1e-3)
        assert mine.idle_pct == pytest.approx(idle, abs=0.1)
    assert one.errors == []


@pytest.mark.parametrize("name", traces.LABELS)
def test_our_recordings(name: str, tmp_path: Path) -> None:
    check(traces.path(name), tmp_path)


@pytest.mark.skipif(not OTHERS, reason="KSCOPE_THIRD_PARTY names no folder with recordings")
@pytest.mark.parametrize("path", OTHERS, ids=lambda p: p.name)
def test_recordings_of_others(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path)
