"""`nsys export --type parquetdir`: a folder with one Parquet file a table, named and made like those of the SQLite one.

Large tables come as columns through pyarrow, some row groups at a time; the small ones that queries are asked of are
copied into an SQLite database in memory. Rows may be in any order: what a Timeline holds is sorted when it is made.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kscope.model.columns import Column, constant, even
from kscope.model.errors import EXIT_TOOL, KscopeError, one_line
from kscope.model.timeline import Timeline
from kscope.parsers.timeline.nsys_tables import LONGEST, WIDE, Tables

SUFFIX = ".parquet"
MOST_ROWS = 1 << 28
"""Rows of one table: columns of one value take no bytes in a file, and memory here."""
_COPIED = (
    "StringIds", "META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE", "DIAGNOSTIC_EVENT", "TARGET_INFO_GPU",
    "TARGET_INFO_CUDA_GPU",
)  # fmt: skip
_ASKED = ("OSRT_API", "GPU_METRICS", "NET_NIC_METRIC")  # that only queries read
_COPIED_ROWS = 20_000_000
_BATCH = 1 << 16


def read(path: Path | str) -> Timeline:
    """The Timeline of a folder. Raises KscopeError: "no-pyarrow" (status 4), input for what is no sound export."""
    from kscope.parsers.timeline import nsys

    try:
        import pyarrow as pa
    except ImportError:
        message, hint = f"{path}: reading a Parquet export needs pyarrow", 'pip install "kscope-gpu[parquet]"'
        raise KscopeError("no-pyarrow", message, hint, EXIT_TOOL) from None
    try:
        with contextlib.closing(sqlite3.connect(":memory:")) as db:
            return nsys.timeline_of(ParquetTables(Path(path), db), str(path))
    except (pa.ArrowException, sqlite3.Error, OSError, ValueError, OverflowError, TypeError) as e:
        said = one_line(str(e))[:200]
        message = f"{path}: a table of the export cannot be read ({said})"
        raise KscopeError("corrupt", message, "export it again") from None


class ParquetTables(Tables):
    """The tables of a folder. db: an empty database, for those that queries are asked of."""

    def __init__(self, folder: Path, db: sqlite3.Connection) -> None:
        import pyarrow.parquet as pq

        plain = (p for p in sorted(folder.iterdir()) if p.suffix == SUFFIX and p.is_file() and not p.is_symlink())
        files = {p.stem: p for p in plain}
        self.files = {name: pq.ParquetFile(path, memory_map=False) for name, path in files.items()}
        for name, file in self.files.items():
            if file.metadata.num_rows > (_COPIED_ROWS if name in _COPIED else MOST_ROWS):
                raise ValueError(f"{one_line(name)} claims {file.metadata.num_rows:,} rows")
        self.db = db
        self.pages = None
        self.roots = dict.fromkeys(self.files, 0)
        for name in _COPIED:
            if name in self.files:
                self._copy(name)

    def _copy(self, table: str) -> None:
        names = [n for n in self.files[table].schema_arrow.names if '"' not in n and "\0" not in n]
        if not names:
            return
        marks = ", ".join("?" * len(names))
        self.db.execute(f'CREATE TABLE "{table}" ({", ".join(f"""{chr(34)}{n}{chr(34)}""" for n in names)})')
        for rows in self._rows(table, names):
            self.db.executemany(f'INSERT INTO "{table}" VALUES ({marks})', rows)

    def _rows(self, table: str, names: Sequence[str]) -> Iterator[list[tuple[Any, ...]]]:
        for batch in self.files[table].iter_batches(batch_size=_BATCH, columns=list(names)):
            columns = [batch.column(n).to_pylist() for n in names]
            yield [tuple(v if isinstance(v, int) else _text(v) for v in row) for row in zip(*columns, strict=True)]

    def has(self, table: str) -> set[str]:
        """Names of a table's columns; empty where there is no such table. Tables that only queries read, and that are
        not copied, count as missing."""
        return set(self.files[table].schema_arrow.names) if table in self.files and table not in _ASKED else set()

    def columns(self, table: str, wanted: Sequence[str], known: str = "") -> dict[str, Column]:
        import pyarrow as pa
        import pyarrow.compute as pc

        there = self.has(table)
        chosen = [name for name in wanted if name in there]
        asked = list(dict.fromkeys([*chosen, *([known] if known in there else [])]))
        parts: dict[str, list[Column]] = {name: [] for name in chosen}
        for batch in self.files[table].iter_batches(batch_size=_BATCH, columns=asked) if asked else ():
            if known in there:
                batch = batch.filter(pc.is_valid(batch.column(known)))
            for name in chosen:
                values = batch.column(name)
                values = values.fill_null(0) if values.null_count else values
                type_ = pa.int64() if name in WIDE or not pa.types.is_integer(values.type) else values.type
                numbers = values.cast(type_, safe=type_ != pa.int64()).to_numpy(zero_copy_only=False)
                parts[name].append(_narrow(numbers, name))
        out = {name: _joined(found) for name, found in parts.items()}
        even(out)
        size = len(out[chosen[0]]) if chosen else 0
        return {name: out[name] if name in out else constant(0, size) for name in wanted}

    def titles(self, table: str, texts: Sequence[str], kinds: Sequence[int]) -> Iterator[list[Any]]:
        names = [t for t in texts if t in self.has(table)]
        for rows in self._rows(table, ["end", "eventType", *names]):
            yield [
                next((v for v in found if v is not None), None)
                for end, kind, *found in rows if end is not None and kind in kinds
            ]  # fmt: skip


def _text(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    said = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return said[:LONGEST]


def _narrow(values: Any, name: str) -> Column:
    """As nsys_tables has them: 64 bits for what is reckoned with, 32 for the rest where they suffice."""
    found: Column = np.asarray(values)
    if found.dtype.kind == "u" or (found.dtype != np.int64 and name in WIDE):
        found = found.astype(np.int64)
    if name not in WIDE and found.dtype == np.int64 and len(found):
        low, high = int(found.min()), int(found.max())
        if low >= -(1 << 31) and high < 1 << 31:
            found = found.astype(np.int32)
    return found


def _joined(parts: Sequence[Column]) -> Column:
    if not parts:
        return np.zeros(0, dtype=np.int64)
    first = parts[0][:1]
    if len(first) and all(bool((p == first[0]).all()) for p in parts):
        return constant(int(first[0]), sum(map(len, parts)))
    return np.concatenate(parts)
