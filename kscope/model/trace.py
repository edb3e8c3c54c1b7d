"""`KernelTrace`: what the warps of one kernel launch recorded of themselves, as one table of spans. Plain values, no
I/O; the same for kscope_trace.cuh and for other recorders."""

from __future__ import annotations

from math import isfinite

from msgspec import Struct

WAIT, WORK, EPILOGUE, SPIN, ISSUE, OTHER = "wait", "work", "epilogue", "spin", "issue", ""
KINDS = (WAIT, WORK, EPILOGUE, SPIN, ISSUE, OTHER)
UNITS = ("tensor", "memory", "role", "barrier", "")


class Scope(Struct, frozen=True):
    """A kind of span. kind: one of KINDS. on: the unit that ends the wait or does the issued work, one of UNITS.
    cycles: SM cycles for which one issue keeps that unit busy at its full rate; 0 where nobody said."""

    name: str
    kind: str = OTHER
    on: str = ""
    cycles: int = 0


class TraceWarp(Struct, frozen=True):
    """One warp (or what the recorder took for one). begin, end: ns from the origin of the trace. written: records it
    made; kept: of those, how many the file holds."""

    role: str
    sm: int
    block: int
    warp: int
    begin: float
    end: float
    written: int
    kept: int


class KernelTrace(Struct, frozen=True):
    """Columns of equal length, one row a span, by warp and then by begin; outer spans before inner ones.

    warp: index into `warps`; scope: index into `scopes`; begin, end: ns from the earliest warp (equal for marks);
    payload: the user's number. source: "kscope" or "proton". blocks: of the grid, of which every stride-th was
    recorded; 0 where unknown. clock_ghz: SM clock during the launch, None where times were recorded in ns.
    """

    source: str
    kernel: str
    device: str
    sms: int
    blocks: int
    stride: int
    clock_ghz: float | None
    notes: dict[str, str]
    scopes: tuple[Scope, ...]
    warps: tuple[TraceWarp, ...]
    warp: list[int]
    scope: list[int]
    begin: list[float]
    end: list[float]
    payload: list[int]
    unmatched: int = 0
    """Begins without an end, and ends without a begin: records that the ring had overwritten, or a mistake in the
    marks."""

    def __post_init__(self) -> None:
        """Raises ValueError where the columns differ in length, or a time is no finite number."""
        lengths = {len(c) for c in (self.warp, self.scope, self.begin, self.end, self.payload)}
        if len(lengths) > 1:
            raise ValueError(f"columns of one trace differ in length: {sorted(lengths)}")
        if not all(map(isfinite, (*self.begin, *self.end))):
            raise ValueError("a time that is no finite number")

    def __len__(self) -> int:
        return len(self.warp)

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the roles, in order of first appearance."""
        return tuple(dict.fromkeys(w.role for w in self.warps))

    @property
    def lost(self) -> int:
        """Records that rings overwrote."""
        return sum(w.written - w.kept for w in self.warps)

    @property
    def span_us(self) -> float:
        """From the first warp's begin to the last one's end."""
        return (max(w.end for w in self.warps) - min(w.begin for w in self.warps)) / 1e3
