"""The figures of a timeline in JSON v1: parts of `TimelineAnalysis` (kscope.model.contract.analysis). Fields are only
added."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class IdleCause(Struct, frozen=True, kw_only=True):
    """Idle time of one cause. Causes `inside_graph`, `graph_not_recorded` and `profiler` are not idle time of the
    program: the first two are parts of graph replays, the third is what recording cost. `one_off` are gaps of any cause
    that happened once (start-up, loading, a warm-up). The last two have no `pct`: shares are of the window without
    them, and no gain is computed from them."""

    cause: str
    us: float
    pct: Annotated[float, Meta(description="of the window without the profiler's part and without what happened once")]
    gaps: int = 0
    during: Annotated[list[str], Meta(description="ranges or operators that the host was in, most time first")] = []


class DeviceUse(Struct, frozen=True, kw_only=True):
    """One device from its first to its last operation, whatever the window."""

    device: int
    name: str
    operations: int
    kernels: int
    busy_us: float
    span_us: float
    idle_pct: float


class StepFigures(Struct, frozen=True, kw_only=True):
    """Steps of the program: repeated ranges of the user, or the period of its operations. Times are from one step to
    the next on the device, which is what they take; `host_us` is what the host needs to issue one."""

    name: str
    count: int
    periodic: bool
    median_us: float
    min_us: float
    max_us: float
    kernels: Annotated[float, Meta(description="GPU operations a step, mean")]
    busy_pct: float
    synchronizations: Annotated[float, Meta(description="synchronising calls a step, mean")]
    host_us: Annotated[float, Meta(description="the host's range, median; shorter where it does not wait")] = 0.0
    recording_us: Annotated[float, Meta(description="of the GPU's waits for launches, what recording took")] = 0.0


class LaunchFigures(Struct, frozen=True, kw_only=True):
    """Medians over the launches in the window; latency is launch to start, queue is end of the call to start."""

    count: int
    call_us: float
    latency_us: float
    queue_us: float
    interval_us: float
    queue_depth: float
    waits_pct: Annotated[float, Meta(description="launches issued when the GPU had nothing left to do")]
    short_kernels_pct: Annotated[float, Meta(description="kernels below 10 us")]
    tklqt_us: Annotated[float, Meta(description="sum of launch to start")]
    queue_full_us: Annotated[float, Meta(description="time in which the launch queue was full: the host is ahead")]


class CriticalPart(Struct, frozen=True, kw_only=True):
    """what: gpu (an operation), between (of a stream's operations), launch (from its call to its start), host."""

    what: str
    name: str
    us: float


class CriticalPathFigures(Struct, frozen=True, kw_only=True):
    """What the end of the recording waited for, back to its beginning: the parts add up to `us`."""

    us: float
    gpu_pct: float
    between_pct: float
    launch_pct: float
    host_pct: float
    parts: Annotated[list[CriticalPart], Meta(description="by name, most time first; the longest of them")]
    pieces: Annotated[
        list[tuple[float, float, str]], Meta(description="begin and end from the window's beginning, us; the longest")
    ]
    events: Annotated[int, Meta(description="times that the path goes over to a stream that another waited for")] = 0
    events_unknown: Annotated[
        int, Meta(description="waits of streams for events of which the recording tells no record: not followed")
    ] = 0


class MemoryHolder(Struct, frozen=True, kw_only=True):
    """What the allocations of one operator held at the peak."""

    name: str
    bytes: int


class MemoryFigures(Struct, frozen=True, kw_only=True):
    """What the framework's allocator held on one device, of recordings with `profile_memory`."""

    device: int
    peak_bytes: Annotated[int, Meta(description="allocated at most")]
    peak_at_us: Annotated[float, Meta(description="from the beginning of the window")]
    reserved_bytes: Annotated[int, Meta(description="reserved of the device at most")]
    holes_bytes: Annotated[int, Meta(description="reserved and not allocated at the peak")]
    holders: Annotated[list[MemoryHolder], Meta(description="of what is there at the peak, most first")]
    levels_bytes: Annotated[list[int], Meta(description="allocated at the end of each step")]
    growth_bytes: Annotated[int, Meta(description="by which each step ends above the one before; 0 if one does not")]
    curve: Annotated[
        list[tuple[float, int, int]], Meta(description="time in us, allocated and reserved at most, of equal parts")
    ]


class CopyFigures(Struct, frozen=True, kw_only=True):
    direction: str
    count: int
    bytes: int
    us: float
    gb_per_s: float
    pageable_pct: Annotated[float, Meta(description="of the bytes, from or to pageable host memory")]
    overlapped_pct: Annotated[float, Meta(description="of the time, while kernels ran")]


class KernelSpread(Struct, frozen=True, kw_only=True):
    """Durations of the launches of one kernel. outliers: those that take three times the median or more, and what of
    the kernel's time they take (0..1)."""

    min_us: float
    median_us: float
    p95_us: float
    max_us: float
    outliers: int
    outliers_share: float


class TopKernel(Struct, frozen=True, kw_only=True):
    """Launches of one name and shape. share: of the time of all kernels in the window."""

    name: str
    count: int
    total_us: float
    mean_us: float
    share: Annotated[float, Meta(ge=0, le=1)]
    kind: Annotated[str, Meta(description="compute, memory, communication or unknown, judged by the name alone")]
    kind_said_by: Annotated[
        str, Meta(description="name (the function's own), or a guess from its namespace or template; empty if unknown")
    ] = ""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    hidden: Annotated[
        float, Meta(ge=0, le=1, description="share of its time before a late launch: being faster saves nothing")
    ] = 0.0
    spread: Annotated[
        KernelSpread | None, Meta(description="how its launches differ; of the first kernels of the table only")
    ] = None
    operators: Annotated[list[str], Meta(description="what a kernel of torch.compile fuses")] = []
    source: Annotated[str, Meta(description="file that torch.compile generated it into")] = ""


class OperatorRoofline(Struct, frozen=True, kw_only=True):
    """Operators of one name against their device's peaks at its highest clock, where their sizes were recorded: FLOP
    of matrix products, and compulsory bytes, each tensor moved once (real traffic is as much or more)."""

    known: Annotated[float, Meta(ge=0, le=1, description="share of their GPU time whose needs are known")]
    flop: float
    bytes: float
    flops_per_s: float
    bytes_per_s: float
    precision: Annotated[str, Meta(description="of the products; empty without")]
    peak_flops_per_s: float | None
    peak_bytes_per_s: float
    pct_of_roof: Annotated[
        float, Meta(description="time at the peaks over time; of memory only bytes beyond what L2 holds")
    ]
    bounded_by: Annotated[str, Meta(description="the precision, or memory (L2 or the device's)")]
    headroom: Annotated[float, Meta(description="speed-up of the operator if its kernels were as good as good ones")]
    tf32_speedup: Annotated[
        float | None, Meta(description="what TF32 is faster than the FP32 that they ran at, at most")
    ] = None


class OperatorFigures(Struct, frozen=True, kw_only=True):
    """Operators of the framework of one name: the GPU time in the window of what they issued themselves (`own_us`), and
    with what they called (`total_us`). What no operator issued has a name in parentheses."""

    name: str
    count: Annotated[int, Meta(description="calls that issued something, themselves or by what they called")]
    own_us: float
    total_us: float
    share: Annotated[float, Meta(ge=0, le=1, description="own_us of the time of all GPU operations in the window")]
    host_us: Annotated[float, Meta(description="of the host, with what they called")] = 0.0
    callers: Annotated[list[str], Meta(description="operators around them, those of most GPU time first")] = []
    roofline: OperatorRoofline | None = None


class WaitFigures(Struct, frozen=True, kw_only=True):
    """Waits for operations of one name: of the host in an API call (`call`), or of a stream for another's event."""

    call: Annotated[str, Meta(description="empty where a stream waits")] = ""
    device: Annotated[int | None, Meta(description="of the stream that waits; null for the host")] = None
    stream: int | None = None
    on: Annotated[str, Meta(description="the operation that ended the wait")]
    count: int
    us: Annotated[float, Meta(description="from when it could have gone on until the operation was done")]
    idle_us: Annotated[float, Meta(description="of the GPU, from the host's waits to the next operation")] = 0.0
    main: Annotated[bool, Meta(description="the stream is the one of its device that computes most")] = False
    said_by: Annotated[
        str, Meta(description="recorded: stream or event by ids; device: the call waits for all; guess: by time")
    ]


class RecordingFigures(Struct, frozen=True, kw_only=True):
    """What the torch profiler recorded beyond events, and what recording calls and operators cost the busiest thread in
    the window by what was measured; options cost more, which is not in `us`."""

    options: list[str] = []
    python_calls: Annotated[int, Meta(description="calls of Python functions in the recording")] = 0
    us: float = 0.0
    pct: Annotated[float, Meta(description="of the window")] = 0.0


class KernelToProfile(Struct, frozen=True, kw_only=True):
    """A kernel whose counters are worth having. share: of the window, what does not hide behind late launches;
    speedup_bound: of the program if the kernel took no time at all."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    share: Annotated[float, Meta(ge=0, le=1)]
    speedup_bound: float
    skip: Annotated[int, Meta(description="launches of the same function before the one to profile")]
    command: Annotated[str, Meta(description="PROGRAM stands for the program and its arguments")]


class ProcessFigures(Struct, frozen=True, kw_only=True):
    """One process on one device, of several in a recording."""

    process: int
    device: int
    operations: int
    busy_us: float
    launches: LaunchFigures | None


class CompiledFigures(Struct, frozen=True, kw_only=True):
    """What torch.compile did in the window."""

    regions: Annotated[dict[str, int], Meta(description="calls of each compiled region, FRAME/VERSION")]
    graphs_per_step: Annotated[float, Meta(description="compiled graphs that the program's thread ran a step")]
    compilations: Annotated[int, Meta(description="compilations in the window")] = 0
    recompilations: Annotated[list[str], Meta(description="FRAME/VERSION of those compiled again")] = []
    compile_us: float = 0.0


class TimelineCoverage(Struct, frozen=True, kw_only=True):
    """What the recording holds, and what it cannot tell."""

    window: str
    operations: int
    api_calls: int
    missing_launches_pct: Annotated[float, Meta(description="GPU operations without their API call")] = 0.0
    graph_rows: Annotated[int, Meta(description="graph launches recorded as one row")] = 0
    lost_graphs: Annotated[int, Meta(description="graph launches of which nothing was recorded")] = 0
    launches: Annotated[int, Meta(description="API calls that launch kernels")] = 0
    captured_launches: Annotated[int, Meta(description="of them, recorded into a graph, which runs nothing")] = 0
    lost_launches: Annotated[int, Meta(description="of them, others without a GPU operation")] = 0
    damaged_events: int = 0
    truncated: str = ""
    missing_tables: list[str] = []
    notes: list[str] = []
