"""The one result: `Analysis`, a frozen public view that is JSON v1 field by field (`kscope analyze --schema`).

Every reporter is a function of an Analysis and of nothing else. Fields are only ever added. What its parts share is in
`findings`, the join of a timeline with kernel reports in `joined`; whoever uses the view imports it from here.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kscope import _presenters
from kscope.model.contract import short
from kscope.model.contract.bounded import Bounded
from kscope.model.contract.findings import (
    Estimate,
    Evidence,
    Finding,
    Frozen,
    Limiter,
    Location,
    NotApplicable,
    NvidiaFinding,
    Regime,
    Remedy,
    RuleError,
    Severity,
    Told,
    Verdict,
)
from kscope.model.contract.fixes import Condition, Edit, Fix, Proof
from kscope.model.contract.job import CommunicationFigures, JobAnalysis, LateCollective, RankFigures, TimeShare
from kscope.model.contract.joined import JoinedAnalysis, JoinedKernel, JoinedSuggestion, RegimeShare
from kscope.model.contract.next_step import NextStep
from kscope.model.contract.problem import ProblemFit
from kscope.model.contract.programs import AccessRow, InstructionView, LoopView, MixRow, Occupancy
from kscope.model.contract.specialization import WarpSpecialization
from kscope.model.contract.timeline_analysis import TimelineAnalysis

__all__ = [
    "SCHEMA", "Analysis", "Bounded", "CommunicationFigures", "Condition", "DeviceInfo", "Edit", "Estimate", "Evidence",
    "Finding", "Fix", "Frozen", "FunctionAnalysis", "Headroom", "HotInstruction", "Input", "JobAnalysis",
    "JoinedAnalysis", "JoinedKernel", "JoinedSuggestion", "KernelAnalysis", "LateCollective", "LaunchInfo",
    "LibraryKernel", "Limiter", "Location", "NextStep", "NotApplicable", "NvidiaFinding", "ProblemFit",
    "ProgramAnalysis", "Proof", "RankFigures", "Regime", "RegimeShare", "Remedy", "Repeats", "Roofline", "RuleError",
    "Severity", "SkippedInput", "Stall", "TimeShare", "TimelineAnalysis", "Told", "Utilization", "Verdict",
    "from_json", "json_schema", "to_json",
]  # fmt: skip

SCHEMA = "kscope.analysis/1"


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
    known: Annotated[bool, Meta(description="false where grid or block were not collected: 1 then")] = True


class Headroom(Frozen):
    speedup_bound: Annotated[float, Meta(description="largest speed-up that the roofline allows, 1.0 = at the roof")]
    bounded_by: str


class Roofline(Frozen):
    flops_per_s: Annotated[float | None, Meta(description="null where operations were not counted")]
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


class HotInstruction(Frozen):
    """One of the instructions where the samples fall, for reporters: sass text, source line, main stall, and in words
    whose fault the waiting is (`cause`, empty where nobody is to blame), with the instructions that it names."""

    pc: int
    sass: str
    share: float
    stall: str
    file: str | None = None
    line: int | None = None
    source: str | None = None
    cause: str = ""
    cause_pcs: Annotated[list[int], Meta(description="the instructions that `cause` names, by their pcs")] = []


class Repeats(Frozen):
    """Identical launches folded into one entry: how many, and how their times spread."""

    count: int
    min_us: float
    median_us: float
    max_us: float
    total_us: float


class LibraryKernel(Frozen):
    """A kernel that a library brought, by its name."""

    library: str
    scheme: Annotated[str, Meta(description="which of the library's ways to name kernels")]
    says: Annotated[dict[str, str], Meta(description="what the name says: m, n, k, stages, cluster, layout, ...")]
    change: Annotated[str, Meta(description="what a caller can change")]
    tensor: Annotated[str, Meta(description="how a caller gets tensor cores for FP32; empty where not known")] = ""


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
    problem: ProblemFit | UnsetType = UNSET  # only where one was named
    next_step: NextStep | None = msgspec.field(default=None, name="next")
    library: LibraryKernel | None = None

    def __repr__(self) -> str:
        return short.of_kernel(self)


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
    bounded: Bounded | UnsetType = UNSET  # only where a time and a launch were given


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
    jobs: Annotated[list[JobAnalysis], Meta(description="recordings that are ranks of one program")] = []
    programs: list[ProgramAnalysis] = []
    skipped: list[SkippedInput] = []

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        shown: str = _presenters.present("repr_html", self)
        return shown

    def to_dataframe(self, table: Literal["kernels", "findings", "evidence"] = "kernels",
                     engine: Literal["pandas", "polars"] = "pandas") -> Any:  # fmt: skip
        """A table as a data frame of pandas or polars: one row a kernel, longest first, a finding, or a figure of its
        evidence. Names of columns are stable (kscope.reports.notebook.COLUMNS, kscope.reports.frames)."""
        return _presenters.present("to_dataframe", self, table=table, engine=engine)

    def __repr__(self) -> str:
        return short.of_analysis(self)

    def render(self, format: str = "text", **options: Any) -> str:
        """The report as text, md, llm, html, json, sarif, junit or github (kscope.render has the options)."""
        shown: str = _presenters.present("render", self)(format, **options)
        return shown

    def filter(
        self, *, kernel: str | None = None, regime: str | None = None, code: str | None = None, gain: float = 1.0
    ) -> Analysis:  # fmt: skip
        """The Analysis with only those kernels whose name matches a regular expression, that are bound by a regime,
        have a finding of a rule, and of which something promises at least so much."""
        name = re.compile(kernel or "")

        def wanted(k: KernelAnalysis) -> bool:
            gains = [f.estimate.speedup for f in k.findings if f.estimate and (code is None or f.code == code)]
            return (
                bool(name.search(k.demangled) or name.search(k.name))
                and (regime is None or k.verdict.regime == regime)
                and (code is None or any(f.code == code for f in k.findings))
                and (gain <= 1.0 or max(gains, default=1.0) >= gain)
            )

        return msgspec.structs.replace(self, kernels=[k for k in self.kernels if wanted(k)])


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
