"""What the HTML report and plots show beside the Analysis: per-instruction columns, roofs by memory level, the memory
chart, occupancy steps, PM-sampled series, the rows of a timeline. Computed only when such a report is asked for.

No contract: fields may change with the report. Columns are plain lists, one value an instruction (or bin, or event).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from kscope.model.contract.analysis import Finding
from kscope.model.contract.frozen import Part as Part
from kscope.model.contract.timeline_detail import TimelineDetail


class Level(Part, frozen=True, kw_only=True):
    """One memory level of the roofline: bytes/s that it moved and that it sustains (None where unknown). busy: how full
    its unit was, 0..1, the very figure of `KernelAnalysis.utilization` (None where it was not collected), with its
    title and metric. roof: bytes/s under which the kernel stands: the peak where bytes are what fills the unit, else
    what it would move if it did nothing but this."""

    name: str
    bytes_per_s: float
    peak: float | None = None
    busy: float | None = None
    unit: str = ""
    metric: str = ""
    roof: float | None = None


class Ceiling(Part, frozen=True, kw_only=True):
    """One precision that did work: FLOP/s done and sustained."""

    precision: str
    flops: float
    peak: float


class Roofs(Part, frozen=True, kw_only=True):
    levels: list[Level]
    ceilings: list[Ceiling]


class Node(Part, frozen=True, kw_only=True):
    """A box of the memory chart: hit rate and load in percent where they apply. marks: codes of the findings whose
    instructions go through it; limit: whether it is what the verdict names."""

    id: str
    title: str
    hit_pct: float | None = None
    busy_pct: float | None = None
    note: str = ""
    marks: list[str] = []
    limit: bool = False


class Link(Part, frozen=True, kw_only=True):
    """Traffic between two boxes, in bytes, or what `unit` says. pct: share of the peak of that way in percent (None
    where the report has none); requests: warp-level, where counted; marks as of a box."""

    source: str
    target: str
    value: float
    unit: str = "B"
    note: str = ""
    pct: float | None = None
    requests: float | None = None
    marks: list[str] = []

    def __reduce__(self) -> tuple[Callable[..., Link], tuple[object, ...]]:
        """From another process with the very same default: msgspec leaves defaults out by identity."""
        return _link, tuple(getattr(self, name) for name in self.__struct_fields__)


def _link(*values: Any) -> Link:
    fields = dict(zip(Link.__struct_fields__, values, strict=True))
    return Link(**{**fields, "unit": sys.intern(fields["unit"])})


class MemoryChart(Part, frozen=True, kw_only=True):
    nodes: list[Node]
    links: list[Link]


class Steps(Part, frozen=True, kw_only=True):
    """Warps an SM holds (`warps`) as one resource of the launch varies (`at`): a step function, from NVIDIA's own
    occupancy model in the report. `now` is what the launch uses."""

    resource: str
    unit: str
    now: float
    at: list[int]
    warps: list[int]


class OccupancyDetail(Part, frozen=True, kw_only=True):
    """Warps an SM; `limits` are blocks an SM by resource."""

    maximum: int
    theoretical: int
    achieved: float | None
    warps_per_block: int
    limits: dict[str, int]
    steps: list[Steps] = []


class Series(Part, frozen=True, kw_only=True):
    """A PM-sampled series on the common bins. group: "unit" (percent of peak) or "wait" (share of stalled warps).
    partial: what the same unit's counters say over the whole kernel (percent), where the sampler sees part of it."""

    name: str
    title: str
    group: str
    values: list[float]
    partial: float | None = None


class PmDetail(Part, frozen=True, kw_only=True):
    """PM-sampled series over the kernel, mean over the SMs, `bin_ns` a bin; phases in ns where they were found."""

    bin_ns: float
    sampled_ns: float
    series: list[Series]
    fill_ns: float | None = None
    drain_ns: float | None = None
    bubbles: list[tuple[float, float]] = []


class LoopDetail(Part, frozen=True, kw_only=True):
    """Instructions [first, last] (indices); `parent` a loop number or -1."""

    first: int
    last: int
    depth: int
    parent: int
    size: int


class CodeDetail(Part, frozen=True, kw_only=True):
    """SASS with what the profiler saw at each instruction. Sparse columns are flat pairs: index, value, index, ...

    file: index into `files`, -1 for none. stalls: samples by reason, sparse. blamed: samples that others spend waiting
    for this instruction, sparse. bytes: access width of a lane, sparse. jumps: branch, target, ... (indices).
    traffic: wavefronts at shared memory and sectors at L2 by name, those of a perfect pattern as `..._ideal`, sparse.
    depends: register dependencies, producer, consumer, ... (indices).
    causes: why warps stand at an instruction, and the pcs that the text names.
    inlined: call sites of inlined code, innermost first, as lists [instruction index, file, line, file, line, ...].
    """

    function: str
    pcs: list[int]
    sass: list[str]
    files: list[str]
    file: list[int]
    line: list[int]
    samples: list[int]
    executed: list[int]
    lanes: list[float]
    loop: list[int]
    loops: list[LoopDetail]
    stalls: dict[str, list[int]]
    blamed: list[int]
    bytes: list[int]
    jumps: list[int]
    spaces: dict[str, list[int]] = {}
    live: list[int] = []
    control: list[str] = []
    notes: list[tuple[int, str]] = []
    causes: list[tuple[int, str, list[int]]] = []
    inlined: list[list[int]] = []
    traffic: dict[str, list[int]] = {}
    depends: list[int] = []
    sources: dict[str, str] = {}


class LoopFacts(Part, frozen=True, kw_only=True):
    """A loop with its counts. share: of all samples; rounds: of all warps; trips: rounds each time that it is entered
    (None where the code does not tell); mix: warp instructions a round by pipe, inner loops included; invariant: those
    of them that compute the same in every round; same: their pcs."""

    number: int
    start: int
    end: int
    depth: int
    file: str
    line: int
    share: float
    rounds: float
    trips: float | None
    mix: dict[str, float]
    invariant: dict[str, float]
    same: list[int] = []


class KernelDetail(Part, frozen=True, kw_only=True):
    """The detail of one entry of `Analysis.kernels`, by its id. clocks: Hz while it was measured, by domain. caches:
    what the profiler did to them before ("emptied", "kept"), empty where the report does not say."""

    id: str
    roofs: Roofs | None = None
    memory: MemoryChart | None = None
    occupancy: OccupancyDetail | None = None
    pm: PmDetail | None = None
    code: CodeDetail | None = None
    loops: list[LoopFacts] = []
    clocks: dict[str, float] = {}
    caches: str = ""


class FunctionDetail(Part, frozen=True, kw_only=True):
    """One function of a binary. facts: (name, value) in words, such as ("registers", "32"). summary: (title, lines) of
    what the listing's head says: loops with their bounds, mix, occupancy."""

    name: str
    demangled: str
    facts: list[tuple[str, str]]
    findings: list[Finding]
    code: CodeDetail
    summary: list[tuple[str, list[str]]] = []


class ProgramDetail(Part, frozen=True, kw_only=True):
    """The machine code of one image, without a profile."""

    input: str
    arch: str
    functions: list[FunctionDetail]


class Detail(Part, frozen=True, kw_only=True):
    """Beside an Analysis: details of its kernels and timelines."""

    kernels: list[KernelDetail] = []
    timelines: list[TimelineDetail] = []
    programs: list[ProgramDetail] = []
