"""What the tools answer: parts of JSON v1 (kscope.model), with keys for rows, pages, and what is absent.

Every text that comes from a report (names, paths, source, SASS, NVIDIA's words) is data in a field of its own.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kscope.model.contract.analysis import (
    DeviceInfo,
    Estimate,
    Finding,
    Frozen,
    Headroom,
    KernelAnalysis,
    LaunchInfo,
    NextStep,
    SkippedInput,
    Verdict,
)
from kscope.model.contract.comparison import Change, Promise
from kscope.model.contract.fixes import Checked, Condition, Proof
from kscope.worklog.checklist import Item


class Absent(Frozen):
    """What the input does not hold, and how to collect it. codes: rules that could not look for want of it."""

    what: str
    codes: list[str] = []


class Page(Frozen):
    """total: rows there are. next_offset: where the next page begins; null on the last."""

    total: int
    next_offset: int | None


class InputRow(Frozen):
    path: str
    kind: Literal["kernel report", "timeline", "machine code"]
    bytes: int


class Inputs(Page):
    rows: list[InputRow]
    roots: list[str]
    notes: list[str] = []


class Brief(Frozen):
    """A finding in short. `key` is the same in another capture of the same code."""

    key: str
    code: str
    title: str
    severity: str
    speedup: float | None
    confidence: float


class KernelRow(Frozen):
    key: Annotated[str, Meta(description="the same in every capture of this kernel and launch")]
    name: str
    duration_us: float | None
    launches: int
    device: DeviceInfo
    launch: LaunchInfo
    verdict: Verdict
    headroom: Headroom | None
    next: NextStep | None
    findings: list[Brief]


class TimelineRow(Frozen):
    window: str
    span_us: float
    gpu_busy_pct: float
    verdict: Verdict | None
    abstained: str
    findings: list[Finding]


class FunctionRow(Frozen):
    """A function of machine code that nobody ran: no gain is known, only what the code proves."""

    key: str
    arch: str
    instructions: int
    registers: int | None
    findings: list[Brief]


class KernelAnswer(Frozen):
    key: str
    kernel: KernelAnalysis
    finding_keys: Annotated[list[str], Meta(description="of kernel.findings, in their order")]


class Diagnosis(Page):
    """kernel: of the key that was asked for, everything; there are no rows then."""

    kernels: list[KernelRow] = []
    kernel: KernelAnswer | None = None
    timelines: list[TimelineRow] = []
    functions: list[FunctionRow] = []
    skipped: list[SkippedInput] = []
    absent: list[Absent] = []


class CodeRow(Frozen):
    """row: key of the instruction, its offset in the function. share: of the kernel's warp samples."""

    row: str
    sass: str
    role: str = ""
    file: str | None = None
    line: int | None = None
    source: str | None = None
    share: float | None = None
    executed: int | None = None
    waits_for: list[str] = []
    findings: list[str] = []
    notes: list[str] = []


class CodeAnswer(Page):
    function: str
    rows: list[CodeRow]
    notes: list[str] = []
    absent: list[Absent] = []


class MetricRow(Frozen):
    name: str
    value: float | str | None
    unit: str


class MetricsAnswer(Page):
    rows: list[MetricRow]
    absent: list[Absent] = []


class RulePage(Frozen):
    code: str
    rule: str
    title: str
    page: Annotated[str, Meta(description="Markdown")]
    collect: Annotated[str, Meta(description="what the rule needs of the profiler")]


class PairRow(Frozen):
    """A kernel before and after. promises: what the old findings promised against what happened. `guess`: nothing but
    the place pairs the two."""

    before: str
    after: str
    matched_by: str
    guess: bool
    speedup: float | None
    sentence: str
    fixed: list[str]
    new: list[str]
    remaining: list[str]
    unknown: list[str]
    gone: list[str]
    promises: list[Promise]
    changes: list[Change]
    next: NextStep | None


class CompareAnswer(Page):
    speedup: float | None
    pairs: list[PairRow]
    only_before: list[str]
    only_after: list[str]
    notes: list[str]
    skipped: list[SkippedInput]


class FixRow(Frozen):
    """A change of one kernel. lines: the code as a diff, functions to add first; empty where `refused` says why there
    is none. proof: what was computed before and after it. price: of the kernel's time, if only this were done."""

    kernel: str
    code: str
    rule: str
    why: str
    kind: str
    title: str
    lines: list[str]
    conditions: list[Condition]
    proof: list[Proof]
    costs: list[str]
    price: Estimate | None
    refused: str


class FixesAnswer(Page):
    rows: list[FixRow]
    absent: list[Absent] = []


class CheckedAnswer(Page):
    """Whether the new version's code has each change, and what it brought beside what was promised."""

    rows: list[Checked]
    notes: list[str] = []


class ChecklistAnswer(Page):
    """What can be tried on a kernel: back (set aside under another limit), applicable now with its gain, tried with the
    result, set aside, not applicable yet and why. version: of the worklog that it follows, null without one."""

    key: str
    regime: str
    limiter: str
    sentence: str
    version: int | None
    rows: list[Item]
    absent: list[Absent] = []


class LevelRow(Frozen):
    name: str
    amount: float
    unit: str
    peak_us: float
    attained_us: float
    source: str


class Story(Frozen):
    """A way of falling short, and the time that it would take."""

    what: str
    us: float


class NapkinAnswer(Frozen):
    """floor_us: nothing is faster; attained_us: what the best kernels' rates give."""

    problem: str
    chip: str
    flop: float
    bytes: float
    regime: str
    limiter: str
    floor_us: float
    attained_us: float
    levels: list[LevelRow]
    measured: str = ""
    explanations: Annotated[list[Story], Meta(description="those that take about as long as was measured")] = []
    notes: list[str] = []
