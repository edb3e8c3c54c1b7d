"""The one result: `Analysis`, a frozen public view that is JSON v1 field by field (`kscope analyze --schema`).

Every reporter is a function of an Analysis and of nothing else. Fields are only ever added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from kscope.model.programs import AccessRow, InstructionView, LoopView, MixRow, Occupancy
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


class RoleShare(Frozen):
    priming: float
    steady_issued: float
    covered_wait: float
    exposed_wait: float
    drain: float


class Retries(Frozen):
    """Exact counts of try-waits on mbarriers that were not over at the first try."""

    waits_for: Annotated[str, Meta(description="memory: data; role, tensor: a free slot or finished products")]
    failed: float
    made: float


class Role(Frozen):
    """One warp role. `warps` a block; `share` of the role's time, between `low` and `high`."""

    role: str
    warps: float
    share: RoleShare
    low: RoleShare | None = None
    high: RoleShare | None = None
    retries: list[Retries] = []


class Phases(Frozen):
    fill_us: float
    steady_us: float
    drain_us: float
    steady_utilization_pct: Annotated[float, Meta(description="of the unit, mean over the steady phase")]
    bubbles: Annotated[int, Meta(description="drops of the timeline inside the steady phase")]
    unit: str = ""
    plateau_pct: Annotated[float | None, Meta(description="level that the unit holds between bubbles")] = None
    bubble_us: Annotated[float, Meta(description="plateau work that the bubbles cost, all together")] = 0.0
    outside_us: Annotated[float, Meta(description="time of the kernel in which no SM has work")] = 0.0
    uneven_us: Annotated[float, Meta(description="mean time that an SM has left before the last one ends")] = 0.0
    error_us: Annotated[float, Meta(description="by how much fill and drain may be off")] = 0.0
    resolved: Annotated[bool, Meta(description="enough bins to tell the phases apart")] = True
    bin_us: float = 0.0


class Series(Frozen):
    """A PM-sampled timeline, thinned: shares of the unit's peak (0..1) at even distances from the first work on."""

    unit: str
    metric: str
    values: list[float]


class LostTime(Frozen):
    """Why the unit that the kernel is for is not at its plateau: shares of the kernel's time."""

    fill: float
    drain: float
    uneven: Annotated[float, Meta(description="SMs that got less work have left")]
    turnover: Annotated[float, Meta(description="blocks of one tile start a pipeline each")]
    data: Annotated[float, Meta(description="its role waits for data")]
    epilogue: Annotated[float, Meta(description="results are stored")]
    loop: Annotated[float, Meta(description="issue, signals and turns between products")]
    pipe: Annotated[float, Meta(description="products in flight below the attainable rate")]


class Amortisation(Frozen):
    """T(n) = fixed + n t: time and share of the fixed part at a multiple of the present work."""

    work: float
    us: float
    fixed_pct: float


class WarpSpecialization(Frozen):
    roles: list[Role]
    timeline: Phases | None
    tier: Annotated[Literal["A", "B", "C"], Meta(description="A timed samples, B PM timelines, C neither")]
    stages: int | None = None
    stage_bytes: int | None = None
    tiles_per_block: float | None = None
    warps_unaccounted: Annotated[float | None, Meta(description="warps a block in no role; 0 if they add up")] = None
    lost: LostTime | None = None
    amortisation: list[Amortisation] = []
    series: list[Series] = []
    not_advice: Annotated[list[str], Meta(description="what counters suggest and does not count here")] = []


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
    kernels_pct: Annotated[float, Meta(description="of the window, in kernels")]
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
