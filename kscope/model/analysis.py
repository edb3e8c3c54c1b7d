"""The one result: `Analysis`, a frozen public view that is JSON v1 field by field (`kscope analyze --schema`).

Every reporter is a function of an Analysis and of nothing else. Fields are only ever added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from kscope.model.programs import AccessRow, InstructionView, LoopView, MixRow, Occupancy
from kscope.model.specialization import WarpSpecialization
from kscope.model.timeline_figures import (
    CompiledFigures,
    CopyFigures,
    DeviceUse,
    IdleCause,
    LaunchFigures,
    StepFigures,
    TimelineCoverage,
    TopKernel,
)

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "kscope.analysis/1"

Regime = Literal["compute", "memory", "overhead"]
Severity = Literal["critical", "major", "minor", "info"]
Limiter = Literal[
    "dram_bandwidth", "l2_bandwidth", "l1_throughput", "shared_memory", "memory_latency", "atomics",
    "tensor_pipe", "fp32_pipe", "fp64_pipe", "integer_pipe", "special_function", "instruction_issue",
    "dependency_latency", "instruction_fetch", "divergence",
    "launch", "small_grid", "tail", "imbalance", "barrier", "pipeline_fill", "host", "synchronization", "transfer",
]  # fmt: skip


class Frozen(Struct, frozen=True, kw_only=True):
    """Base of the public view: immutable, keyword-only."""


class Input(Frozen):
    path: str
    kind: Literal["ncu", "nsys", "kineto", "cubin"]
    tool_version: str | None = None


class DeviceInfo(Frozen):
    name: str
    cc: Annotated[str, Meta(description="compute capability, e.g. 9.0")]
    sms: int


class LaunchInfo(Frozen):
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    registers: Annotated[int, Meta(description="registers a thread")]
    shared_static: Annotated[int, Meta(description="bytes a block")]
    shared_dynamic: Annotated[int, Meta(description="bytes a block")]
    waves: float | None


class Verdict(Frozen):
    regime: Regime
    limiter: Limiter
    confidence: Annotated[float, Meta(ge=0, le=1)]
    sentence: str


class Headroom(Frozen):
    speedup_bound: Annotated[float, Meta(description="largest speed-up that the roofline allows, 1.0 = at the roof")]
    bounded_by: str


class Roofline(Frozen):
    flops_per_s: float
    bytes_per_s: float
    intensity: Annotated[float | None, Meta(description="FLOP a byte of device memory; null where no byte moved")]
    ridge: Annotated[float | None, Meta(description="FLOP a byte where the two roofs meet")]
    pct_of_roof: float
    precision: str
    peak_flops_per_s: float | None = None
    peak_bytes_per_s: float | None = None


class Stall(Frozen):
    reason: str
    share_raw: Annotated[float, Meta(ge=0, le=1)]
    share_adjusted: Annotated[float, Meta(ge=0, le=1)]
    low: float
    high: float


class Utilization(Frozen):
    """How busy one unit is: percent of its peak over the whole kernel."""

    unit: str
    pct: float
    metric: str


class Estimate(Frozen):
    """Speed-up of the kernel if only this were fixed. Estimates of several findings are never added."""

    speedup: float
    low: float
    high: float
    capped_by: str
    kind: Literal["measured", "modelled"]


class Evidence(Frozen):
    metric: str
    value: float | str | None
    unit: str = ""
    note: str = ""


class Location(Frozen):
    function: str
    pc: Annotated[int, Meta(description="byte offset from the kernel's entry")]
    opcode: str
    file: str | None = None
    line: int | None = None
    share: Annotated[float | None, Meta(description="share of the kernel's stall samples, 0..1")] = None
    sass: str | None = None
    source: str | None = None


class Finding(Frozen):
    rule: str
    code: str
    title: str
    regime: Regime
    severity: Severity = "info"
    estimate: Estimate | None = None
    evidence: list[Evidence] = []
    locations: list[Location] = []
    why: str = ""
    fix: str = ""
    confidence: Annotated[float, Meta(ge=0, le=1)] = 0.5
    overlaps: Annotated[list[str], Meta(description="codes of findings that explain the same samples")] = []


class NotApplicable(Frozen):
    code: str
    why: str


class RuleError(Frozen):
    code: str
    message: str


class NvidiaFinding(Frozen):
    rule: str
    title: str
    message: str
    speedup_pct: float | None
    type: Literal["global", "local", ""]


class HotInstruction(Frozen):
    """One of the instructions where the samples fall, for reporters: sass text, source line, main stall."""

    pc: int
    sass: str
    share: float
    stall: str
    file: str | None = None
    line: int | None = None
    source: str | None = None


class Repeats(Frozen):
    """Identical launches folded into one entry: how many, and how their times spread."""

    count: int
    min_us: float
    median_us: float
    max_us: float
    total_us: float


class KernelAnalysis(Frozen):
    id: str
    name: str
    demangled: str
    input: str
    duration_us: float | None
    device: DeviceInfo
    launch: LaunchInfo
    verdict: Verdict
    headroom: Headroom | None = None
    roofline: Roofline | None = None
    utilization: list[Utilization] = []
    stalls: list[Stall] = []
    warp_specialization: WarpSpecialization | None = None
    findings: list[Finding] = []
    passed: list[str] = []
    not_applicable: list[NotApplicable] = []
    errors: list[RuleError] = []
    nvidia: list[NvidiaFinding] = []
    nvtx: list[str] = []
    hot: list[HotInstruction] = []
    repeats: Repeats | None = None
    notes: list[str] = []
    workload: str = "kernel"


class TimelineAnalysis(Frozen):
    """The diagnosis of one recording of a program. `verdict` is null where `abstained` says why."""

    input: str
    window: str
    span_us: float
    gpu_busy_pct: Annotated[float, Meta(description="of the window, any GPU operation, mean over the devices")]
    verdict: Verdict | None
    coverage: TimelineCoverage
    abstained: str = ""
    idle: list[IdleCause] = []
    findings: list[Finding] = []
    top_kernels: list[TopKernel] = []
    devices: list[DeviceUse] = []
    steps: StepFigures | None = None
    launches: LaunchFigures | None = None
    copies: list[CopyFigures] = []
    passed: list[str] = []
    not_applicable: list[NotApplicable] = []
    errors: list[RuleError] = []
    compiled: CompiledFigures | None = None
    kernels_pct: Annotated[float, Meta(description="of the window less the profiler's part, in kernels")] = 0.0


class JoinedKernel(Frozen):
    """A kernel of a timeline with what its counters say. kernel: id of the entry in `kernels`, null where none has the
    same name, grid and block; `why` says what is missing then."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    count: int
    total_us: float
    share: Annotated[float, Meta(ge=0, le=1, description="of the time of all kernels in the window")]
    kernel: str | None = None
    regime: Regime | None = None
    limiter: Limiter | None = None
    headroom: float | None = None
    why: str = ""


class RegimeShare(Frozen):
    """Share of the kernels' time that is bound by one limiter; null for kernels without counters."""

    regime: Regime | None
    limiter: Limiter | None
    share: float


class JoinedSuggestion(Frozen):
    """A finding of the timeline (kernel null) or of its kernels; its gain is the whole program's, by Amdahl's law."""

    rule: str
    code: str
    title: str
    kernel: str | None
    share: Annotated[float | None, Meta(description="of the kernel in the window, 0..1")]
    severity: Severity
    estimate: Annotated[Estimate, Meta(description="speed-up of the program over the window")]
    busy_speedup: Annotated[float | None, Meta(description="speed-up of the kernels' time alone")] = None
    kernel_speedup: float | None = None
    why: str = ""
    fix: str = ""
    confidence: Annotated[float, Meta(ge=0, le=1)] = 0.5


class JoinedAnalysis(Frozen):
    """One verdict for a program from its timeline and its kernel reports."""

    input: str
    reports: list[str]
    verdict: Verdict | None
    span_us: float
    kernels_pct: Annotated[float, Meta(description="of the window less the profiler's part, in kernels")]
    matched_pct: Annotated[float, Meta(description="of the kernels' time, with counters")]
    abstained: str = ""
    regimes: list[RegimeShare] = []
    kernels: list[JoinedKernel] = []
    suggestions: list[JoinedSuggestion] = []
    unused: Annotated[list[str], Meta(description="kernels of the reports that the timeline does not have")] = []


class FunctionAnalysis(Frozen):
    """One function of a binary, or one kernel of a report (`kernel` is then its launch, described in `launch`).

    Bytes for stack (of a thread) and shared (static, of a block); null where the image does not say. `listing` is the
    annotated listing (--annotate), `samples` the profile's warp samples.
    """

    name: str
    demangled: str
    registers: int | None
    stack: int | None
    shared: int | None
    spill_stores: Annotated[int | None, Meta(description="instructions")]
    spill_loads: Annotated[int | None, Meta(description="instructions")]
    instructions: int
    loops: list[LoopView] = []
    findings: list[Finding] = []
    passed: list[str] = []
    not_applicable: list[NotApplicable] = []
    errors: list[RuleError] = []
    entry: bool = True
    mix: list[MixRow] = []
    accesses: list[AccessRow] = []
    occupancy: Occupancy | None = None
    listing: list[InstructionView] = []
    kernel: str = ""
    launch: str = ""
    duration_us: float | None = None
    samples: int | None = None
    sources: Annotated[dict[str, dict[int, str]], Meta(description="source lines by file and line, where asked")] = {}
    notes: list[str] = []


class ProgramAnalysis(Frozen):
    """One device code image: a cubin, a member of a fatbin, or the kernels of a report."""

    input: str
    arch: str
    functions: list[FunctionAnalysis] = []
    member: str = ""
    toolkit: str | None = None


class SkippedInput(Frozen):
    """Something in the input that could not be read, while the rest could."""

    input: str
    what: str
    message: str


class Analysis(Frozen, kw_only=True):
    schema: str = SCHEMA
    kscope: str
    inputs: list[Input] = []
    kernels: list[KernelAnalysis] = []
    timelines: list[TimelineAnalysis] = []
    joined: list[JoinedAnalysis] = []
    programs: list[ProgramAnalysis] = []
    skipped: list[SkippedInput] = []

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from kscope.reports.notebook import repr_html

        return repr_html(self)

    def to_dataframe(self) -> pd.DataFrame:
        """One row a kernel, longest first (kscope.reports.notebook.COLUMNS). Needs pandas."""
        from kscope.reports.notebook import to_dataframe

        return to_dataframe(self)


def to_json(analysis: Analysis) -> bytes:
    """JSON v1 of an Analysis. Non-finite numbers become null: JSON has none."""
    return msgspec.json.encode(analysis)


def from_json(data: bytes | str) -> Analysis:
    """Read JSON v1 back; unknown fields (of a later kscope) are ignored. Raises msgspec.ValidationError."""
    return msgspec.json.decode(data, type=Analysis)


def json_schema() -> dict[str, object]:
    """The published JSON Schema (2020-12) of `kscope analyze --format json`, of what JSON has: lists, no tuples."""
    schema: dict[str, object] = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(Analysis)))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": SCHEMA, **schema}
