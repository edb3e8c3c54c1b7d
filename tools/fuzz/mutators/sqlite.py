"""Faults of SQLite files: of rows and schema through sqlite3, of pages, cells and records in the bytes."""

from __future__ import annotations

import sqlite3
import struct
from random import Random

from tools.fuzz.mutators import raw

_HEADER = (16, 18, 19, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 68, 92, 96)
"""Offsets of the file header's fields."""
_VALUES = (
    "NULL", "-1", "0", "9223372036854775807", "-9223372036854775808", "0.5", "1e300", "'x'", "''", "x'00ff'",
    "zeroblob(3000)", "1180591620717411303424", "'9' * 3",
)  # fmt: skip
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
_LEAF, _INTERIOR, _INDEX_INTERIOR = 13, 5, 2


def mutate(rng: Random, data: bytes) -> bytes:
    if rng.random() < 0.5:
        data = _by_sql(rng, data)
    if rng.random() < 0.6:
        for _ in range(raw.often(rng)):
            data = _in_pages(rng, data)
    return raw.mutate(rng, data) if rng.random() < 0.07 else data


def _by_sql(rng: Random, data: bytes) -> bytes:
    db = sqlite3.connect(":memory:")
    try:
        db.deserialize(data)
        for _ in range(raw.often(rng)):
            tables = [name for (name,) in db.execute(_TABLES)]
            if not tables:
                break
            try:
                db.execute(_statement(rng, db, tables))
            except (sqlite3.Error, OverflowError):
                continue
        db.commit()
        return db.serialize()
    except (sqlite3.Error, UnicodeError, OverflowError):
        return data
    finally:
        db.close()


def _statement(rng: Random, db: sqlite3.Connection, tables: list[str]) -> str:
    likely = [t for t in tables if "CUPTI" in t or t in ("StringIds", "TARGET_INFO_GPU", "NVTX_EVENTS", "OSRT_API")]
    table = rng.choice(likely if likely and rng.random() < 0.7 else tables)
    columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
    column, value = rng.choice(columns), rng.choice(_VALUES)
    if rng.random() < 0.3:
        value = f"{rng.choice(columns)} * {rng.choice((-1, 0, 2, 1000, 1 << 40))}"
    some = rng.choice(("", f" WHERE rowid % {rng.randrange(1, 50)} = 0", f" WHERE rowid = {rng.randrange(1, 300)}"))
    text = rng.choice(raw.NAMES).replace("'", "").replace("\0", "")
    return rng.choice((
        f'UPDATE "{table}" SET "{column}" = {value}{some}',
        f'UPDATE "{table}" SET "{column}" = {value}{some}',
        f'UPDATE StringIds SET value = \'{text}\' WHERE id % {rng.randrange(1, 20)} = 0',
        f'DELETE FROM "{table}"{some}', f'DROP TABLE "{table}"',
        f'INSERT INTO "{table}" SELECT * FROM "{table}"{some}',
        f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "{rng.choice(columns)}_2"',
        f'ALTER TABLE "{table}" DROP COLUMN "{column}"',
        f'ALTER TABLE "{table}" RENAME TO "{rng.choice(tables)}_old"',
        f'ALTER TABLE "{table}" ADD COLUMN extra GENERATED ALWAYS AS (zeroblob(100000000)) VIRTUAL',
        f'CREATE VIEW v{rng.randrange(99)} AS SELECT * FROM "{table}"',
        f'CREATE INDEX i{rng.randrange(99)} ON "{table}" ("{column}")',
        f'CREATE TABLE t{rng.randrange(99)} ("{column}" PRIMARY KEY) WITHOUT ROWID',
    ))  # fmt: skip


def _in_pages(rng: Random, data: bytes) -> bytes:
    if len(data) < 512:
        return raw.mutate(rng, data)
    size = int.from_bytes(data[16:18], "big")
    size = 65536 if size == 1 else size
    if size < 512 or size & (size - 1):
        return raw.mutate(rng, data)
    out, pages = bytearray(data), max(len(data) // size, 1)
    page = rng.randrange(pages)
    start = page * size
    head = start + (100 if page == 0 else 0)
    what = rng.randrange(10)
    if what == 0:
        at = rng.choice(_HEADER)
        wide = 2 if at == 16 else 1 if at < 24 else 4
        out[at : at + wide] = (raw.integer(rng) % (1 << 8 * wide)).to_bytes(wide, "big")
    elif what == 1 and pages > 1:
        other = rng.randrange(pages) * size
        out[start : start + size], out[other : other + size] = out[other : other + size], out[start : start + size]
    elif what == 2:
        del out[rng.randrange(start, min(start + size, len(out)) + 1) :]
    elif what == 3:
        at = head + rng.choice((0, 1, 2, 3, 4, 5, 6, 7))
        out[at] = rng.choice((0, 2, 5, 10, 13, 0xFF, rng.getrandbits(8)))
    elif head + 12 <= len(out) and out[head] in (_LEAF, _INTERIOR, _INDEX_INTERIOR):
        _in_cell(rng, out, start, head, size)
    else:
        out[start : start + size] = raw.mutate(rng, bytes(out[start : start + size]))[:size].ljust(size, b"\0")
    return bytes(out)


def _in_cell(rng: Random, out: bytearray, start: int, head: int, size: int) -> None:
    """A pointer to a cell, or the lengths, rowid, serial types and child pages at its beginning."""
    count = min(int.from_bytes(out[head + 3 : head + 5], "big"), 500)
    pointers = head + (8 if out[head] == _LEAF else 12)
    if not count or pointers + 2 * count > min(start + size, len(out)):
        return
    pointer = pointers + 2 * rng.randrange(count)
    if rng.random() < 0.2:
        other = pointers + 2 * rng.randrange(count)
        put = rng.choice((out[other : other + 2], struct.pack(">H", rng.randrange(min(size, 65535)))))
        out[pointer : pointer + 2] = put
        return
    cell = start + int.from_bytes(out[pointer : pointer + 2], "big")
    if cell + 24 > min(start + size, len(out)):
        return
    for _ in range(rng.choice((1, 1, 3))):
        at = cell + rng.randrange(24)
        out[at] = rng.choice((0, 1, 5, 6, 7, 8, 9, 10, 12, 13, 0x7F, 0x80, 0xFF, rng.getrandbits(8)))
