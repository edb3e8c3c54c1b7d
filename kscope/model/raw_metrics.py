"""The profiler's own metrics as a report holds them: every value with its unit and the profiler's description, and what
it took at single instructions. `kscope metrics` shows them; nothing in them is computed by kscope."""

from __future__ import annotations

from msgspec import Struct


class RawMetric(Struct, frozen=True):
    """One metric of one kernel. value: None where the report has the name without a number (not a number, say).
    by_instruction: (byte offset from the kernel's entry, value), empty for what is of the whole kernel only."""

    name: str
    value: float | str | None
    unit: str
    description: str
    by_instruction: tuple[tuple[int, float], ...] = ()


class KernelMetrics(Struct, frozen=True):
    """The metrics of one kernel, by name. id: as in the Analysis; sass: text by offset, where it was asked for;
    counted: how many metrics the report holds of it in all."""

    id: str
    name: str
    metrics: tuple[RawMetric, ...]
    counted: int
    sass: dict[int, str] = {}
