"""Warp samples with time stamps (`IAction.timed_warp_samples`, reader 2026.1 on): present where Nsight Compute sampled
warps in a PM pass of its own, else an empty list, and no such call at all in older readers. Both are no fault.
Asked for only of kernels that hand work to asynchronous units: nothing else needs to know when a warp waited.
"""

from __future__ import annotations

from array import array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def timed(action: Any) -> tuple[array[int], array[int], array[int], list[str]] | None:
    """(ns from the first sample, ascending; address; number of the reason; reasons by number); None where there are
    none. A sample without a reason (the enumeration's INVALID) is left out. Reasons as counters spell them."""
    read = getattr(action, "timed_warp_samples", None)
    rows = sorted(((s["timestamp"], s["pc"], s["stall_reason"]) for s in read()), key=_when) if read is not None else []
    names: dict[int, str] = {}
    times, pcs, reasons = array("q"), array("Q"), array("q")
    order: dict[str, int] = {}
    for when, pc, reason in rows:
        if (name := names.get(int(reason))) is None:
            name = names[int(reason)] = _name(reason)
        if name == "invalid":
            continue
        times.append(when - rows[0][0])
        pcs.append(pc)
        reasons.append(order.setdefault(name, len(order)))
    return (times, pcs, reasons, list(order)) if times else None


def _when(row: tuple[int, int, Any]) -> int:
    return row[0]


def _name(reason: Any) -> str:
    """`long_scoreboard` of StallReason.LONG_SCOREBOARD, or of its number, which the native module returns."""
    try:
        from ncu_report import StallReason

        name: str = StallReason(int(reason)).name
    except (ImportError, ValueError):
        name = getattr(reason, "name", "invalid")
    return name.lower()
