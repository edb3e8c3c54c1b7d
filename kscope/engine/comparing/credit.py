"""Which findings that the new version no longer has were repaired, and which merely stopped firing.

A rule also falls silent where another limit hides its gain, or the kernel is faster for another reason. A finding is
credited with the measured time only where its own evidence went: what it counted, or else the samples of its
instructions.
"""

from __future__ import annotations

from collections.abc import Callable

from kscope.features.views.footprint import IDEAL, Footprint
from kscope.model.contract.analysis import Finding, KernelAnalysis

WENT = 0.5
"""Evidence that is at most this part of what it was has gone. Judged: a repair takes nearly all of what it is for, and
what varies from run to run or with the size of a tile stays far from one half."""
LESS = 0.8
"""Samples went only where their share fell to this part too: in a kernel that is faster for another reason all times
fall and the shares stay. Judged."""

_BEST: dict[str, float] = {
    "smsp__thread_inst_executed_per_inst_executed.ratio": 32.0,  # lanes of a warp
}
"""Metrics that are better the larger, and their best: the evidence is what lacks."""
_STALLS = {
    "LAT302": ("long_scoreboard",), "LAT303": ("wait",), "LAT304": ("barrier",), "LAT306": ("no_instruction",),
    "LAT308": ("membar",),
}  # fmt: skip
"""Rules whose evidence is a kind of waiting."""

Sides = tuple[KernelAnalysis, KernelAnalysis, "Footprint | None", "Footprint | None"]


def went(finding: Finding, sides: Sides) -> bool:
    """Whether the evidence of a finding of the old version is gone in the new one. False where it cannot be told."""
    special = _SPECIAL.get(finding.code)
    if special is not None:
        return special(finding, sides)
    if finding.code in _STALLS:
        return _waits(_STALLS[finding.code], sides)
    counted = _counted(finding, sides)
    return _samples(finding, sides) if counted is None else counted


def _counted(finding: Finding, sides: Sides) -> bool | None:
    """By the first figure of the evidence that both versions counted; None where there is none."""
    _, _, old, new = sides
    if old is None or new is None:
        return None
    for item in finding.evidence:
        if item.metric in old.metrics and item.metric in new.metrics and "pct" not in item.metric:
            return _fell(item.metric, old, new)
        if item.unit == "inst" and finding.locations:
            opcodes = {place.opcode.split(".")[0] for place in finding.locations}
            was, now = (sum(side.executed.get(o, 0.0) for o in opcodes) for side in (old, new))
            if was > 0:
                return now <= WENT * was
    return None


def _fell(metric: str, old: Footprint, new: Footprint) -> bool:
    was, now = old.metrics[metric], new.metrics[metric]
    if (best := _BEST.get(metric)) is not None:
        return best - now <= WENT * (best - was)
    was, now = was - old.metrics.get(metric + IDEAL, 0.0), now - new.metrics.get(metric + IDEAL, 0.0)
    return was > 0 and now <= WENT * was


def _samples(finding: Finding, sides: Sides) -> bool:
    """By the time that warps spend at, or waiting for, instructions of the finding's kinds."""
    before, after, old, new = sides
    opcodes = {place.opcode.split(".")[0] for place in finding.locations}
    if old is None or new is None or not opcodes:
        return False
    was, now = (sum(side.samples.get(o, 0.0) for o in opcodes) for side in (old, new))
    return _less(was, now, before, after)


def _waits(reasons: tuple[str, ...], sides: Sides) -> bool:
    before, after, _, _ = sides
    was, now = (sum(s.share_raw for s in k.stalls if s.reason in reasons) for k in (before, after))
    return _less(was, now, before, after)


def _less(was: float, now: float, before: KernelAnalysis, after: KernelAnalysis) -> bool:
    """Whether shares of the time, and the time itself, went."""
    old, new = before.duration_us or 0.0, after.duration_us or 0.0
    return was > 0 and old > 0 and new > 0 and now <= LESS * was and now * new <= WENT * was * old


def _changed(*metrics: str) -> Callable[[Finding, Sides], bool]:
    """Of a finding about the launch: one of these figures is another one by a quarter."""

    def check(finding: Finding, sides: Sides) -> bool:
        figures = [_launch(kernel) for kernel in sides[:2]]
        return any(abs(a - b) > 0.25 * max(a, b) for a, b in ((figures[0][m], figures[1][m]) for m in metrics))

    return check


def _launch(kernel: KernelAnalysis) -> dict[str, float]:
    grid, block = kernel.launch.grid, kernel.launch.block
    blocks, threads = grid[0] * grid[1] * grid[2], block[0] * block[1] * block[2]
    return {
        "blocks": blocks, "threads": threads, "waves": kernel.launch.waves or 0.0, "all": blocks * threads,
        "lanes": -(-threads // 32) * 32 / max(threads, 1),
    }  # fmt: skip


def _demand(finding: Finding, sides: Sides) -> bool:
    """Of a full unit: what it had to do (its utilisation times the time) fell by half of what the finding promised at
    least."""
    before, after, old, new = sides
    metric = next((e.metric for e in finding.evidence if "pct" in e.metric), "")
    if old is None or new is None or metric not in old.metrics or metric not in new.metrics:
        return False
    was, now = old.metrics[metric] * (before.duration_us or 0.0), new.metrics[metric] * (after.duration_us or 0.0)
    low = finding.estimate.low if finding.estimate is not None else 1.0
    return was > 0 and now <= was * (1 - (1 - 1 / max(low, 1.0)) / 2) and now < was * 0.98


def _bytes(finding: Finding, sides: Sides) -> bool:
    """Of device-memory traffic: bytes that went, again by half of the promise."""
    before, after, _, _ = sides
    was, now = (k.roofline.bytes_per_s * (k.duration_us or 0.0) if k.roofline else 0.0 for k in (before, after))
    low = finding.estimate.low if finding.estimate is not None else 1.0
    return was > 0 and now <= was * (1 - (1 - 1 / max(low, 1.0)) / 2) and now < was * 0.98


def _tail(finding: Finding, sides: Sides) -> bool:
    return _changed("waves", "blocks")(finding, sides) or _balance(finding, sides)


def _warps(finding: Finding, sides: Sides) -> bool:
    """Of low occupancy: the SMs hold a quarter more warps than before."""
    metric = "sm__warps_active.avg.pct_of_peak_sustained_active"
    figures = [side.metrics.get(metric) for side in sides[2:] if side is not None]
    return len(figures) == 2 and None not in figures and (figures[1] or 0.0) >= 1.25 * (figures[0] or 0.0)


def _balance(finding: Finding, sides: Sides) -> bool:
    """Of blocks that are dealt unevenly: how far the busiest SM is over the mean."""
    _, _, old, new = sides
    if old is None or new is None:
        return False
    figures = []
    for side in (old, new):
        most, mean = side.metrics.get("sm__cycles_active.max"), side.metrics.get("sm__cycles_active.avg")
        if most is None or not mean:
            return False
        figures.append(most / mean - 1)
    return figures[1] <= WENT * figures[0]


_SPECIAL: dict[str, Callable[[Finding, Sides], bool]] = {
    "CMP208": _demand, "MEM106": _bytes, "MEM107": _bytes,
    "GRD401": _changed("blocks"), "GRD402": _tail, "GRD403": _balance,
    "GRD404": _changed("threads"), "GRD405": _changed("all", "threads"), "OVH606": _changed("all"),
    "LAT301": _warps,
}  # fmt: skip
