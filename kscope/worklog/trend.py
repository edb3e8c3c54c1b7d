"""How the figures of a kernel went over its versions: the columns of a worklog, one figure a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from kscope.model.contract.analysis import Frozen
from kscope.worklog.entries import Entry
from kscope.worklog.ladder import current, lineage, way
from kscope.worklog.metrics import UNITS

SCHEMA = "kscope.trend/1"
STILL = 0.02
"""A figure that moved by less from its least to its most is still: what two runs of one kernel differ by
(kscope.engine.comparing.compare.NOISE)."""


class TrendVersion(Frozen, frozen=True, kw_only=True):
    number: int
    message: str
    added: str
    status: str
    limiter: str
    claim: Annotated[str | None, Meta(description="code of the finding that promised most for the next version")] = None


class Figure(Frozen, frozen=True, kw_only=True):
    """One figure over the versions; null where a report does not hold it."""

    name: str
    measure: Annotated[str, Meta(description="unit of the values")] = msgspec.field(name="unit")
    values: list[float | None]
    moved: Annotated[bool, Meta(description="by 2 % or more, or there in some versions only")]


class Trend(Frozen, frozen=True, kw_only=True):
    """`kscope log trend --format json`."""

    schema: str = SCHEMA
    kscope: str
    kernel: str
    versions: list[TrendVersion]
    figures: list[Figure]


def followed(entries: Sequence[Entry], member: Entry, *, every: bool) -> list[Entry]:
    """The versions that work went through, from the start of the ladder of `member` to the one it goes on from; every:
    with those that were set aside, in the order of their numbers."""
    if every:
        return lineage(entries, member)
    return way(entries, current(entries, member) or member)


def trend(entries: Sequence[Entry], kscope: str) -> Trend:
    """entries: the versions, oldest first, at least one."""
    rows: list[tuple[str, str, list[float | None]]] = [
        ("time", "us", [e.time_us for e in entries]), ("of the roof", "%", [e.pct_of_roof for e in entries]),
        ("headroom", "x", [e.headroom for e in entries]),
        ("most that is promised next", "x", [_promised(e) for e in entries]),
    ]  # fmt: skip
    rows += [(name, unit, [e.metrics.get(name) for e in entries]) for name, unit in UNITS.items()]
    return Trend(
        kscope=kscope, kernel=entries[-1].kernel,
        versions=[
            TrendVersion(number=e.number, message=e.message, added=e.added, status=e.status, limiter=e.limiter,
                         claim=_best(e))
            for e in entries
        ],
        figures=[
            Figure(name=name, measure=unit, values=values, moved=_moved(values)) for name, unit, values in rows
            if any(value is not None for value in values)
        ],
    )  # fmt: skip


def _moved(values: Sequence[float | None]) -> bool:
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        return bool(known)
    most = max(abs(v) for v in known)
    return most > 0 and max(known) - min(known) > STILL * most


def _best(entry: Entry) -> str | None:
    real = [c for c in entry.claims if c.severity != "info" and c.speedup > 1]
    return max(real, key=lambda c: c.speedup).code if real else None


def _promised(entry: Entry) -> float | None:
    return max((c.speedup for c in entry.claims if c.severity != "info" and c.speedup > 1), default=None)
