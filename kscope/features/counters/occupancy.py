"""Occupancy: what the launch allows, what was reached, and which resource sets the limit."""

from __future__ import annotations

from msgspec import Struct

from kscope.features.counters.launch import Geometry
from kscope.model.kernel import Kernel


class Occupancy(Struct, frozen=True):
    """Warps an SM: `maximum` of the chip, `theoretical` by the launch's resources, `achieved` on average while an SM
    is active (None if not collected). `limiters` are the resources that set the theoretical figure; `relaxed` is the
    warps an SM would hold without them (the next limit)."""

    maximum: int
    theoretical: int
    achieved: float | None
    limiters: tuple[str, ...]
    relaxed: int


def occupancy(kernel: Kernel, geometry: Geometry) -> Occupancy | None:
    """None where the report has no occupancy limits (section Occupancy)."""
    if not geometry.limits:
        return None
    m = kernel.metrics
    maximum = int(
        m.first("device__attribute_max_warps_per_multiprocessor", "sm__maximum_warps_avg_per_active_cycle")
        or geometry.limits.get("block size", 1) * geometry.warps_per_block
    )
    smallest = min(geometry.limits.values())
    limiters = tuple(n for n, v in geometry.limits.items() if v == smallest)
    others = [v for n, v in geometry.limits.items() if n not in limiters]
    pct = m.get("sm__warps_active.avg.pct_of_peak_sustained_active")
    return Occupancy(
        maximum=maximum,
        theoretical=min(maximum, geometry.resident_warps),
        achieved=pct / 100 * maximum if pct is not None else None,
        limiters=limiters,
        relaxed=min(maximum, min(others, default=smallest) * geometry.warps_per_block),
    )
