"""The database: SQLite in WAL mode, what is in it, and how older ones become newer ones.

Nothing that was written is changed or removed: an entry's figures are a row that triggers protect, its words are rows
of their own. That is why two worklogs merge by taking the rows of both.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from kscope.model.errors import KscopeError
from kscope.parsers.files.regular_files import regular

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
    """The worklog's database, brought up to date where it is older. write: made where it is missing. Raises KscopeError
    (status 3): missing, no worklog, of a later kscope, damaged, not to be written."""
    if path.exists():
        regular(path)
    elif not write:
        raise KscopeError("no-worklog", f"{path}: no worklog", "kscope log add REPORT starts one")
    try:
        with contextlib.closing(_ready(path, write=write)) as db:
            yield db
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the module decodes SQLite's words about damaged text
        hint = "another process holds it: try again" if _busy(error) else "take an older copy, or move it away"
        raise KscopeError("bad-worklog", f"{path}: {error}", hint) from None


def exists(path: Path) -> bool:
    """Whether there is a worklog, or something that is none and that reading will tell about: but not one whose maker
    was killed before its tables were there."""
    if not path.is_file():
        return path.exists()
    try:
        with contextlib.closing(_opened(path, write=False)) as db:
            return bool(db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])
    except (sqlite3.Error, UnicodeDecodeError):
        return True


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


def _ready(path: Path, *, write: bool) -> sqlite3.Connection:
    """A connection that can be used. SQLite waits for other writers but not for one that is just making the database or
    switches it to WAL: that is waited for here."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            db = _opened(path, write=write)
            try:
                _prepared(db, path, write=write)
            except BaseException:
                db.close()
                raise
            return db
        except sqlite3.OperationalError as error:
            if not _busy(error) or time.monotonic() > until:
                raise
        time.sleep(random.uniform(0.005, 0.05))


def _busy(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


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
    db.execute("BEGIN")  # of one moment: another process may be making it
    tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    version, mark = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "application_id"))
    db.execute("COMMIT")
    if not tables and not write:
        raise KscopeError("no-worklog", f"{path}: no worklog yet", "kscope log add REPORT starts one")
    if mark != APPLICATION and tables:
        raise KscopeError("bad-worklog", f"{path}: not a worklog of kscope", "name another file with --worklog")
    if version > len(STEPS):
        message = f"{path}: schema {version} of a later kscope, this one knows {len(STEPS)}"
        raise KscopeError("bad-worklog", message, "update kscope")
    if write:
        if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
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
