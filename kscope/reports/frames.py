"""An Analysis as data frames with stable column names: kernels, findings, evidence. Names are only added.

kernels: `kscope.reports.notebook.COLUMNS`. findings and evidence: FINDINGS and EVIDENCE below; `of` says what a row is
about (kernel, timeline or function), `id` which one: the kernel's id, the number of the timeline, the function's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kscope.reports import notebook, words

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Analysis, Finding

FINDINGS = [
    "of", "id", "name", "input", "rank", "code", "rule", "title", "regime", "severity", "speedup", "low", "high",
    "capped_by", "kind", "confidence", "function", "pc", "opcode", "sass", "file", "line", "share", "why", "fix",
    "overlaps",
]  # fmt: skip
"""rank: 0 is the best of its kernel; speedup, low, high: promised, null where nobody knows; function to share: of the
first place."""
EVIDENCE = ["of", "id", "name", "input", "rank", "code", "metric", "value", "text", "unit", "note"]
"""value: a number, null where the evidence is `text`."""
TABLES = ("kernels", "findings", "evidence")
ENGINES = ("pandas", "polars")


def to_dataframe(analysis: Analysis, table: str = "kernels", engine: str = "pandas") -> Any:
    """A frame of pandas or polars. Times in us, shares 0..1. Raises ValueError for another table or engine, and
    ModuleNotFoundError with the remedy where the engine is not installed."""
    columns, rows = _table(analysis, table)
    if engine == "polars":
        try:
            import polars as pl
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("to_dataframe needs polars: pip install 'kscope-gpu[polars]'") from error
        return pl.DataFrame({name: [row[name] for row in rows] for name in columns}, strict=False)
    if engine != "pandas":
        raise ValueError(f"engine {engine!r}: {' or '.join(ENGINES)}")
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("to_dataframe needs pandas: pip install 'kscope-gpu[pandas]'") from error
    return pd.DataFrame(rows, columns=columns)


def _table(analysis: Analysis, table: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Its columns and rows."""
    if table == "kernels":
        return notebook.COLUMNS, [notebook.row(k) for k in words.by_time(analysis.kernels)]
    if table == "findings":
        return FINDINGS, [{**about, **_finding(one)} for about, one in _findings(analysis)]
    if table == "evidence":
        return EVIDENCE, [
            {**about, "code": one.code, "metric": item.metric, "value": _number(item.value),
             "text": item.value if isinstance(item.value, str) else None, "unit": item.unit, "note": item.note}
            for about, one in _findings(analysis) for item in one.evidence
        ]  # fmt: skip
    raise ValueError(f"table {table!r}: {', '.join(TABLES)}")


def _findings(analysis: Analysis) -> Iterator[tuple[dict[str, Any], Finding]]:
    """(what it is about, finding) of kernels, longest first, then timelines and functions."""
    places: list[tuple[tuple[str, str, str, str], Sequence[Finding]]] = []
    for kernel in words.by_time(analysis.kernels):
        places.append((("kernel", kernel.id, kernel.demangled or kernel.name, kernel.input), kernel.findings))
    for number, timeline in enumerate(analysis.timelines):
        places.append((("timeline", str(number), "", timeline.input), timeline.findings))
    for program in analysis.programs:
        places += [(("function", f.name, f.demangled or f.name, program.input), f.findings) for f in program.functions]
    for place, found in places:
        about = dict(zip(("of", "id", "name", "input"), place, strict=True))
        for rank, one in enumerate(found):
            yield {**about, "rank": rank}, one


def _finding(one: Finding) -> dict[str, Any]:
    estimate = one.estimate
    first = one.locations[0] if one.locations else None
    said = ("code", "rule", "title", "regime", "severity", "confidence", "why", "fix")
    return {
        **{name: getattr(one, name) for name in said}, "overlaps": list(one.overlaps),
        **{name: getattr(estimate, name) if estimate else None for name in
           ("speedup", "low", "high", "capped_by", "kind")},
        **{name: getattr(first, name) if first else None for name in
           ("function", "pc", "opcode", "sass", "file", "line", "share")},
    }  # fmt: skip


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
