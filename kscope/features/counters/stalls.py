"""What warps wait for: the mix over the kernel, from exact counters where collected, else from the samples.

Reasons carry the names of the sampled family (`no_instructions`, `warpgroup_arrive`); the counter family spells two
of them differently (`no_instruction`, `gmma`), which is folded here. Source: NVIDIA Kernel Profiling Guide, warp
stall reasons; spelling checked in reports of 2025.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.model.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

COUNTER = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
SAMPLED = "smsp__pcsamp_warps_issue_stalled_"
SPELLING = {"no_instruction": "no_instructions", "gmma": "warpgroup_arrive"}
REASONS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard",
    "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "selected",
    "short_scoreboard", "sleeping", "tex_throttle", "wait", "gmma",
)  # fmt: skip
RUNNING = ("selected", "not_selected")
"""States in which a warp could issue: not waiting for anything but its turn."""


class StallMix(Struct, frozen=True):
    """share[reason] of warp time (0..1, sums to 1 with `selected` and `not_selected`); `samples` of the sampler
    (0 if none); `exact` where the shares come from counters; latency: cycles between two issues of one warp."""

    share: Mapping[str, float]
    samples: int
    exact: bool
    latency: float | None

    def of(self, *reasons: str) -> float:
        return sum(self.share.get(r, 0.0) for r in reasons)

    def waiting(self) -> list[tuple[str, float]]:
        """Reasons a warp waits for, largest first."""
        rows = [(r, s) for r, s in self.share.items() if r not in RUNNING and s > 0]
        return sorted(rows, key=lambda row: -row[1])


def stall_mix(kernel: Kernel) -> StallMix:
    metrics = kernel.metrics
    counted = {SPELLING.get(r, r): metrics.get(COUNTER.format(r)) or 0.0 for r in REASONS}
    columns = kernel.counters.by_name if kernel.counters is not None else {}
    sampled = {n.removeprefix(SAMPLED): sum(c) for n, c in columns.items() if n.startswith(SAMPLED)}
    samples = int(sum(sampled.values()))
    exact = sum(counted.values()) > 0
    source = counted if exact else sampled
    total = sum(source.values())
    share = {r: v / total for r, v in source.items() if v > 0} if total else {}
    return StallMix(share, samples, exact, metrics.get("smsp__average_warp_latency_per_inst_issued.ratio"))
