"""What a rule says and a verdict names: the part of the public view that kernels, timelines and machine code share."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

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


class Frozen(Struct, frozen=True, kw_only=True):
    """Base of the public view: immutable, keyword-only."""


class Verdict(Frozen):
    """One sentence, and the parts that it is made of; parts are empty where a sentence has none (or comes from a kscope
    before 0.2). `kscope.engine.sentences` puts them together."""

    regime: Told
    limiter: Limiter
    confidence: Annotated[float, Meta(ge=0, le=1)]
    sentence: str
    headline: Annotated[str, Meta(description="what binds it, `Memory-bound on shared memory`")] = ""
    reason: Annotated[str, Meta(description="the figures that say so")] = ""
    contrast: Annotated[str, Meta(description="what is not the limit, for scale")] = ""
    next: Annotated[str, Meta(description="the step to take, as the sentence ends")] = ""
    body: Annotated[str, Meta(description="the sentence without its regime, where that is shown beside it")] = ""


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
