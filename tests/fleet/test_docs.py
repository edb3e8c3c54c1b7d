"""docs/fleet.md says what is there, and its queries run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kscope.fleet.base import Base
from kscope.fleet.schema import NAME, TABLES
from kscope.fleet.store import Dataset
from tests.fleet.test_ingest import put

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "fleet.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def test_every_column_is_described() -> None:
    assert NAME in PAGE
    for table, columns in TABLES.items():
        part = PAGE.split(f"\n### {table}\n")[1].split("\n#")[0]
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \|$", part, re.MULTILINE)
        assert rows == [(c.name, c.type, c.means) for c in columns], table


@pytest.fixture(scope="module")
def base(fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> Base:
    data = tmp_path_factory.mktemp("docs") / "data"
    put([str(fleet)], data)
    return Base(Dataset.opened(data))


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_queries_run(number: int, base: Base) -> None:
    names, rows = base.asked(QUERIES[number])
    assert names and all(len(row) == len(names) for row in rows)


def test_there_are_queries_and_they_find_something(base: Base) -> None:
    assert len(QUERIES) >= 10
    assert sum(bool(base.asked(query)[1]) for query in QUERIES) >= 6
