"""The database: SQLite in WAL mode, what is in it, and how older ones become newer ones.

Nothing that was written is changed or removed: an entry's figures are a row that triggers protect, its words are rows
of their own. That is why two worklogs merge by taking the rows of both.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from kscope.model.errors import EXIT_USAGE, KscopeError

APPLICATION = 0x6B73_776C  # "kswl", as `file` shows it
PATIENCE = 30.0  # seconds to wait for another writer, whose transaction takes milliseconds
_KEPT = "CREATE TRIGGER {0}_is_kept_{1} BEFORE {1} ON {0} BEGIN SELECT RAISE(ABORT, 'a worklog only grows'); END;"
STEPS: tuple[str, ...] = (
    """
    CREATE TABLE entry (number INTEGER PRIMARY KEY, uid TEXT NOT NULL UNIQUE, parent TEXT, added TEXT NOT NULL,
                        kernel TEXT NOT NULL, time_us REAL NOT NULL, record TEXT NOT NULL) STRICT;
    CREATE TABLE word (uid TEXT PRIMARY KEY, at TEXT NOT NULL, entry TEXT NOT NULL, kind TEXT NOT NULL,
                       text TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE idea (uid TEXT PRIMARY KEY, at TEXT NOT NULL, entry TEXT NOT NULL, record TEXT NOT NULL)
                       STRICT, WITHOUT ROWID;
    """ + "".join(_KEPT.format(table, verb) for table in ("entry", "word", "idea") for verb in ("UPDATE", "DELETE")),
)  # fmt: skip
"""`user_version` n means that the first n steps were taken. Steps are only ever added."""


@contextlib.contextmanager
def database(path: Path, *, write: bool) -> Iterator[sqlite3.Connection]:
    """The worklog's database. write: made where it is missing, brought up to date where it is older. Raises KscopeError
    (status 3): missing, no worklog, of a later kscope, damaged, not to be written."""
    if not write and not path.is_file():
        raise KscopeError("no-worklog", f"{path}: no worklog", "kscope log add REPORT starts one")
    try:
        with contextlib.closing(_opened(path, write=write)) as db:
            _prepared(db, path, write=write)
            yield db
    except sqlite3.Error as error:
        busy = "locked" in str(error)
        hint = "another process holds it: try again" if busy else "take an older copy, or move it away to start anew"
        raise KscopeError("bad-worklog", f"{path}: {error}", hint) from None


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing; waits for its turn at the beginning."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.rollback()
        raise
    db.commit()


def _opened(path: Path, *, write: bool) -> sqlite3.Connection:
    if write:
        path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    else:  # not read-only: such a connection leaves the log's files behind
        alone = not path.with_name(f"{path.name}-wal").exists()
        where = f"file:{quote(str(path.absolute()))}?mode="
        db = sqlite3.connect(f"{where}rw", uri=True, timeout=PATIENCE, isolation_level=None)
        if alone and not _readable(db):  # a folder that cannot be written has room for no log: this is all there is
            db.close()
            db = sqlite3.connect(f"{where}ro&immutable=1", uri=True, isolation_level=None)
    db.execute("PRAGMA trusted_schema=OFF")
    db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    return db


def _readable(db: sqlite3.Connection) -> bool:
    try:
        db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError:
        return False
    return True


def _prepared(db: sqlite3.Connection, path: Path, *, write: bool) -> None:
    version, mark = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id"))
    tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if mark != APPLICATION and (tables or not write):
        raise KscopeError("bad-worklog", f"{path}: not a worklog of kscope", "name another file with --worklog")
    if version > len(STEPS):
        message = f"{path}: schema {version} of a later kscope, this one knows {len(STEPS)}"
        raise KscopeError("bad-worklog", message, "update kscope")
    if not write:
        if version < len(STEPS):
            message = f"{path}: schema {version} of an earlier kscope"
            raise KscopeError("bad-worklog", message, "kscope log show once where it can be written", EXIT_USAGE)
        return
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    if version < len(STEPS):
        _migrated(db)


def _migrated(db: sqlite3.Connection) -> None:
    """Each step in a transaction with its number; another process may have been first."""
    for number in range(1, len(STEPS) + 1):
        with transaction(db):
            if db.execute("PRAGMA user_version").fetchone()[0] >= number:
                continue
            for statement in _statements(STEPS[number - 1]):
                db.execute(statement)
            db.execute(f"PRAGMA application_id={APPLICATION}")
            db.execute(f"PRAGMA user_version={number}")


def _statements(script: str) -> Iterator[str]:
    """One by one: `executescript` would commit the transaction first."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            if statement.strip(" \n;"):
                yield statement
            statement = ""
