"""A worklog as rows: CSV for a spreadsheet, Parquet for a data frame. The same columns whatever the kernels."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from kscope.model.errors import EXIT_TOOL, EXIT_USAGE, KscopeError, one_line
from kscope.worklog.ladder import Rung
from kscope.worklog.metrics import UNITS

Value = str | float | int | bool | None


def rows(ladders: Sequence[Sequence[Rung]]) -> list[dict[str, Value]]:
    """A row a version. Times in microseconds; columns of figures are named with their units."""
    numbers = {rung.entry.uid: rung.entry.number for rungs in ladders for rung in rungs}
    return [_row(rung, numbers) for rungs in ladders for rung in rungs]


def as_csv(ladders: Sequence[Sequence[Rung]]) -> str:
    found = rows(ladders)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(found[0]) if found else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in found)
    return out.getvalue()


def write_parquet(ladders: Sequence[Sequence[Rung]], path: Path) -> None:
    """Raises KscopeError: status 4 without pyarrow, 2 where it cannot be written."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        hint = "pip install 'kscope-gpu[parquet]', or --format csv"
        raise KscopeError("no-pyarrow", "Parquet needs pyarrow", hint, EXIT_TOOL) from None
    try:
        pq.write_table(pa.Table.from_pylist(rows(ladders)), path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise KscopeError("unwritable", f"{path}: {reason}", "choose another place for -o", EXIT_USAGE) from None


def _row(rung: Rung, numbers: dict[str, int]) -> dict[str, Value]:
    e = rung.entry
    many = e.spread
    return {
        "version": e.number, "parent": numbers.get(e.parent or ""), "added": e.added, "kernel": one_line(e.kernel),
        "message": one_line(e.message), "status": e.status, "why": one_line(e.why), "time_us": e.time_us,
        "launches": many.count if many else 1, "min_us": many.min_us if many else e.time_us,
        "max_us": many.max_us if many else e.time_us, "speedup_on_parent": rung.gain, "speedup_on_start": rung.whole,
        "pct_of_roof": e.pct_of_roof, "headroom": e.headroom, "regime": e.regime, "limiter": e.limiter,
        "findings": " ".join(c.code for c in e.claims if c.severity != "info"),
        "promised": " ".join(f"{d.code}={d.speedup:.3g}" for d in (e.step.delivered if e.step else [])),
        "tried": " ".join(a.opportunity for a in e.attempts), "device": one_line(e.device.name),
        "commit": e.git.commit, "branch": one_line(e.git.branch or "") or None, "dirty": e.git.dirty,
        "profiler": one_line(e.tools.profiler or "") or None, "kscope": e.tools.kscope,
        "flags": one_line(e.tools.flags or "") or None, "sm_clock_hz": e.tools.sm_clock_hz,
        "dram_clock_hz": e.tools.dram_clock_hz, "report": e.report,
        **{f"{name} ({unit})" if unit else name: e.metrics.get(name) for name, unit in UNITS.items()},
    }  # fmt: skip


def _cell(value: Value) -> Value:
    """A text that a spreadsheet would take for a formula is one no longer."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value
