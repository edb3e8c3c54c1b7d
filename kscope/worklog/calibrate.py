"""How promises held: by rule, over the versions of worklogs.

The measure is the share of time: a promise of 4x says that 3/4 of the time goes; a version that takes half the time
delivered 0.67 of it. Ratios of speed-ups would call a promise of 1.1x that brought nothing 0.91 held. Only promises
whose gain nothing else shares are measured by it; the others are counted as inside their bounds or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from kscope.model.contract.analysis import Frozen
from kscope.worklog.entries import Delivered, Entry

SCHEMA = "kscope.calibration/1"
LEAST = 1.02  # promises below are within the noise of a time: their share says nothing
FEW = 3
"""Versions below which the words say that there are few."""


class Held(Frozen, frozen=True, kw_only=True):
    """One rule. share: median of delivered over promised savings of time, None where no promise stood alone. alone,
    inside, versions: counts; versions are those with a promise of the rule, shared ones too."""

    code: str
    rule: str
    versions: int
    alone: int
    inside: int
    share: float | None
    low: float | None
    high: float | None


def calibrate(entries: Iterable[Entry]) -> list[Held]:
    """By code. An entry that several worklogs share counts once."""
    by_code: dict[str, list[Delivered]] = {}
    for entry in {one.uid: one for one in entries}.values():
        for one in entry.step.delivered if entry.step else []:
            by_code.setdefault(one.code, []).append(one)
    return [_held(code, rows) for code, rows in sorted(by_code.items())]


def share(promised: float, measured: float) -> float:
    """Delivered over promised savings of time; 0 where nothing was saved."""
    return max(0.0, (1 - 1 / measured) / (1 - 1 / promised))


def words(rows: Sequence[Held]) -> Mapping[str, str]:
    """By code, a sentence to stand beside the next promise."""
    return {row.code: _sentence(row) for row in rows}


def _held(code: str, rows: Sequence[Delivered]) -> Held:
    shares = sorted(share(r.speedup, r.measured) for r in rows if r.alone and r.speedup >= LEAST and r.measured > 0)
    return Held(
        code=code, rule=rows[0].rule, versions=len(rows), alone=len(shares),
        inside=sum(r.outcome == "inside" for r in rows), share=median(shares) if shares else None,
        low=shares[0] if shares else None, high=shares[-1] if shares else None,
    )  # fmt: skip


def _sentence(row: Held) -> str:
    count = f"{row.versions} version{'' if row.versions == 1 else 's'}"
    if row.share is None:
        return f"inside its bounds in {row.inside} of {count}, never alone"
    alone = f"{row.alone} of your versions" if row.alone > 1 else "one of your versions"
    said = f"delivered {row.share:.1f} of its promise in {alone}"
    return said + (f", inside its bounds in {row.inside} of {row.versions}" if row.versions >= FEW else "")


class Calibration(Frozen, frozen=True, kw_only=True):
    """`kscope log calibrate --format json`. versions: all that were looked at."""

    schema: str
    versions: int
    rules: list[Held] = []
