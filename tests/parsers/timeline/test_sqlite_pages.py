"""Columns from a database's pages: equal to what sqlite3 reads, or left to sqlite3; never anything else."""

from __future__ import annotations

import lzma
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.model.timeline import Timeline
from kscope.parsers.timeline import nsys, sqlite_pages
from kscope.parsers.timeline.nsys_tables import Tables
from kscope.parsers.timeline.sqlite_pages import Pages
from kscope.parsers.timeline.sqlite_records import Unusual
from tests.support import traces

EXPORTS = [n for n in traces.LABELS if ".sqlite" in traces.path(n).name]
BITS = (0, 7, 8, 15, 23, 24, 31, 32, 47, 48, 62)
EDGES = sorted({sign * ((1 << bits) + more) for bits in BITS for more in (-1, 0, 1) for sign in (1, -1)})
NUMBERS = st.one_of(st.sampled_from([0, 1]), st.sampled_from(EDGES), st.integers(-(1 << 63), (1 << 63) - 1))
FILLERS = st.one_of(st.none(), st.text(max_size=30), st.floats(allow_nan=False), st.binary(max_size=40), NUMBERS)


def plainly(path: Path, table: str, names: list[str], known: list[str]) -> list[list[int]]:
    """The columns through sqlite3."""
    where = " AND ".join(f'"{n}" IS NOT NULL' for n in known)
    chosen = ", ".join(f'ifnull("{n}", 0)' for n in names)
    with sqlite3.connect(path) as db:
        rows = db.execute(f'SELECT {chosen} FROM "{table}" {"WHERE " + where if where else ""}').fetchall()
    db.close()
    return [[row[i] for row in rows] for i in range(len(names))]


def from_pages(path: Path, table: str, names: list[str], known: list[str]) -> list[list[int]]:
    db = sqlite3.connect(path)
    (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    columns = [name for _, name, *_ in db.execute(f'PRAGMA table_info("{table}")')]
    db.close()
    with Pages(path) as pages:
        found = pages.integers(root, [columns.index(n) for n in names], [columns.index(n) for n in known])
    return [column.tolist() for column in found]


@pytest.mark.parametrize("name", EXPORTS)
def test_every_integer_column_of_an_export(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    path.write_bytes(lzma.decompress(traces.path(name).read_bytes()))
    db = sqlite3.connect(path)
    tables = [t for (t,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    seen = 0
    for table in tables:
        about = list(db.execute(f'PRAGMA table_info("{table}")'))
        names = [n for _, n, kind, _, _, key in about if kind == "INTEGER" and not key]
        if names:
            try:
                found = from_pages(path, table, names, [])
            except Unusual:
                continue
            assert found == plainly(path, table, names, []), table
            seen += len(names)
    db.close()
    assert seen > 100


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    if isinstance(one, tuple) and one and isinstance(one[0], np.ndarray):
        return all(map(same, one, other))
    if isinstance(one, msgspec.Struct):
        return all(same(getattr(one, f), getattr(other, f)) for f in one.__struct_fields__)
    return bool(one == other)


def without_pages(path: Path) -> Timeline:
    """The Timeline that sqlite3 alone gives."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_pages, "_LEAF", -1)  # no page is one that it knows
        return nsys.read(path)


@pytest.mark.parametrize("name", EXPORTS)
def test_the_same_timeline(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    path.write_bytes(lzma.decompress(traces.path(name).read_bytes()))
    slow = without_pages(path)
    monkeypatch.setattr(Tables, "_from_rows", None)  # all tables are read from their pages
    assert same(nsys.read(path), slow)


@st.composite
def databases(draw: st.DrawFn) -> tuple[int, int, list[list[Any]], list[int], list[int], bool]:
    """(page size, bytes kept free in each page, rows, row ids, row ids to delete, the first column is filler)."""
    size = draw(st.sampled_from([512, 1024, 4096, 65536]))
    base = draw(st.lists(st.one_of(st.none(), NUMBERS), min_size=3, max_size=3))
    filler = draw(st.booleans())
    rows = []
    for _ in range(draw(st.integers(0, 12))):
        one = [draw(st.one_of(st.just(b), st.none(), NUMBERS)) for b in base]
        rows.append([draw(FILLERS) if filler else draw(NUMBERS), *one, draw(FILLERS)])
    rows *= draw(st.sampled_from([1, 1, 7, 60]))
    first = draw(st.sampled_from([1, 100, 120, 16_300, 1 << 21, 1 << 40]))
    step = draw(st.sampled_from([1, 1, 3, 1000]))
    ids = [first + step * i for i in range(len(rows))]
    gone = ids[:: draw(st.sampled_from([2, 3, 50]))] if draw(st.booleans()) else []
    return size, draw(st.sampled_from([0, 0, 8, 32])), rows, ids, gone, filler


def made(path: Path, size: int, reserved: int, rows: list[list[Any]], ids: list[int], gone: list[int]) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA page_size = {size}")
    db.execute("PRAGMA user_version = 1")  # writes the first page
    db.close()
    if reserved:  # what extensions that encrypt or check pages ask for
        data = bytearray(path.read_bytes())
        data[20] = reserved
        data[105:107] = (size - reserved).to_bytes(2, "big")
        path.write_bytes(data)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("CREATE TABLE other (x)")
    db.execute("CREATE TABLE t (f, a INTEGER, b INTEGER, c INTEGER, g)")
    db.execute("BEGIN")
    for number, (row, ident) in enumerate(zip(rows, ids, strict=True)):
        db.execute("INSERT INTO t (rowid, f, a, b, c, g) VALUES (?, ?, ?, ?, ?, ?)", (ident, *row))
        if number % 3 == 0:
            db.execute("INSERT INTO other VALUES (?)", ("x" * 300,))
    db.executemany("DELETE FROM t WHERE rowid = ?", [(i,) for i in gone])
    db.execute("COMMIT")
    db.close()


@given(databases(), st.booleans())
def test_equals_sqlite(database: tuple[int, int, list[list[Any]], list[int], list[int], bool], narrow: bool) -> None:
    size, reserved, rows, ids, gone, filler = database
    names = ["a", "b", "c"] if filler else ["f", "c", "a"]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder, "t.sqlite")
        made(path, size, reserved, rows, ids, gone)
        if narrow:
            patch.setattr(sqlite_pages, "AT_ONCE", 1)  # a page at a time
        for known in ([], ["b"], ["a", "c"]):
            try:
                found = from_pages(path, "t", names, known)
            except Unusual as e:
                # a page that holds a record of this size in part only, or a length that its head says in two bytes
                long = any(isinstance(r[0], str | bytes) and len(r[0]) > 14 for r in rows)
                assert (str(e) == "overflow pages" and size == 512) or (str(e) == "a record unlike the table" and long)
                continue
            assert found == plainly(path, "t", names, known)


@given(st.data())
def test_damage_is_left_to_sqlite(data: st.DataObject) -> None:
    """Whatever bytes are wrong: a result, or Unusual."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.sqlite")
        rows = [[i, i * 1000, None if i % 5 == 0 else 1, i << 33, "text"] for i in range(200)]
        made(path, 512, 0, rows, list(range(1, 201)), [])
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 6))):
            content[data.draw(st.integers(100, len(content) - 1))] = data.draw(st.integers(0, 255))
        cut = data.draw(st.sampled_from([0, 0, 1, 300, 700]))
        path.write_bytes(content[: len(content) - cut])
        for root in (1, 2, 3):
            try:
                with Pages(path) as pages:
                    pages.integers(root, [0, 1, 3], [1])
            except Unusual:
                continue


UNUSUAL = {
    "real": ["CREATE TABLE t (x INTEGER, y INTEGER)", "INSERT INTO t VALUES (1, 2), (3, 4.5)"],
    "text": ["CREATE TABLE t (x INTEGER, y INTEGER)", "INSERT INTO t VALUES (1, 2), (3, 'soon')"],
    "overflow": ["CREATE TABLE t (x INTEGER, y INTEGER, z)", "INSERT INTO t VALUES (1, 2, zeroblob(5000))"],
    "large": ["CREATE TABLE t (x INTEGER, y INTEGER, z)", "INSERT INTO t VALUES (1, 2, zeroblob(50000))"],
    "no row ids": ["CREATE TABLE t (x INTEGER PRIMARY KEY, y INTEGER) WITHOUT ROWID", "INSERT INTO t VALUES (1, 2)"],
    "column added": [
        "CREATE TABLE t (x INTEGER)", "INSERT INTO t VALUES (1)", "ALTER TABLE t ADD COLUMN y INTEGER DEFAULT 7",
    ],
    "row id of nine bytes": ["CREATE TABLE t (x INTEGER, y INTEGER)", "INSERT INTO t (rowid, x, y) VALUES (-5, 2, 3)"],
}  # fmt: skip


@pytest.mark.parametrize("what", UNUSUAL)
def test_left_to_sqlite(what: str, tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    db = sqlite3.connect(path)
    for statement in UNUSUAL[what]:
        db.execute(statement)
    db.commit()
    db.close()
    with pytest.raises(Unusual):
        from_pages(path, "t", ["x", "y"], [])


def test_files_left_to_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    made(path, 4096, 0, [[1, 2, 3, 4, 5]], [1], [])
    good = path.read_bytes()
    assert from_pages(path, "t", ["a"], []) == [[2]]
    beside = tmp_path / "t.sqlite-wal"
    beside.write_bytes(b"\1")
    with pytest.raises(Unusual, match="journal"):
        Pages(path)
    beside.unlink()
    for bad in (good[:50], good[:-4096], good[:20] + b"\xff" + good[21:], b"x" + good[1:]):
        path.write_bytes(bad)
        with pytest.raises(Unusual):
            from_pages_only(path)


def from_pages_only(path: Path) -> None:
    with Pages(path) as pages:
        pages.integers(3, [1])


HIDING = {
    "a row id by another name": "start INTEGER PRIMARY KEY, end INTEGER, deviceId INTEGER",
    "a column of another place": "other TEXT, end INTEGER, deviceId INTEGER, start INTEGER",
}


@pytest.mark.parametrize("what", HIDING)
def test_schemas_that_records_do_not_show(what: str, tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    db = sqlite3.connect(path)
    db.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({HIDING[what]})")
    db.executemany(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId) VALUES (?, ?, ?)", [(5, 9, 1), (6, 1 << 40, 2)]
    )
    db.commit()
    db.close()
    ops = nsys.read(path).ops
    assert ops.start.tolist() == [5, 6] and ops.end.tolist() == [9, 1 << 40] and ops.device.tolist() == [1, 2]


def test_texts_of_ranges_from_pages_are_those_that_sqlite_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all lengths, with and without an op id, commas, letters of several bytes, none at all, and registered ones;
    some pages at a time, so that most texts are known already."""
    monkeypatch.setattr(sqlite_pages, "AT_ONCE", 32 << 10)
    random = np.random.default_rng(11)
    words = ["aten::mm", "step", "ünï,cödé, ", "op_id = ", ", op_id = 7", ", seq = 3, op_id = 9", "x" * 30, ", ",
             "y" * 90, "void k<int, 3, true>(float*, int)", ", op_id", ", seq =", "autograd::engine::evaluate: A"]
    rows: list[tuple[Any, ...]] = []
    for i in range(4000):
        text = "".join(random.choice(words, random.integers(0, 6))) + (f", op_id = {i}" if i % 3 else "")
        if i % 5 < 2:  # as emit_nvtx writes them, the one with a number of the backward pass
            text = f"aten::{'mm' * (i % 11)}{', seq = 77' if i % 2 else ''}, op_id = {i}"
        shown, registered = (None, 5) if i % 50 == 0 else (None, None) if i % 77 == 0 else (text, None)
        end = None if i % 31 == 0 else 20 * i + int(random.integers(0, 400))
        rows.append((20 * i, end, 59 if i % 41 else 34, shown, 1 << 24 | 7 + i % 3, registered))
    columns = "start", "end", "eventType", "text", "globalTid", "textId"
    path = traces.database(tmp_path, {
        "StringIds": ("id INTEGER PRIMARY KEY, value TEXT", [(5, "registered, op_id = 1")]),
        "NVTX_EVENTS": (", ".join(f"{c} INTEGER" if c != "text" else "text TEXT" for c in columns), rows),
        "CUPTI_ACTIVITY_KIND_KERNEL": ("start INTEGER, end INTEGER", [(1, 2)]),
    })  # fmt: skip
    slow = without_pages(path)

    def told(read: Timeline, what: str) -> list[tuple[Any, ...]]:
        found = getattr(read, what)
        return list(zip(found.start.tolist(), found.end.tolist(), [read.names[n] for n in found.name],
                        found.thread.tolist(), strict=True))  # fmt: skip

    monkeypatch.setattr(Tables, "titles", None)  # no text is read by sqlite3
    quick = nsys.read(path)
    assert len(slow.operators) > 1000 and len(slow.ranges) > 500
    for what in ("operators", "ranges"):
        assert told(quick, what) == told(slow, what)
