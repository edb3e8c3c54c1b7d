"""The tables of an SQLite export as columns: from the file's pages where that can be, else through sqlite3."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from kscope.model.columns import Column, constant, even
from kscope.model.errors import KscopeError, one_line
from kscope.parsers import scratch
from kscope.parsers.timeline.sqlite_labels import Labelled, labelled
from kscope.parsers.timeline.sqlite_pages import Pages
from kscope.parsers.timeline.sqlite_records import Unusual

_ROWS = 1_000
LONGEST = 1 << 20
"""Bytes of a text or blob that is read; names of kernels have up to some 10 KB."""
_STEPS = 100_000  # of SQLite's machine between two looks at what it has done
_STEPS_A_BYTE, _STEPS_AT_LEAST = 20, 50_000_000
"""Work allowed on a file of so many bytes. A row of 20 columns takes 60 steps and 20 bytes or more; pages that point at
one another can make endless rows of a few bytes."""
_TEXT_A_BYTE, _TEXT_AT_LEAST = 4, 64 << 20
"""Bytes of text allowed, for the same reason: each text is read by one query or two."""
_HOT = bytes.fromhex("d9d505f920a163d7")  # the head of a journal that has to be played back
WIDE = ("start", "end", "bytes", "globalPid", "globalTid", "graphNodeId", "graphId")


@contextlib.contextmanager
def open_tables(plain: str, path: Path | str) -> Iterator[Tables]:
    """The tables of the file `plain`; `path` is what errors call it. Raises KscopeError (input)."""
    with (
        _named(plain, path) as name,
        contextlib.closing(_connect(name, path)) as db,
        _pages(name) as pages,
    ):
        yield Tables(db, pages)


@contextlib.contextmanager
def _named(plain: str, path: Path | str) -> Iterator[str]:
    """A file with a name of its own: SQLite cannot open what `open_input` unpacked into a file without one."""
    log = _unfinished(Path(plain)) if plain == str(path) else None
    if plain == str(path) and log is None:
        yield plain
        return
    try:
        with scratch.folder() as folder:
            target = Path(folder, "export.sqlite")
            shutil.copyfile(plain, target)
            if log is not None:  # SQLite applies it to the copy: next to the file nothing is written
                shutil.copyfile(log, f"{target}-wal")
                with contextlib.closing(sqlite3.connect(target)) as db:
                    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            yield str(target)
    except OSError as e:
        message = f"{path}: cannot be unpacked ({e.strerror})"
        raise KscopeError("too-large", message, "make room, or set TMPDIR") from None


def _unfinished(plain: Path) -> Path | None:
    """The write-ahead log beside a database, whose rows are not in the file yet. Raises KscopeError for a transaction
    that was never finished: a journal names further files, which are not to be touched."""
    journal = plain.with_name(f"{plain.name}-journal")
    with contextlib.suppress(OSError):
        if stat.S_ISREG(journal.stat().st_mode):
            with journal.open("rb") as file:
                if file.read(len(_HOT)) == _HOT:
                    message = f"{plain}: a write to it was never finished ({journal.name} lies beside it)"
                    raise KscopeError("unfinished", message, "open it once with sqlite3, or export it again")
    log = plain.with_name(f"{plain.name}-wal")
    try:
        about = log.stat()
    except OSError:
        return None
    if not stat.S_ISREG(about.st_mode):
        message = f"{plain}: {log.name} beside it is no file, and may hold rows of it"
        raise KscopeError("unfinished", message, "remove it, or export again")
    return log if about.st_size else None


def _connect(plain: str, path: Path | str) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(f"file:{quote(str(Path(plain).absolute()))}?mode=ro&immutable=1", uri=True)
        _limit(db, Path(plain).stat().st_size)
        db.execute("PRAGMA trusted_schema=OFF")
        db.execute("PRAGMA mmap_size=0")  # a mapped file that another process cuts short ends this one
    except sqlite3.Error as e:
        raise KscopeError("unreadable", f"{path}: cannot be opened ({e})", "check the file") from None
    return db


def _limit(db: sqlite3.Connection, size: int) -> None:
    """Bound the memory and the work that a file of so many bytes can ask for. Limits of this connection alone: the heap
    limits of SQLite are the process's, and whoever calls kscope from a program of theirs may have databases too."""
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
    db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    left = [max(_TEXT_AT_LEAST, _TEXT_A_BYTE * size), max(_STEPS_AT_LEAST, _STEPS_A_BYTE * size)]

    def text(raw: bytes) -> str:
        left[0] -= len(raw)
        if left[0] < 0:
            raise sqlite3.DataError("more text than the file has room for")
        return raw.decode("utf-8", "replace")

    def spent() -> bool:
        left[1] -= _STEPS
        return left[1] < 0

    db.text_factory = text
    db.set_progress_handler(spent, _STEPS)


@contextlib.contextmanager
def _pages(plain: str) -> Iterator[Pages | None]:
    """The pages of the file for reading without sqlite3; None where they are not to be read so."""
    try:
        pages = Pages(Path(plain))
    except (Unusual, OSError):
        yield None
        return
    with pages:
        yield pages


class Tables:
    """Tables of one database, by name. db: the connection, for queries of other kinds."""

    def __init__(self, db: sqlite3.Connection, pages: Pages | None) -> None:
        self.db = db
        self.pages = pages
        # no views: those are programs
        found = db.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'").fetchall()
        computed = "SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden"
        for name, root in found:  # nor can what is computed be trusted to be small
            if not root or db.execute(computed, (name,)).fetchall():
                raise ValueError(f"{one_line(str(name))} is computed, which no export is")
        self.roots: dict[str, int] = dict(found)

    def has(self, table: str) -> set[str]:
        """Names of a table's columns; empty where there is no such table."""
        if table not in self.roots:
            return set()
        return {row[1] for row in self.db.execute(f'PRAGMA table_info("{table}")')}

    def columns(self, table: str, wanted: Sequence[str], known: str = "") -> dict[str, Column]:
        """Integer columns by name; zeros for a column that this version does not have, or that is NULL. Without the
        rows in which `known` is NULL. A column of one value may be a view of it: none may be written to."""
        there = self.has(table)
        chosen = [name for name in wanted if name in there]
        found = self._from_pages(table, chosen, known) if chosen else []
        found = self._from_rows(table, chosen, known) if found is None else found
        # what is reckoned with is wide, what only tells apart as narrow as it can be
        out = {n: v.astype(np.int64, copy=False) if n in WIDE else v for n, v in zip(chosen, found, strict=True)}
        even(out)
        size = len(found[0]) if found else 0
        return {name: out[name] if name in out else constant(0, size) for name in wanted}

    def _from_pages(self, table: str, chosen: Sequence[str], known: str) -> list[Column] | None:
        """The columns from the pages of the file; None where sqlite3 has to read them."""
        if self.pages is None:
            return None
        about = list(self.db.execute(f'PRAGMA table_xinfo("{table}")'))
        names = [name for _, name, *_ in about]
        computed = any(hidden for *_, hidden in about)
        row_ids = {name for _, name, _, _, _, key, _ in about if key}  # these are not in the records
        if computed or row_ids.intersection(chosen) or (known and known not in names):
            return None
        places = [names.index(name) for name in chosen]
        try:
            return self.pages.integers(self.roots[table], places, [names.index(known)] if known else [])
        except (Unusual, OSError):
            return None

    def _from_rows(self, table: str, chosen: Sequence[str], known: str) -> list[Column]:
        parts: list[Column] = []
        never_null = {row[1] for row in self.db.execute(f'PRAGMA table_info("{table}")') if row[3]}
        values = [f'"{name}"' if name in never_null else f'ifnull("{name}", 0)' for name in chosen]
        for rows in self.rows(table, values, f"WHERE {known} IS NOT NULL" if known else ""):
            flat = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64, count=len(rows) * len(chosen))
            parts.append(flat.reshape(len(rows), len(chosen)))
        data = np.concatenate(parts) if parts else np.zeros((0, len(chosen)), dtype=np.int64)
        return [np.ascontiguousarray(data[:, i]) for i in range(len(chosen))]

    def labelled(
        self, table: str, wanted: Sequence[str], text: str, known: str, take: Callable[[Labelled], None]
    ) -> bool:
        """Give columns and texts of a table, from the pages of the file, to `take`, many rows at a time, the columns by
        their place in `wanted`. False where sqlite3 has to read them: what was taken till then is worth nothing."""
        if self.pages is None or table not in self.roots:
            return False
        about = list(self.db.execute(f'PRAGMA table_xinfo("{table}")'))
        names = [name for _, name, *_ in about]
        row_ids = {name for _, name, _, _, _, key, _ in about if key}
        if any(hidden for *_, hidden in about) or not {*wanted, text, known} <= set(names) or row_ids & {*wanted, text}:
            return False
        places = [names.index(name) for name in wanted]
        try:
            for found in labelled(self.pages, self.roots[table], places, names.index(text), names.index(known)):
                columns = {i: found.columns[place] for i, place in enumerate(places)}
                take(Labelled(columns, found.label, found.texts, found.done))
        except (Unusual, OSError):
            return False
        return True

    def titles(self, table: str, texts: Sequence[str], kinds: Sequence[int]) -> Iterator[list[Any]]:
        """Of the ranges of a table that have an end and are of these kinds, in the order of `columns`, the first of the
        columns `texts` that holds something; many rows at a time."""
        chosen = ", ".join(texts) if texts else "NULL"
        kind = ", ".join(map(str, kinds))
        where = f"NOT INDEXED WHERE end IS NOT NULL AND eventType IN ({kind})"  # in the order of row ids
        for rows in self.rows(table, [f"coalesce({chosen}, NULL)"], where):
            yield [one for (one,) in rows]

    def rows(self, table: str, chosen: Sequence[str], where: str = "") -> Iterator[list[tuple[Any, ...]]]:
        """Expressions over the rows of a table, many rows at a time."""
        if not chosen:
            return
        cursor = self.db.execute(f'SELECT {", ".join(chosen)} FROM "{table}" {where}')
        while rows := cursor.fetchmany(_ROWS):
            yield rows
