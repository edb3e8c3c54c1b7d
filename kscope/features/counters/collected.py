"""What of a report was collected: a report of `ncu` without options holds a fifth of what the rules could use.

A verdict, a promise and the advice to measure depend on it. Nothing here looks at values, only at what is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from kscope.features.counters.launch import LIMITS
from kscope.features.counters.stalls import StallMix
from kscope.features.counters.units import Unit, elapsed_cycles
from kscope.model.kernel import Kernel

Part = Literal["memory units", "compute units", "warp states", "SM activity", "launch limits", "machine code", "time"]

SECTIONS: Mapping[Part, tuple[str, ...]] = {
    "memory units": ("SpeedOfLight",),
    "compute units": ("SpeedOfLight", "ComputeWorkloadAnalysis"),
    "warp states": ("WarpStateStats", "SchedulerStats"),
    "SM activity": ("SpeedOfLight",),
    "launch limits": ("LaunchStats", "Occupancy"),
    "machine code": ("SourceCounters",),
    "time": ("SpeedOfLight",),
}
"""Part -> the sections of ncu that collect it. Source: the sections of the captures in fixtures/sections."""
MEMORY, COMPUTE = ("dram", "l2", "l1"), ("issue", "fma")


class Collected(Struct, frozen=True):
    """`parts`: what is there. Whatever is not in it is unknown, and never zero."""

    parts: frozenset[Part]

    @property
    def units(self) -> bool:
        """Whether every unit that usually limits a kernel was looked at: what is not the limit can then be said."""
        return {"memory units", "compute units"} <= self.parts

    @property
    def missing(self) -> tuple[Part, ...]:
        """What lacks, in the order of SECTIONS."""
        return tuple(part for part in SECTIONS if part not in self.parts)


def collected(kernel: Kernel, units: Mapping[str, Unit], stalls: StallMix) -> Collected:
    """`units` and `stalls`: of the kernel."""
    m = kernel.metrics
    there: dict[Part, bool] = {
        "memory units": all(name in units for name in MEMORY),
        "compute units": all(name in units for name in COMPUTE),
        "warp states": bool(stalls.share),
        "SM activity": m.get("sm__cycles_active.avg") is not None and elapsed_cycles(m) is not None,
        "launch limits": any(m.get(name) is not None for name in LIMITS.values()),
        "machine code": kernel.program is not None,
        "time": kernel.duration_ns is not None,
    }
    return Collected(frozenset(part for part, known in there.items() if known))
