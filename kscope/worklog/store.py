"""A worklog: its database and the objects beside it, as entries go in and come out.

An entry's objects are on disk before its row is, and the row is one transaction: whatever kills the process, an entry
is there with all that it names, or not there.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kscope.model.errors import EXIT_USAGE, KscopeError
from kscope.worklog.entries import Entry, Idea, Status, Word
from kscope.worklog.objects import Objects
from kscope.worklog.schema import database, exists, transaction

IGNORED = "*.db-wal\n*.db-shm\n*.tmp\n"
"""What of the folder is never for git: the log of open connections, which the last one writes back and removes."""
STATUSES: tuple[Status, ...] = ("kept", "set aside")
T = TypeVar("T")


def now() -> str:
    """UTC with microseconds, which sorts as text."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def new_uid() -> str:
    return uuid.uuid4().hex


class Worklog:
    """The worklog in `path` (`.kscope/worklog.db`); objects in `objects/` beside it. Every call opens the database and
    closes it: nothing is held between them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.objects = Objects(path.parent / "objects")

    @property
    def exists(self) -> bool:
        return exists(self.path)

    def add(self, entry: Entry) -> Entry:
        """Append an entry whose objects are kept already; the entry with its number."""
        self._folder()
        with database(self.path, write=True) as db, transaction(db):
            return _insert(db, entry)

    def entries(self) -> list[Entry]:
        """In the order of their numbers, words as corrected last."""
        with database(self.path, write=False) as db:
            found = _entries(db)
            words = _words(db)
        return [_worded(entry, words.get(entry.uid, ())) for entry in found]

    def entry(self, number: int) -> Entry:
        """Raises KscopeError (status 2) for a number that is none."""
        found = self.entries()
        for one in found:
            if one.number == number:
                return one
        known = f"1 to {len(found)}" if found else "none"
        raise KscopeError("no-entry", f"{self.path}: no entry {number}", f"there are {known}", EXIT_USAGE)

    def ideas(self) -> list[Idea]:
        """In the order of time."""
        with database(self.path, write=False) as db:
            return _ideas(db)

    def say(self, entry: Entry, kind: str, text: str) -> None:
        """Add words about an entry."""
        self._append([Word(uid=new_uid(), at=now(), entry=entry.uid, kind=kind, text=text)], [])

    def decide(self, idea: Idea) -> None:
        self._append([], [idea])

    def take(self, entries: Sequence[Entry], words: Sequence[Word], ideas: Sequence[Idea]) -> list[Entry]:
        """Entries of another worklog that this one lacks, with everybody's words, in one transaction; those that came,
        with their numbers here."""
        self._folder()
        with database(self.path, write=True) as db, transaction(db):
            known = {uid for (uid,) in db.execute("SELECT uid FROM entry")}
            came = [_insert(db, one) for one in _parents_first(entries) if one.uid not in known]
            _append(db, words, ideas)
        return came

    def words(self) -> list[Word]:
        with database(self.path, write=False) as db:
            return [word for words in _words(db).values() for word in words]

    def raw(self) -> list[Entry]:
        """Entries as they were added, without corrections."""
        with database(self.path, write=False) as db:
            return _entries(db)

    def _append(self, words: Iterable[Word], ideas: Iterable[Idea]) -> None:
        with database(self.path, write=True) as db, transaction(db):
            _append(db, words, ideas)

    def _folder(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            ignored = self.path.parent / ".gitignore"
            if self.path.parent.name == ".kscope" and not ignored.exists():
                ignored.write_text(IGNORED, encoding="utf-8")
        except OSError as error:
            reason = error.strerror or type(error).__name__
            hint = "choose another place with --worklog"
            raise KscopeError("unwritable", f"{self.path.parent}: {reason}", hint, EXIT_USAGE) from None


def _parents_first(entries: Sequence[Entry]) -> list[Entry]:
    """In the order given, but no entry before its parent: its time may be that of an older report."""
    by_uid = {one.uid: one for one in entries}
    placed: dict[str, Entry] = {}
    for one in entries:
        way: dict[str, Entry] = {}
        step: Entry | None = one
        while step is not None and step.uid not in placed and step.uid not in way:
            way[step.uid] = step
            step = by_uid.get(step.parent or "")
        placed |= dict(reversed(way.items()))
    return list(placed.values())


def _insert(db: sqlite3.Connection, entry: Entry) -> Entry:
    number = db.execute("SELECT coalesce(max(number), 0) + 1 FROM entry").fetchone()[0]
    placed = replace(entry, number=number)
    db.execute(
        "INSERT INTO entry (number, uid, parent, added, kernel, time_us, record) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (number, entry.uid, entry.parent, entry.added, entry.kernel, entry.time_us,
         msgspec.json.encode(placed).decode()),
    )  # fmt: skip
    return placed


def _append(db: sqlite3.Connection, words: Iterable[Word], ideas: Iterable[Idea]) -> None:
    db.executemany("INSERT OR IGNORE INTO word (uid, at, entry, kind, text) VALUES (?, ?, ?, ?, ?)",
                   [(w.uid, w.at, w.entry, w.kind, w.text) for w in words])  # fmt: skip
    db.executemany("INSERT OR IGNORE INTO idea (uid, at, entry, record) VALUES (?, ?, ?, ?)",
                   [(i.uid, i.at, i.entry, msgspec.json.encode(i).decode()) for i in ideas])  # fmt: skip


def _entries(db: sqlite3.Connection) -> list[Entry]:
    rows = db.execute("SELECT number, record FROM entry ORDER BY number").fetchall()
    return [replace(_decoded(record, Entry), number=number) for number, record in rows]


def _words(db: sqlite3.Connection) -> dict[str, list[Word]]:
    found: dict[str, list[Word]] = {}
    for uid, at, entry, kind, text in db.execute("SELECT uid, at, entry, kind, text FROM word ORDER BY at, uid"):
        found.setdefault(entry, []).append(Word(uid=uid, at=at, entry=entry, kind=kind, text=text))
    return found


def _ideas(db: sqlite3.Connection) -> list[Idea]:
    return [_decoded(row, Idea) for (row,) in db.execute("SELECT record FROM idea ORDER BY at, uid")]


def _decoded(record: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(record, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise sqlite3.DataError(f"a row that is none of a worklog ({type(error).__name__})") from None


def _worded(entry: Entry, words: Sequence[Word]) -> Entry:
    notes = list(entry.notes)
    for word in words:
        if word.kind == "note":
            notes.append(word.text)
        elif word.kind == "message":
            entry = replace(entry, message=word.text)
        elif word.kind in STATUSES:
            entry = replace(entry, status=word.kind, why=word.text)
    return replace(entry, notes=notes)
