"""The answers to all questions of the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kscope._version import __version__
from kscope.fleet import questions
from kscope.fleet.base import Base
from kscope.fleet.movements import Movements, stamp
from kscope.fleet.store import Dataset
from kscope.fleet.view import (
    Cause,
    Cluster,
    Coverage,
    FleetKernel,
    FleetReport,
    Idle,
    Refusal,
    Renamed,
    Share,
    Totals,
)


def report(folder: Path) -> FleetReport:
    """What a dataset says. Raises KscopeError where it cannot be read."""
    base = Base(Dataset.opened(folder))
    movements = Movements(base)
    return FleetReport(
        kscope=__version__,
        dataset=str(folder),
        totals=_totals(base.rows(questions.TOTALS)[0]),
        causes=[Cause(**row) for row in base.rows(questions.CAUSES)],
        chips=_shares(base, "chip"),
        models=_shares(base, "model"),
        jobs=_shares(base, "job"),
        kernels=[_kernel(row) for row in base.rows(questions.KERNELS)],
        slower=movements.slower,
        faster=movements.faster,
        delivered=movements.delivered,
        clusters=[Cluster(**row) for row in base.rows(questions.CLUSTERS)],
        renamed=[Renamed(**row) for row in base.rows(questions.RENAMED)],
        idle=[Idle(**row) for row in base.rows(questions.IDLE)],
        coverage=Coverage(
            by_kind={row["kind"] or "unknown": row["count"] for row in base.rows(questions.KINDS)},
            refusals=[Refusal(**row) for row in base.rows(questions.REFUSALS)],
            series=movements.series, short_series=movements.short, **base.rows(questions.COVERAGE)[0],
        ),
    )  # fmt: skip


def _totals(row: dict[str, Any]) -> Totals:
    return Totals(**{**row, "first": _when(row["first"]), "last": _when(row["last"])})


def _shares(base: Base, column: str) -> list[Share]:
    return [Share(**row) for row in base.rows(questions.SHARES.format(column=column, saved=questions.SAVED))]


def _kernel(row: dict[str, Any]) -> FleetKernel:
    return FleetKernel(**{**row, "cause": row["cause"] or None, "seen": _when(row["seen"])})


def _when(value: Any) -> str | None:
    return stamp(value) if value is not None else None
