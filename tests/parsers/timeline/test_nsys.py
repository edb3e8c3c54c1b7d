"""Exports of Nsight Systems: equal to plain SQL, whatever columns and tables a version has."""

from __future__ import annotations

import lzma
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kscope.features.timeline.operations.intervals import union
from kscope.features.timeline.operations.steps import join
from kscope.model.errors import KscopeError
from kscope.model.timeline import Op, Spans
from kscope.parsers.timeline import nsys, nsys_export
from tests.support import traces

SQLITE = [n for n in traces.LABELS if ".sqlite" in traces.path(n).name]
TABLES = ("KERNEL", "MEMCPY", "MEMSET")
BUSY = """
WITH ops AS ({}), seen AS (SELECT start, end, max(end) OVER
(ORDER BY start, end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM ops)
SELECT sum(CASE WHEN before IS NULL OR start >= before THEN end - start WHEN end > before THEN end - before ELSE 0 END)
FROM seen
"""


@pytest.mark.parametrize("name", SQLITE)
def test_equals_sql(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    path.write_bytes(lzma.decompress(traces.path(name).read_bytes()))
    timeline = nsys.read(path)
    db = sqlite3.connect(path)
    there = {n for (n,) in db.execute("SELECT name FROM sqlite_master")}
    tables = [f"CUPTI_ACTIVITY_KIND_{t}" for t in TABLES if f"CUPTI_ACTIVITY_KIND_{t}" in there]
    for table in tables:
        (count,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
        kind = Op[table.rpartition("_")[2]]
        assert int((timeline.ops.kind == kind).sum()) == count
    (busy,) = db.execute(BUSY.format(" UNION ALL ".join(f"SELECT start, end FROM {t}" for t in tables))).fetchone()
    assert union(timeline.ops.start, timeline.ops.end).length == busy > 0
    assert timeline.devices == {0: "NVIDIA H200"} and timeline.tool_version == "2025.3.2.0"
    assert (join(timeline) >= 0).all() and len(timeline.ranges) == 12
    assert nsys.read(traces.path(name)).ops.start.tolist() == timeline.ops.start.tolist()


PID = 17 << 24
OLD = {
    "StringIds": ("id, value", [(1, "kern(int)"), (2, "cudaLaunchKernel_v7000"), (3, "cudaLaunchKernel")]),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start, end, deviceId, streamId, correlationId, globalPid, shortName",
        [(100, 200, 0, 7, 5, PID, 1), (150, 260, 0, 8, 5, PID + (1 << 24), 1)],
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start, end, eventClass, globalTid, correlationId, nameId",
        [(90, 95, 0, PID + 1, 5, 2), (89, 96, 67, PID + 1, 5, 3), (91, None, 0, PID + 1, 6, 2)],
    ),
}  # fmt: skip


def test_old_schema_and_two_processes(tmp_path: Path) -> None:
    """Rows join by process as well, an API call that was seen by two layers counts once, an open one not at all."""
    timeline = nsys.read(traces.database(tmp_path, OLD))
    assert len(timeline.calls) == 1 and timeline.names[timeline.calls.name[0]] == "cudaLaunchKernel"
    assert timeline.calls.start.tolist() == [90]
    assert join(timeline).tolist() == [0, -1]
    assert [g.tolist() for g in timeline.ops.grid] == [[0, 0]] * 3 and timeline.tool_version is None
    assert "NVTX_EVENTS" in timeline.coverage.missing


TID, OTHER = PID + 1, PID + 2
NVTX = [
    (10, 40, 59, "step 0", OTHER, None), (11, 15, 59, "aten::addmm, seq = 3, op_id = 7", TID, None),
    (12, 14, 59, None, TID, 4), (13, None, 59, "open", TID, None), (14, 15, 33, "a category", TID, None),
    (16, 12, 60, "backward, seq = 3", OTHER, 4), (17, 18, 59, None, TID, None), (18, 19, 59, "aten::relu", TID, None),
    (19, 20, 59, "tab\there", TID, None), (20, 21, 60, "step 0", None, None),
]  # fmt: skip


@pytest.mark.parametrize("long", [False, True], ids=["pages", "sqlite3"])
def test_nvtx(long: bool, tmp_path: Path) -> None:
    """Own texts win over registered ones, op ids are cut and make operators; open ranges and other events are left
    out. One long text, and all integers come through sqlite3."""
    rows = [*NVTX, (30, 31, 59, "long " * 40, TID, None)] if long else NVTX
    tables = {**OLD, "NVTX_EVENTS": ("start, end, eventType, text, globalTid, textId", rows)}
    tables["StringIds"] = ("id, value", [*OLD["StringIds"][1], (4, "registered")])
    timeline = nsys.read(traces.database(tmp_path, tables))

    def told(spans: Spans) -> list[tuple[int, int, str, int]]:
        columns = (c.tolist() for c in (spans.start, spans.end, spans.name, spans.thread))
        return [(s, e, timeline.names[n], t) for s, e, n, t in zip(*columns, strict=True)]

    launching, other, nobody = 0, 1, 2  # threads as they come: the one that launched first
    ranges = [
        (10, 40, "step 0", other), (12, 14, "registered", launching), (17, 18, "", launching),
        (19, 20, "tab here", launching), (20, 21, "step 0", nobody),
    ]  # fmt: skip
    assert told(timeline.ranges) == ranges + ([(30, 31, ("long " * 40).strip(), launching)] if long else [])
    assert told(timeline.operators) == [
        (11, 15, "aten::addmm", launching), (16, 16, "backward", other), (18, 19, "aten::relu", launching),
    ]  # fmt: skip


def test_graph_rows(tmp_path: Path) -> None:
    table = ("start, end, deviceId, graphId, streamId, correlationId, globalPid", [(300, 900, 0, 3, 7, 9, PID)])
    timeline = nsys.read(traces.database(tmp_path, {**OLD, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": table}))
    assert timeline.coverage.graph_rows == 1 and timeline.ops.kind.tolist() == [0, 0, Op.GRAPH]


@pytest.mark.parametrize(
    ("tables", "code"),
    [
        ({"things": ("a", [(1,)])}, "unknown-kind"),
        ({**OLD, "CUPTI_ACTIVITY_KIND_KERNEL": ("start, end", [("soon", 5)])}, "corrupt"),
    ],
)
def test_refused(tables: dict[str, tuple[str, list[tuple[object, ...]]]], code: str, tmp_path: Path) -> None:
    with pytest.raises(KscopeError) as e:
        nsys.read(traces.database(tmp_path, tables))
    assert e.value.code == code and e.value.status == 3


def test_cut(tmp_path: Path) -> None:
    data = lzma.decompress(traces.path("launch").read_bytes())
    path = tmp_path / "t.sqlite"
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(KscopeError) as e:
        nsys.read(path)
    assert e.value.code == "truncated"


def test_report_without_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KscopeError) as e:
        nsys_export.read(tmp_path / "a.nsys-rep")
    assert e.value.status == 4 and "nsys export --type sqlite" in e.value.hint


@pytest.mark.skipif(shutil.which("nsys") is None, reason="no nsys here")
def test_report_of_nsys_itself(tmp_path: Path) -> None:
    """What the nsys that is installed records and exports; without a GPU a recording holds no operation."""
    report = tmp_path / "r.nsys-rep"
    flags = ["--trace=nvtx", "--sample=none", "--cpuctxsw=none", f"--output={report.with_suffix('')}"]
    subprocess.run(["nsys", "profile", *flags, sys.executable, "-c", "print(1)"], check=True, capture_output=True)
    timeline = nsys_export.read(report)
    assert timeline.tool_version and timeline.path == str(report) and len(timeline.ops) == 0
    report.write_bytes(report.read_bytes()[:3000])
    with pytest.raises(KscopeError) as e:
        nsys_export.read(report)
    assert e.value.code == "export-failed"


@pytest.mark.skipif(sys.platform == "win32", reason="a script as nsys")
def test_report_through_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for nsys that copies an export; another one that fails."""
    export = traces.database(tmp_path, OLD)
    tool = tmp_path / "bin" / "nsys"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nfor a; do case "$p" in --output) cp "{export}" "$a";; esac; p="$a"; done\n')
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    report = tmp_path / "a.nsys-rep"
    report.write_bytes(b"\1\2\3")
    timeline = nsys_export.read(report)
    assert len(timeline.ops) == 2 and timeline.path == str(report)
    tool.write_text("#!/bin/sh\necho 'cannot read it' >&2\nexit 1\n")
    with pytest.raises(KscopeError) as e:
        nsys_export.read(report)
    assert e.value.code == "export-failed" and "cannot read it" in e.value.message
