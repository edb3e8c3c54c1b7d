"""One profiled launch, as read from a report: names, launch, device, metrics, per-instruction counters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from kscope.model.units import unit_of

if TYPE_CHECKING:
    import numpy as np

    from kscope.model.program import Program


class Metrics(Mapping[str, float]):
    """Whole-kernel metrics by name. Indexing gives numbers; `text` and `unit` give the rest.

    A metric that is absent, not a number (NaN) or text reads as None through `get`, never as zero: a rule must be
    able to tell "none" from "not collected".
    """

    def __init__(self, numbers: dict[str, float], texts: dict[str, str]) -> None:
        self._numbers, self._texts = numbers, texts

    def __getitem__(self, name: str) -> float:
        return self._numbers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def text(self, name: str) -> str | None:
        return self._texts.get(name)

    def unit(self, name: str) -> str:
        return unit_of(name)

    def first(self, *names: str) -> float | None:
        """The first of several names that was collected: metric names differ between chips and versions."""
        for name in names:
            value = self._numbers.get(name)
            if value is not None:
                return value
        return None

    def total(self, *names: str) -> float:
        """Sum over the names that were collected; absent ones count as zero."""
        return sum(self._numbers.get(n, 0.0) for n in names)


class Device(Struct, frozen=True):
    """The GPU of the capture, from the report's own device attributes."""

    name: str
    cc: tuple[int, int]
    sms: int
    attributes: Mapping[str, float] = field(default_factory=dict)

    @property
    def sm(self) -> int:
        """Compute capability as one number: 90 for sm_90."""
        return self.cc[0] * 10 + self.cc[1]


class Launch(Struct, frozen=True):
    """Launch geometry. Shared memory in bytes a block; waves = blocks over what the device holds at once. known:
    whether the report tells grid and block at all; they are 1 where it does not. carved: bytes of an SM that were set
    aside as shared memory, the rest being L1; None where the report does not say."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    registers: int
    shared_static: int
    shared_dynamic: int
    waves: float | None
    known: bool = True
    carved: int | None = None

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Warps a block (32 threads each, the last one possibly partial)."""
        return -(-self.threads // 32)


class NvidiaTable(Struct, frozen=True):
    """A table of a rule's result: cells as text, a list a row."""

    title: str
    headers: list[str]
    rows: list[list[str]]


class NvidiaRule(Struct, frozen=True):
    """A finding of Nsight Compute's own rules, kept beside ours."""

    rule: str
    title: str
    message: str
    speedup_pct: float | None
    kind: str  # "global" | "local" | ""
    tables: tuple[NvidiaTable, ...] = ()


class Counters(Struct, frozen=True):
    """Per-instruction counters: `offsets` are byte offsets from the kernel's entry (ascending), `by_name[name]` has
    one value for each. A counter that the report has no instance of is absent, not zero.

    kscope computes with the lists; `pcs`, `columns` and `get` are the same as numpy arrays, made (and numpy imported)
    when asked for.
    """

    offsets: Sequence[int]
    by_name: Mapping[str, Sequence[float]]

    def __post_init__(self) -> None:
        """Raises ValueError where a counter has not one value for each offset."""
        for name, values in self.by_name.items():
            if len(values) != len(self.offsets):
                raise ValueError(f"{len(values)} values of {name} at {len(self.offsets)} instructions")

    @property
    def pcs(self) -> np.ndarray[Any, Any]:
        import numpy as np

        return np.array(self.offsets, dtype=np.int64)

    @property
    def columns(self) -> Mapping[str, np.ndarray[Any, Any]]:
        return _arrays(self.by_name, "float64")

    def get(self, name: str) -> np.ndarray[Any, Any] | None:
        return _arrays({name: self.by_name[name]}, "float64")[name] if name in self.by_name else None


class Timelines(Struct, frozen=True):
    """PM-sampled series on one clock: times in ns from the start of the workload and values, a sequence a metric.
    `t_ns` and `values` are the same as numpy arrays, made when asked for."""

    times: Mapping[str, Sequence[int]]
    by_name: Mapping[str, Sequence[float]]

    @property
    def t_ns(self) -> Mapping[str, np.ndarray[Any, Any]]:
        return _arrays(self.times, "int64")

    @property
    def values(self) -> Mapping[str, np.ndarray[Any, Any]]:
        return _arrays(self.by_name, "float64")


class TimedSamples(Struct, frozen=True):
    """Warp samples with time stamps: ns from the first sample (ascending), byte offset of the instruction from the
    kernel's entry, and what the warp waited for, a value each a sample."""

    times: Sequence[int]
    offsets: Sequence[int]
    reasons: Sequence[str]


class Charts(Struct, frozen=True):
    """What only charts show, of reports read for them. occupancy[resource]: values of the resource, and the warps an SM
    holds from each of them on. series[metric]: PM-sampled, ns from its own first sample, and values."""

    occupancy: Mapping[str, tuple[Sequence[int], Sequence[float]]]
    series: Mapping[str, tuple[Sequence[int], Sequence[float]]]


def _arrays(columns: Mapping[str, Sequence[float]], dtype: str) -> dict[str, np.ndarray[Any, Any]]:
    import numpy as np

    return {name: np.array(values, dtype=dtype) for name, values in columns.items()}


def source_lines(text: str) -> list[str]:
    """Lines as compilers count them: form feeds end none."""
    lines = re.split(r"\r\n|\n|\r", text)
    return lines if lines[-1] else lines[:-1]


class Kernel(Struct, frozen=True):
    """One profiled launch. `program`, `counters`, `sources` and `timelines` are empty or None where the report
    was collected without them; `notes` says what could not be read and why."""

    index: int
    name: str
    demangled: str
    mangled: str
    workload: str  # "kernel" | "graph" | "range" | "cmdlist" | "subgrid"
    path: str
    device: Device
    launch: Launch
    metrics: Metrics
    counters: Counters | None = None
    opcodes: Mapping[str, float] = field(default_factory=dict)
    program: Program | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    timelines: Timelines | None = None
    timed: TimedSamples | None = None
    charts: Charts | None = None
    nvtx: tuple[str, ...] = ()
    nvidia: tuple[NvidiaRule, ...] = ()
    sections: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tool_version: str | None = None
    recorded: Mapping[str, str] = field(default_factory=dict)
    """Options of the `ncu` that wrote the report (kscope.parsers.files.ncu_command); empty where it does not say."""

    @property
    def tile(self) -> bool:
        """Whether it is a tile program (cuTile): its author wrote tiles, and the compiler made threads of them."""
        return (self.metrics.text("launch__execution_model") or "").lower() == "tile"

    @property
    def duration_ns(self) -> float | None:
        return self.metrics.get("gpu__time_duration.sum")
