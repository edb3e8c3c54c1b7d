"""Rows of anybody's question as text, CSV or JSON lines."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from kscope.model.errors import one_line
from kscope.reports.escape import json_line
from kscope.reports.terminal import cells, pad

WIDEST = 60  # cells of a column in a terminal


def render(names: Sequence[str], rows: Sequence[Sequence[Any]], format_: str) -> str:
    if format_ == "json":
        lines = (json.dumps({n: _plain(v) for n, v in zip(names, row, strict=True)}) for row in rows)
        return "".join(json_line(line.encode()).decode() + "\n" for line in lines)
    if format_ == "csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([_guarded(n) for n in names])
        writer.writerows([[_guarded(_shown(v, exact=True)) for v in row] for row in rows])
        return out.getvalue()
    shown = [[one_line(_shown(v)) for v in row] for row in rows]
    texts = [[one_line(n) for n in names], *shown]
    widths = [min(WIDEST, max(cells(row[i]) for row in texts)) for i in range(len(names))]
    aligned = ["  ".join(pad(text, width) for text, width in zip(row, widths, strict=True)).rstrip() for row in texts]
    return "".join(f"{line}\n" for line in aligned)


def _shown(value: Any, *, exact: bool = False) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and not exact:
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return str(value.isoformat(sep=" ", timespec="seconds"))
    if isinstance(value, list | dict):
        return json.dumps(_plain(value))
    return str(value)


def _guarded(text: str) -> str:
    """No cell that a spreadsheet would take for a formula."""
    return f"'{text}" if text[:1] in "=+@\t\r" or (text[:1] == "-" and not _number(text)) else text


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _plain(value: Any) -> Any:
    """What JSON has."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, str | int | bool) else str(value)
