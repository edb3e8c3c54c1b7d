"""The dataset on disk. DATASET/TABLE/ingest=ID/part-00000.parquet are the rows of one batch of inputs; the batch is in
the dataset when DATASET/ingests/ID/part-00000.json names its files, which is written last. What a run that was killed
left beside that is never read, and written anew. Files are never changed, and equal rows give equal bytes."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kscope.fleet.missing import needed
from kscope.fleet.rows import Row
from kscope.fleet.schema import NAME, TABLES, VERSION, Column
from kscope.model.errors import EXIT_USAGE, KscopeError

PART = "part-{:05d}"


class Dataset:
    """A folder with the tables of `kscope.fleet.schema`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plans = folder / "ingests"

    @classmethod
    def opened(cls, folder: Path) -> Dataset:
        """Raises KscopeError where there is none, or one of a later version."""
        try:
            about = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
            name = str(about["schema"])
        except (FileNotFoundError, NotADirectoryError):
            raise KscopeError("no-dataset", f"{folder}: no dataset of kscope fleet", "make one: kscope fleet ingest"
                              " PATH --into DATASET") from None  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = (isinstance(error, OSError) and error.strerror) or error
            raise KscopeError("corrupt", f"{folder / 'dataset.json'}: cannot be read ({why})", "restore it") from None
        if name.partition("/")[0] != "kscope.fleet" or not name.partition("/")[2].isdigit():
            raise KscopeError("corrupt", f"{folder}: not a dataset of kscope fleet", "name the folder of --into")
        if int(name.partition("/")[2]) > VERSION:
            raise KscopeError("newer", f"{folder}: written by a later kscope ({name})", "upgrade kscope")
        return cls(folder)

    @classmethod
    def made(cls, folder: Path) -> Dataset:
        """The same, made where there is none. Raises KscopeError, also where the folder holds something else."""
        if (folder / "dataset.json").exists():
            return cls.opened(folder)
        if folder.exists() and (not folder.is_dir() or not _begun(folder)):
            raise KscopeError("exists", f"{folder}: is no dataset, and not empty", "name a new folder", EXIT_USAGE)
        out = cls(folder)
        try:
            out.plans.mkdir(parents=True, exist_ok=True)
            write(folder / "dataset.json", json.dumps({"schema": NAME}) + "\n")
        except OSError as error:
            raise KscopeError("unwritable", f"{folder}: {error.strerror}", "name another folder", EXIT_USAGE) from None
        return out

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One writer at a time. Raises KscopeError (status 2) where there is another."""
        with open(self.folder / ".lock", "w") as file:
            try:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except ImportError:
                pass
            except OSError:
                raise KscopeError("busy", f"{self.folder}: another ingest writes to it", "wait until it has ended",
                                  EXIT_USAGE) from None  # fmt: skip
            yield

    def batches(self) -> list[Path]:
        """What names the files of each batch, oldest ingest first."""
        plans = sorted(self.plans.glob("*/plan.json"), key=lambda p: (_number(p), p.parent.name))
        return [batch for plan in plans for batch in sorted(plan.parent.glob("part-*.json"))]

    def files(self) -> dict[str, list[str]]:
        """Table to its Parquet files. Raises KscopeError where a batch cannot be read."""
        out: dict[str, list[str]] = {name: [] for name in TABLES}
        for batch in self.batches():
            try:
                tables = json.loads(batch.read_text(encoding="utf-8"))["tables"]
            except (OSError, ValueError, KeyError) as error:
                what = f"{batch}: cannot be read ({error})"
                raise KscopeError("corrupt", what, "delete it and ingest again") from None
            for table in tables:
                if table in out:
                    place = self.folder / table / f"ingest={batch.parent.name}" / f"{batch.stem}.parquet"
                    out[table].append(str(place))
        return out

    def write_batch(self, ingest: str, number: int, rows: Mapping[str, Sequence[Row]]) -> None:
        """Commit the rows of one batch; tables without rows have no file."""
        name = PART.format(number)
        tables = {table: len(rows[table]) for table in TABLES if rows.get(table)}
        for table in tables:
            place = self.folder / table / f"ingest={ingest}" / f"{name}.parquet"
            place.parent.mkdir(parents=True, exist_ok=True)
            _parquet(place, TABLES[table], rows[table])
        write(self.plans / ingest / f"{name}.json", json.dumps({"tables": tables}, sort_keys=True) + "\n")

    def known(self) -> list[tuple[str, str, str | None, int]]:
        """(url, fingerprint, content, bytes) of every input that the dataset has."""
        parquet = needed("pyarrow.parquet")
        out: list[tuple[str, str, str | None, int]] = []
        for file in self.files()["inputs"]:
            table = parquet.read_table(file, columns=["url", "fingerprint", "input", "bytes"], partitioning=None)
            out += zip(*(table.column(i).to_pylist() for i in range(4)), strict=True)
        return out


def _begun(folder: Path) -> bool:
    """Whether a folder holds nothing but what a run that was killed at its very beginning leaves."""
    return all(p.name in (".lock", "ingests", ".dataset.json.tmp") for p in folder.rglob("*"))


def _number(plan: Path) -> int:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads(plan.read_text(encoding="utf-8"))["number"])
    return 0


def write(path: Path, text: str) -> None:
    """A file that is there whole or not at all."""
    beside = path.with_name(f".{path.name}.tmp")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def arrow_schema(columns: Sequence[Column]) -> Any:
    """The schema of a table for pyarrow."""
    pa = needed("pyarrow")
    types = {
        "string": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(),
        "time": pa.timestamp("us"), "labels": pa.map_(pa.string(), pa.string()),
        "strings": pa.list_(pa.string()),
    }  # fmt: skip
    about = {c.name: {b"means": c.means.encode()} for c in columns}
    fields = [pa.field(c.name, types[c.type], metadata=about[c.name]) for c in columns]
    return pa.schema(fields, metadata={b"kscope.schema": NAME.encode()})


def _parquet(place: Path, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    pa, parquet = needed("pyarrow"), needed("pyarrow.parquet")
    schema = arrow_schema(columns)
    texts = {c.name for c in columns if c.type == "string"}
    clean = [{name: _text(value) if name in texts else value for name, value in row.items()} for row in rows]
    table = pa.Table.from_pylist(clean, schema=schema)
    beside = place.with_name(f".{place.name}.tmp")
    parquet.write_table(table, beside, compression="zstd", version="2.6")
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    beside.replace(place)


def _text(value: Any) -> Any:
    """File names may hold bytes that are no text: Parquet's strings may not."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
