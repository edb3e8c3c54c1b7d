"""What a rule says and a verdict names: the part of the public view that kernels, timelines and machine code share."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from kscope.model.contract.fixes import Fix
from kscope.model.contract.frozen import Estimate as Estimate
from kscope.model.contract.frozen import Frozen as Frozen
from kscope.model.errors import one_line

Regime = Literal["compute", "memory", "overhead"]
Told = Literal["compute", "memory", "overhead", "unknown"]
"""The regime of a verdict: `unknown` where the report lacks what would tell, and a guess would be as often wrong."""
Severity = Literal["critical", "major", "minor", "info"]
Limiter = Literal[
    "dram_bandwidth", "l2_bandwidth", "l1_throughput", "shared_memory", "memory_latency", "atomics",
    "tensor_pipe", "fp32_pipe", "fp64_pipe", "integer_pipe", "special_function", "instruction_issue",
    "dependency_latency", "instruction_fetch", "divergence",
    "launch", "small_grid", "tail", "imbalance", "barrier", "pipeline_fill", "host", "synchronization", "transfer",
    "communication", "unknown",
]  # fmt: skip


class Verdict(Frozen):
    """One sentence, and the parts that it is made of; parts are empty where a sentence has none (or comes from a kscope
    before 0.2). `kscope.engine.verdict.sentences` puts them together."""

    regime: Told
    limiter: Limiter
    confidence: Annotated[float, Meta(ge=0, le=1)]
    sentence: str
    headline: Annotated[str, Meta(description="what binds it, `Memory-bound on shared memory`")] = ""
    reason: Annotated[str, Meta(description="the figures that say so")] = ""
    contrast: Annotated[str, Meta(description="what is not the limit, for scale")] = ""
    next: Annotated[str, Meta(description="the step to take, as the sentence ends")] = ""
    body: Annotated[str, Meta(description="the sentence without its regime, where that is shown beside it")] = ""


class Evidence(Frozen):
    metric: str
    value: float | str | None
    unit: str = ""
    note: str = ""


class OwnPlace(Frozen):
    """The user's line behind a place in a library's header. near: of the nearest instruction, not of the call."""

    file: str
    line: int
    near: bool


class Location(Frozen):
    function: str
    pc: Annotated[int, Meta(description="byte offset from the kernel's entry")]
    opcode: str
    file: str | None = None
    line: int | None = None
    share: Annotated[
        float | None, Meta(description="share of the kernel's samples that wait for this instruction, 0..1")
    ] = None
    sass: str | None = None
    source: str | None = None
    sampled: Annotated[float | UnsetType, Meta(description="share of the samples taken at it, 0..1")] = UNSET
    own: OwnPlace | UnsetType = UNSET  # only where `file` is a library's header


class Remedy(Frozen):
    """One way to mend what a finding names. Each has a condition of its own: where that does not hold, `why` says so;
    else `why` says when to prefer it, and `estimate` what it brings alone."""

    step: Annotated[str, Meta(description="what to change, as `fix` words it")]
    applies: Annotated[bool, Meta(description="whether its condition holds in this kernel")]
    why: str = ""
    estimate: Estimate | None = None


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
    overlaps: Annotated[list[str], Meta(description="codes of findings that explain the same samples or waits")] = []
    remedies: Annotated[list[Remedy], Meta(description="ways beside `fix`: those that do, and those that do not")] = []
    pulls: Annotated[
        list[str], Meta(description="what the fix takes more (+) or less (-) of: +registers, -threads, +tile, ...")
    ] = []
    first: Annotated[list[str], Meta(description="codes of findings to mend before: this only pays after them")] = []
    order: Annotated[str, Meta(description="why it stands here, where that is not the order of gain")] = ""
    roof: Annotated[
        str | UnsetType, Meta(description="the unit that is full, where that is the finding; as `relieves` names it")
    ] = UNSET
    fixes: Annotated[list[Fix], Meta(description="changes that mend it: code, proof, price")] = []
    covered: Annotated[
        list[int], Meta(description="pcs of every instruction that it is about, where `locations` names only the first")
    ] = []
    covered_share: Annotated[
        float | None, Meta(description="share of the kernel's samples at or behind all that it covers, 0..1")
    ] = None


    def __repr__(self) -> str:
        """Code, slug, gain and place in a line."""
        gain = f" {self.estimate.speedup:.2f}x" if self.estimate is not None else ""
        place = next((f" at {x.file}:{x.line}" for x in self.locations if x.file), "")
        return one_line(f"<{self.code} {self.rule}{gain}{place}>")


class NotApplicable(Frozen):
    code: str
    why: str


class RuleError(Frozen):
    code: str
    message: str


class NvidiaTable(Frozen, frozen=True):
    """A table of NVIDIA's rule: cells as the report spells them, a list a row."""

    title: str
    headers: list[str]
    rows: list[list[str]]


class NvidiaFinding(Frozen, frozen=True):
    rule: str
    title: str
    message: str
    speedup_pct: float | None
    type: Literal["global", "local", ""]
    tables: list[NvidiaTable] | UnsetType = UNSET
