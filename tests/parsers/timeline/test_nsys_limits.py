"""Databases that ask for more than they hold, and those that are still written to."""

from __future__ import annotations

import lzma
import os
import resource
import sqlite3
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kscope.model.errors import KscopeError
from kscope.parsers.timeline import nsys, nsys_tables
from tests.cli.running import environment, kscope
from tests.support import traces
from tests.support.thorough import some

EXPORT = next(n for n in traces.LABELS if ".sqlite" in traces.path(n).name)
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "t.sqlite"
    path.write_bytes(lzma.decompress(traces.path(EXPORT).read_bytes()))
    return path


BOUNDS = {resource.RLIMIT_AS: 1 << 30, resource.RLIMIT_CPU: 60}


def refused(path: Path, *words: str) -> None:
    """One line and exit status 3, within 1 GB."""
    done = kscope("analyze", path, limits=BOUNDS)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr[-500:]
    assert done.stderr.count("\n") == 1 and all(word in done.stderr for word in (str(path), *words)), done.stderr


def rebuilt(path: Path, table: str, *statements: str) -> None:
    """The export with one table made anew."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"DROP TABLE {table}")
        for statement in statements:
            db.execute(statement)


def test_a_computed_column(export: Path) -> None:
    rebuilt(
        export, "StringIds", "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value GENERATED ALWAYS AS"
        " (zeroblob(400000000)) VIRTUAL)", "INSERT INTO StringIds (id) VALUES (1), (2), (3), (4)",
    )  # fmt: skip
    refused(export, "StringIds is computed")


def test_a_virtual_table(export: Path) -> None:
    try:
        rebuilt(export, "StringIds", "CREATE VIRTUAL TABLE StringIds USING fts4(id, value)")
    except sqlite3.OperationalError:
        pytest.skip("SQLite without full text search")
    refused(export, "StringIds is computed")


def test_a_text_of_many_megabytes(export: Path) -> None:
    rebuilt(
        export, "StringIds", "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)",
        "INSERT INTO StringIds VALUES (1, hex(zeroblob(20000000)))",
    )  # fmt: skip
    refused(export, "too big")


def shared_leaf(path: Path, table: str, times: int, levels: int) -> None:
    """Let the pages of a table point at one another: `levels` of them, each with `times` pointers to the one below."""
    with closing(sqlite3.connect(path)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    own = bytes(data[(root - 1) * size : root * size])
    assert own[0] == 13, "the table is one leaf"
    below = len(data) // size + 1
    data += own
    for level in range(levels):
        cells = b"".join(struct.pack(">IB", below, 1 + i) for i in range(times))
        head = struct.pack(">BHHHBI", 5, 0, times, size - len(cells), 0, below)
        pointers = b"".join(struct.pack(">H", size - len(cells) + 5 * i) for i in range(times))
        page = (head + pointers).ljust(size - len(cells), b"\0") + cells
        if level == levels - 1:
            data[(root - 1) * size : root * size] = page
        else:
            below = len(data) // size + 1
            data += page
    data[28:32] = struct.pack(">I", len(data) // size)
    path.write_bytes(data)


@pytest.mark.parametrize(("table", "row"), some([
    ("StringIds", "(1, 'name')"), ("META_DATA_EXPORT", "('name', 'value')"),
], 1))  # fmt: skip
def test_pages_that_point_at_one_another(table: str, row: str, export: Path) -> None:
    """A hundred to the fifth rows in a file of some pages: the work is bounded by the size of the file."""
    names = "id INTEGER PRIMARY KEY, value TEXT" if table == "StringIds" else "name TEXT, value TEXT"
    rebuilt(export, table, f"CREATE TABLE {table} ({names})", f"INSERT INTO {table} VALUES {row}")
    shared_leaf(export, table, 100, 5)
    refused(export, "interrupted" if table == "StringIds" else "more text than the file has room for")


def test_texts_that_many_rows_share(export: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_tables, "_TEXT_AT_LEAST", 0)
    monkeypatch.setattr(nsys_tables, "_TEXT_A_BYTE", 0.0001)
    with pytest.raises(KscopeError, match="more text than the file has room for"):
        nsys.read(export)


# --- what is still written to


@pytest.fixture
def writer(export: Path) -> Iterator[sqlite3.Connection]:
    """Someone who adds rows to the export and has not closed it."""
    with closing(sqlite3.connect(export, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA wal_autocheckpoint=0")
        yield db


def test_a_write_ahead_log_is_applied(export: Path, writer: sqlite3.Connection) -> None:
    before = len(nsys.read(export).ops)
    columns = [name for _, name, *_ in writer.execute(f"PRAGMA table_info({KERNELS})")]
    writer.execute(f"INSERT INTO {KERNELS} ({', '.join(columns)}) SELECT {', '.join(columns)} FROM {KERNELS}")
    (count,) = writer.execute(f"SELECT count(*) FROM {KERNELS}").fetchone()
    log = export.with_name("t.sqlite-wal")
    there = sorted((p.name, p.read_bytes()) for p in (export, log))
    assert log.stat().st_size > 0
    assert len(nsys.read(export).ops) == before + count // 2
    assert sorted((p.name, p.read_bytes()) for p in (export, log)) == there, "the files are as they were"


def test_a_log_of_another_database(export: Path) -> None:
    """It says itself that it is none of these pages: SQLite passes over it."""
    before = len(nsys.read(export).ops)
    export.with_name("t.sqlite-wal").write_bytes(os.urandom(5000))
    assert len(nsys.read(export).ops) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX files")
def test_a_log_that_is_no_file(export: Path) -> None:
    os.mkfifo(export.with_name("t.sqlite-wal"))
    refused(export, "t.sqlite-wal beside it is no file")


def test_a_transaction_that_was_never_finished(export: Path) -> None:
    journal = export.with_name("t.sqlite-journal")
    journal.write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(600))
    refused(export, "never finished", "t.sqlite-journal")
    journal.write_bytes(bytes(600))  # how a finished one is kept
    assert len(nsys.read(export).ops) > 0


def test_a_file_that_shrinks_while_it_is_read(export: Path, tmp_path: Path) -> None:
    """Read, not mapped: the process lives, and says that the file is damaged or reads it as it was."""
    whole = export.read_bytes()
    code = (
        "import sys\nfrom pathlib import Path\nfrom kscope.parsers.timeline import nsys\n"
        "from kscope.model.errors import *\n"
        "for line in sys.stdin:\n"
        "    try:\n        print(len(nsys.read(sys.argv[1]).ops), flush=True)\n"
        "    except KscopeError as error:\n        print(error.code, flush=True)\n"
    )
    stop = threading.Event()

    def shrink() -> None:
        while not stop.is_set():
            os.truncate(export, len(whole) // 3)
            export.write_bytes(whole)

    thread = threading.Thread(target=shrink)
    thread.start()
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, str(export)], input="go\n" * 15, capture_output=True, text=True, timeout=120,
            env=environment(None), check=False,
        )  # fmt: skip
    finally:
        stop.set()
        thread.join()
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert len(done.stdout.split()) == 15
