"""What the captures were made to show: fixtures/h200/labels.toml and times.txt."""

from __future__ import annotations

import tomllib
from typing import Any

from tests.support.reports import FIXTURES

LABELS: dict[str, dict[str, Any]] = tomllib.loads((FIXTURES / "labels.toml").read_text(encoding="utf-8"))
"""case -> regime, accept, and perhaps fixed or no_gain."""
TIMES: dict[str, float] = {
    f"{name}.{variant}": float(us)
    for _, name, variant, us, _ in map(str.split, (FIXTURES / "times.txt").read_text(encoding="utf-8").splitlines())
}
"""case -> microseconds, median of 15 launches without the profiler."""
PAIRS: dict[str, str] = {case: label["fixed"] for case, label in LABELS.items() if "fixed" in label}
"""case -> the case without its fault."""
CAPTURED: dict[str, str] = {case: fixed for case, fixed in PAIRS.items() if (FIXTURES / fixed).is_dir()}
"""Of these, the pairs whose better half was profiled too; of the others only its time was taken."""


def truth(case: str) -> float:
    """The measured speed-up of the fix."""
    return TIMES[case] / TIMES[PAIRS[case]]
