"""The diagnosis of one recording of a program, a part of the public view (kscope.model.contract.analysis); fields are
added."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kscope.model.contract.findings import Finding, Frozen, NotApplicable, RuleError, Verdict
from kscope.model.contract.job import CommunicationFigures
from kscope.model.contract.timeline_figures import (
    CompiledFigures,
    CopyFigures,
    CriticalPathFigures,
    DeviceUse,
    IdleCause,
    KernelToProfile,
    LaunchFigures,
    MemoryFigures,
    OperatorFigures,
    ProcessFigures,
    RecordingFigures,
    StepFigures,
    TimelineCoverage,
    TopKernel,
    WaitFigures,
)


class CounterFigures(Frozen, frozen=True, kw_only=True):
    """A hardware counter that Nsight Systems sampled, in the window: of a GPU (SMs, memory, NVLink, PCIe), or of a
    network card. Values are in `unit`, as the recording names it."""

    source: Annotated[str, Meta(description="GPU 0, or the name and port of a network card")]
    device: Annotated[int | None, Meta(description="null for a network card")]
    name: str
    unit: str
    mean: Annotated[float, Meta(description="of the samples")]
    max: float
    samples: int


class StreamFigures(Frozen, frozen=True, kw_only=True):
    """One stream in the window. Queued is what was issued for it and has not begun."""

    device: int
    stream: int
    process: int
    operations: int
    busy_us: float
    idle_pct: Annotated[float, Meta(description="of the window")]
    queued_mean: Annotated[float | None, Meta(description="over the window; null where calls are not recorded")]
    queued_max: int | None


class RangeFigures(Frozen, frozen=True, kw_only=True):
    """The user's ranges of one name (its numbers are #) and what the GPU did for them in the window: for what was
    issued in them and in those inside of them."""

    name: str
    count: int
    host_us: float
    operations: int
    gpu_us: Annotated[float, Meta(description="sum over the operations")]
    projected_us: Annotated[float, Meta(description="sum over the ranges, from first to last of their operations")]


class TimelineAnalysis(Frozen, frozen=True, kw_only=True):
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
    communication: Annotated[
        CommunicationFigures | None, Meta(description="null where nothing was sent between ranks or GPUs")
    ] = None
    processes: Annotated[list[ProcessFigures], Meta(description="where there are several, or several devices")] = []
    to_profile: Annotated[list[KernelToProfile], Meta(description="kernels whose counters are worth having")] = []
    rank: Annotated[int | None, Meta(description="rank of the recorded process, where the recording says so")] = None
    operators: Annotated[list[OperatorFigures], Meta(description="by the GPU time that they issued themselves")] = []
    waits: Annotated[list[WaitFigures], Meta(description="whom the host and the streams wait for")] = []
    recording: Annotated[RecordingFigures | None, Meta(description="of the torch profiler")] = None
    critical: Annotated[CriticalPathFigures | None, Meta(description="null where nothing ran on a GPU")] = None
    memory: Annotated[list[MemoryFigures], Meta(description="by device; empty where it was not recorded")] = []
    counters: Annotated[
        list[CounterFigures], Meta(description="sampled of GPUs, links and network cards; empty where none were")
    ] = []
    streams: Annotated[list[StreamFigures], Meta(description="by device, busiest first")] = []
    ranges: Annotated[list[RangeFigures], Meta(description="by their time on the GPU; without those of nothing")] = []
    single_precision_pct: Annotated[
        float | None,
        Meta(description="of the GPU's time, in products of FP32 matrices, which autocast could shorten; null unknown"),
    ] = None
