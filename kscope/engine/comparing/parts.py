"""What every comparison is made of: which findings and figures are worth a line, ratios in words, and what promises
came to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kscope.model.contract.analysis import Estimate, Finding
from kscope.model.contract.comparison import Change, Outcome, Promise

NOISE = 0.02
"""Times of one kernel under the profiler differ by about this much from run to run; less is `no change`."""


def real(findings: Sequence[Finding]) -> list[Finding]:
    return [f for f in findings if f.severity != "info"]


def words(limiter: str) -> str:
    return limiter.replace("_", " ")


def faster(speedup: float | None) -> str:
    if speedup is None:
        return "times unknown"
    if abs(speedup - 1) < NOISE:
        return f"no change in time beyond {NOISE:.0%}".replace("%", " %")
    return f"{speedup:.2f}x faster" if speedup > 1 else f"{1 / speedup:.2f}x slower"


def moved(row: Change) -> bool:
    """Worth a line: 2 points of a percentage, 2 % of anything else, or a figure that only one side has."""
    if row.before is None or row.after is None:
        return (row.before or row.after or 0) >= (2 if row.unit == "%" else 1e-9)
    apart = abs(row.before - row.after)
    return apart >= 2 if row.unit == "%" else apart > NOISE * max(abs(row.before), abs(row.after))


def estimated(fixed: Sequence[Finding]) -> list[Finding]:
    """Those that promised a gain, the largest first."""
    return sorted((f for f in fixed if f.estimate), key=lambda f: -(f.estimate.speedup if f.estimate else 0))


def promises(
    fixed: Sequence[Finding], alone: bool, judge: Callable[[Estimate], tuple[float, Outcome]]
) -> list[Promise]:
    """What the repaired findings promised, largest first. alone: they are one repair. judge: of an estimate, the gain
    that it is held against, and how it stands to that."""
    out = []
    for finding in estimated(fixed):
        e = finding.estimate
        assert e is not None
        measured, outcome = judge(e)
        out.append(
            Promise(
                code=finding.code, rule=finding.rule, speedup=e.speedup, low=e.low, high=e.high, measured=measured,
                alone=alone, outcome=outcome, shared_with=[f.code for f in fixed if f is not finding],
            )
        )  # fmt: skip
    return out
