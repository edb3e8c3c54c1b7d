"""What the captures of fixtures/h200 were made to show, and what is known of the ones that kscope tells otherwise."""

from __future__ import annotations

from typing import Any

from tests.support import captures
from tests.support.reports import FIXTURES

_TABLES = captures.tables(FIXTURES)
LABELS: dict[str, dict[str, Any]] = captures.labels(_TABLES)
"""case -> regime, accept, and perhaps fixed or no_gain."""
TIMES: dict[str, float] = captures.times(_TABLES)
"""case -> microseconds, median of 15 or 25 launches without the profiler."""
PAIRS: dict[str, str] = {case: label["fixed"] for case, label in LABELS.items() if "fixed" in label}
"""case -> the case without its fault."""
CAPTURED: dict[str, str] = {case: fixed for case, fixed in PAIRS.items() if fixed in _TABLES}
"""Of these, the pairs whose better half was profiled too; of the others only its time was taken."""
UNNAMED: dict[str, str] = {}
"""Cases whose planted cause no finding names, and why."""
REMAINS: dict[str, str] = {
    "bitonic1024.barriers": "the shuffling version still passes 15 barriers a warp",
    "picked_norms.one_lane": "32 lanes issue their copies one after the other",
    "fft1024.packed": "the padded version still has conflicts at one stride",
    "autocorr.lag_by_lag": "the better version still loads both factors from L1",
    "dwconv.one": "four outputs a thread need half a window each: built, 1.03x with two and 0.98x with four (H100)",
    "halves.global": "threads of the shuffling version have two elements each and share one reduction a block",
    "force.alone": "a quarter of the threads that the device holds: 1.22x with 128 lanes a point (H100)",
}
"""Cases whose fixed version gets a promise for the same cause; what its remedy gains there is not measured."""
REGIMES: dict[str, str] = {}
"""Cases whose regime is told otherwise, and why."""


def truth(case: str) -> float:
    """The measured speed-up of the fix."""
    return TIMES[case] / TIMES[PAIRS[case]]
