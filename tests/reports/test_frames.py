"""An Analysis as tables of pandas and polars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import Analysis
from kscope.reports import frames, notebook
from tests.support import traces


@pytest.mark.parametrize("engine", frames.ENGINES)
def test_tables(engine: str, analysis: Callable[[str], Analysis]) -> None:
    pytest.importorskip(engine)
    one = analysis("multi_kernels")
    wanted = {"kernels": notebook.COLUMNS, "findings": frames.FINDINGS, "evidence": frames.EVIDENCE}
    assert tuple(wanted) == frames.TABLES
    for table, columns in wanted.items():
        frame = one.to_dataframe(table, engine)  # type: ignore[arg-type]
        assert list(frame.columns) == columns
        assert list(Analysis(kscope="0").to_dataframe(table, engine).columns) == columns  # type: ignore[arg-type]
    found = [f for k in one.kernels for f in k.findings]
    assert len(one.to_dataframe("findings", engine)) == len(found)  # type: ignore[arg-type]
    assert len(one.to_dataframe("evidence", engine)) == sum(len(f.evidence) for f in found)  # type: ignore[arg-type]


def test_both_say_the_same(analysis: Callable[[str], Analysis]) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    one = analysis("bank_conflict.slow")
    theirs = one.to_dataframe("findings", "polars").to_dicts()
    first = one.to_dataframe("findings").iloc[0].to_dict()
    assert first == theirs[0]
    assert (first["of"], first["code"], first["rank"]) == ("kernel", "MEM103", 0)
    finding = one.kernels[0].findings[0]
    assert finding.estimate is not None
    assert (first["speedup"], first["line"]) == (finding.estimate.speedup, finding.locations[0].line)
    figures = one.to_dataframe("evidence", "polars").to_dicts()
    said: list[Any] = [e for f in one.kernels[0].findings for e in f.evidence]
    assert [f["metric"] for f in figures] == [e.metric for e in said]
    for shown, e in zip(figures, said, strict=True):
        assert (shown["value"] is None) != (shown["text"] is None) or e.value is None


def test_findings_of_recordings() -> None:
    pytest.importorskip("pandas")
    one = analyze_paths([traces.path("sync_bound")])
    frame = one.to_dataframe("findings")
    assert set(frame["of"]) == {"timeline"} and set(frame["id"]) == {"0"}
    assert list(frame["code"]) == [f.code for f in one.timelines[0].findings]


@pytest.mark.parametrize(("table", "engine"), [("stalls", "pandas"), ("kernels", "excel")])
def test_what_there_is_not(table: str, engine: str) -> None:
    with pytest.raises(ValueError, match=r"stalls|excel"):
        Analysis(kscope="0").to_dataframe(table, engine)  # type: ignore[arg-type]
