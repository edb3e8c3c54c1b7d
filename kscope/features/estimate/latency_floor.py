"""The latency floor: how long the launch takes if no unit were ever busy, at its present shape.

One warp alone needs `cycles` from its first to its last instruction (kscope.features.sass.warp_simulation simulates it
in order with unloaded latencies). A device that holds R warps at once needs warps / R such passes, however wide its
units are. Little's law in the form that counts: more warps in flight, more loads in flight a warp, or less work on the
path. """

from __future__ import annotations

from msgspec import Struct

from kscope.arch import table
from kscope.features.counters.launch import Geometry
from kscope.features.counters.traffic import Traffic
from kscope.features.profile.code import Code
from kscope.features.sass.warp_simulation import Walk, unloaded_cycles


class LatencyPath(Struct, frozen=True):
    """cycles of one warp; share: of the kernel's measured cycles that the floor explains (may pass 1 when
    the estimate of a latency is too long); walk: where on the path the cycles go."""

    cycles: float
    share: float
    walk: Walk


def latency_path(
    code: Code, launch: Geometry, traffic: Traffic, gone: frozenset[int] = frozenset()
) -> LatencyPath | None:
    """None without execution counts or elapsed cycles. `gone`: instructions to leave out."""
    if not any(code.executed) or not launch.cycles or not launch.warps:
        return None
    latency = table("latency")
    chip = latency.get(f"sm_{code.program.sm}", latency["default"])
    l1, l2 = traffic.l1_hit or 0.0, traffic.l2_hit if traffic.l2_hit is not None else 0.5
    loaded = l1 * chip["l1"] + (1 - l1) * (l2 * chip["l2"] + (1 - l2) * chip["dram"])

    def latency_of(index: int) -> float:
        op = code.classes[index]
        if op.scoreboard == "long":
            return float(chip["l2"] if op.access in ("atomic", "reduction") else loaded)
        return float(op.latency)

    walk = unloaded_cycles(code.program, code.cfg, code.executed, launch.warps, latency_of, code.classes, gone)
    passes = max(1.0, launch.waves)
    return LatencyPath(walk.cycles, passes * walk.cycles / launch.cycles, walk)
