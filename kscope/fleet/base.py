"""The dataset as tables of DuckDB, for kscope's own questions and for anybody's."""

from __future__ import annotations

from typing import Any

from kscope.fleet.missing import needed
from kscope.fleet.schema import TABLES
from kscope.fleet.store import Dataset
from kscope.model.errors import EXIT_USAGE, KscopeError

_TYPES = {"string": "VARCHAR", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN", "time": "TIMESTAMP",
          "labels": "MAP(VARCHAR, VARCHAR)", "strings": "VARCHAR[]"}  # fmt: skip

TABLES_HINT = "tables and columns: docs/fleet.md"
RECENT = """
CREATE VIEW recent AS
SELECT * EXCLUDE (newest)
FROM (SELECT *, max(recorded_at::DATE) OVER (PARTITION BY demangled, grid, block, chip, job, model) AS newest
      FROM kernels)
WHERE recorded_at::DATE = newest OR recorded_at IS NULL
"""
"""Each kernel as it is now: of every kernel, shape, chip, job and model the rows of the last day on which it was seen.
Sums over it are of one day of everything, not of all nights together."""


class Base:
    """An in-memory database with a view for each table (kscope.fleet.schema, and `ingest`), and `recent`. It reads the
    dataset's files and nothing else."""

    def __init__(self, data: Dataset) -> None:
        duckdb = needed("duckdb")
        self.error: type[Exception] = duckdb.Error
        self.connection = duckdb.connect(":memory:")
        files = data.files()
        self.connection.execute("SET enable_progress_bar = false")
        for table, columns in TABLES.items():
            if files[table]:
                names = ", ".join(_quoted(name) for name in files[table])
                select = f"SELECT * FROM read_parquet([{names}], hive_partitioning = true, union_by_name = true)"
            else:
                fields = ", ".join(f'NULL::{_TYPES[c.type]} AS "{c.name}"' for c in columns)
                select = f"SELECT {fields}, NULL::VARCHAR AS ingest WHERE false"
            self._asked(f'CREATE VIEW "{table}" AS {select}')
        self._asked(RECENT)
        every = [name for some in files.values() for name in some]
        self.connection.execute(f"SET allowed_paths = [{', '.join(map(_quoted, every))}]")
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")

    def _asked(self, sql: str, *values: object) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Names and rows of a question of kscope's own, which nothing is wrong with but the files."""
        try:
            return self._answer(sql, *values)
        except self.error as error:
            first = str(error).splitlines()[0]
            hint = "ingest again into a new one"
            raise KscopeError("corrupt", f"the dataset cannot be read: {first}", hint) from None

    def _answer(self, sql: str, *values: object) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Rows are fetched here: DuckDB reads files as they are asked for. KeyboardInterrupt, which it turns into a
        RuntimeError, is one again."""
        try:
            found = self.connection.execute(sql, list(values) or None)
            if found is None:  # nothing but blanks and comments
                raise KscopeError("sql", "no question in this SQL", TABLES_HINT, EXIT_USAGE)
            return [column[0] for column in found.description or ()], found.fetchall()
        except RuntimeError as error:
            if "interrupted" in str(error).lower():
                raise KeyboardInterrupt from None
            raise

    def rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        """Answers of a question of kscope's own, row by row. Raises KscopeError for files that are damaged."""
        names, found = self._asked(sql, *values)
        return [dict(zip(names, row, strict=True)) for row in found]

    def asked(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of anybody's question. Raises KscopeError (status 2) for what is no SQL."""
        try:
            return self._answer(sql)
        except self.error as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise KscopeError("sql", lines[0] if lines else "no answer", TABLES_HINT, EXIT_USAGE) from None


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"
