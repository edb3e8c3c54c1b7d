"""Parquet exports of Nsight Systems: the same as the SQLite export of the same recording, in any order of rows."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import TimelineAnalysis, to_json
from kscope.model.errors import EXIT_INPUT, EXIT_TOOL, KscopeError
from kscope.parsers.timeline import nsys_parquet
from tests.cli.running import kscope
from tests.support import traces

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

NAMES = ["launch", "sync", "busy"]
_TYPES = {"INTEGER": pa.int64(), "TEXT": pa.string(), "REAL": pa.float64()}


def folder_of(export: Path, folder: Path, *, shuffled: bool = False) -> Path:
    """The tables of an SQLite export as nsys writes them with --type parquetdir."""
    folder.mkdir()
    with contextlib.closing(sqlite3.connect(export)) as db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            about = db.execute(f'PRAGMA table_info("{table}")').fetchall()
            rows: list[tuple[Any, ...]] = db.execute(f'SELECT * FROM "{table}"').fetchall()
            if shuffled:
                random.Random(5).shuffle(rows)
            columns = {c[1]: pa.array([r[i] for r in rows], _TYPES.get(c[2], pa.string())) for i, c in enumerate(about)}
            if "text" in columns:
                columns["text"] = columns["text"].dictionary_encode()
            pq.write_table(pa.table(columns), folder / f"{table}.parquet", row_group_size=700)
    return folder


def export(name: str, folder: Path) -> Path:
    out = folder / f"{name}.sqlite"
    out.write_bytes(traces.plain(name))
    return out


def of(path: Path) -> TimelineAnalysis:
    (one,) = analyze_paths([path]).timelines
    return msgspec.structs.replace(one, input="")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shuffled", [False, True])
def test_as_from_sqlite(name: str, shuffled: bool, tmp_path: Path) -> None:
    plain = export(name, tmp_path)
    folder = folder_of(plain, tmp_path / f"{name}_pqtdir", shuffled=shuffled)
    assert of(folder) == of(plain)


def test_a_folder_of_folders_gives_each_export(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in NAMES[:2]:
        folder_of(export(name, tmp_path), tmp_path / "out" / f"{name}_pqtdir")
    found = analyze_paths([tmp_path / "out"])
    assert [(i.kind, Path(i.path).name) for i in found.inputs] == [("nsys", "launch_pqtdir"), ("nsys", "sync_pqtdir")]
    assert b"launch_pqtdir" in to_json(found)


def test_tables_that_are_missing_are_named(tmp_path: Path) -> None:
    folder = folder_of(export("sync", tmp_path), tmp_path / "r_pqtdir")
    (folder / "NVTX_EVENTS.parquet").unlink()
    assert "NVTX_EVENTS" in of(folder).coverage.missing_tables


@pytest.mark.parametrize("damage", ["cut", "text", "type"])
def test_damage_is_one_line(damage: str, tmp_path: Path) -> None:
    folder = folder_of(export("sync", tmp_path), tmp_path / "r_pqtdir")
    target = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    if damage == "cut":
        target.write_bytes(target.read_bytes()[:-40])
    elif damage == "text":
        target.write_text("no table")
    else:
        rows = pq.read_table(target)
        pq.write_table(rows.set_column(0, "start", pa.array(["x"] * len(rows))), target)
    done = kscope("analyze", str(folder))
    assert done.returncode == EXIT_INPUT and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2 and "r_pqtdir" in done.stderr


def test_a_table_that_claims_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(export("sync", tmp_path), tmp_path / "r_pqtdir")
    monkeypatch.setattr(nsys_parquet, "MOST_ROWS", 10)
    with pytest.raises(KscopeError, match="claims"):
        nsys_parquet.read(folder)


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(export("sync", tmp_path), tmp_path / "r_pqtdir")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(KscopeError, match="needs pyarrow") as found:
        nsys_parquet.read(folder)
    assert found.value.status == EXIT_TOOL and "kscope-gpu[parquet]" in str(found.value.hint)
