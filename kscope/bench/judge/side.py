"""One side of a comparison while it is timed, and for how long to look."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from kscope.bench.judge.hold import Ran
from kscope.bench.judge.seat import Seat
from kscope.bench.values.result import Finding, Timing


class Plan(Struct, frozen=True):
    """How long to look. batch_s: of one round of one side; budget_s: for one shape; cache_bytes: of the largest cache;
    most_bytes: for rotating buffers."""

    batch_s: float = 0.02
    budget_s: float = 4.0
    rounds: int = 40
    fewest: int = 8
    cache_bytes: int = 64 << 20
    most_bytes: int = 1 << 30
    most_slots: int = 4096
    checks: int = 3
    precise: float = 0.004
    generations: int = 3


class Timed(Struct):
    """A timing and what was seen meanwhile. rms: errors of outputs of timed calls, over what rounding explains."""

    timing: Timing
    findings: list[Finding]
    wrong: str = ""
    rms: float = 0.0
    notes: list[str] = []
    stale: bool = False


class Side(Struct):
    """One seat while it is timed."""

    seat: Seat
    slots: int = 1
    calls: int = 1
    most: int = 1
    at: int = 0
    order: list[int] = []
    mode: str = "called"
    us: list[float] = []
    waits: list[float] = []
    graph: int = 0
    repeat: int = 1

    def turn(self) -> None:
        """The next calls: every slot in turn, beginning where the batch before ended."""
        self.order = [(self.at + i) % self.slots for i in range(self.calls)]
        if self.mode != "graph":
            self.at = (self.at + self.calls) % self.slots

    def batch(self, keep: list[int], **more: object) -> Ran:
        extra: dict[str, Any] = (
            {"mode": "graph", "graph": f"{self.graph}", "keep": sorted({0, len(self.order) - 1}), "repeat": self.repeat}
            if self.mode == "graph"
            else {}
        )
        if self.seat.task.changes:
            extra["restore"] = True  # a call changes its input: each slot once, and put back before
        return self.seat.run(self.order, **{"keep": keep, **extra, "prime": self.order[:2], "phase": "timed", **more})
