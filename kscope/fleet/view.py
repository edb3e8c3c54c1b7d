"""What `kscope fleet report` says, as values: its JSON, and what the text and the page are drawn from."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kscope.model.contract.findings import Frozen

SCHEMA = "kscope.fleet-report/1"


class Totals(Frozen, frozen=True, kw_only=True):
    inputs: int
    copies: int
    refused: int
    kernels: Annotated[int, Meta(description="rows: identical launches of one input")]
    timelines: int
    programs: int
    first: Annotated[str | None, Meta(description="when the first input was recorded, UTC")]
    last: str | None
    gpu_us: Annotated[float, Meta(description="of each kernel as it was last seen, one day of everything")]
    saved_us: Annotated[float, Meta(description="of it, what the best finding of each kernel promises")]


class Cause(Frozen, frozen=True, kw_only=True):
    """Kernels whose best finding is this one. A kernel counts once: promises are never added up for one."""

    code: Annotated[str | None, Meta(description="of the rule; null where no finding pays")]
    title: str
    kernels: int
    gpu_us: float
    saved_us: float


class Share(Frozen, frozen=True, kw_only=True):
    name: str
    kernels: int
    gpu_us: float
    saved_us: float


class FleetKernel(Frozen, frozen=True, kw_only=True):
    """One code on one chip, under all its names and shapes, as last seen."""

    code: str | None
    names: list[str]
    chip: str
    shapes: int
    grid: Annotated[str, Meta(description="of the shape that takes most time")]
    block: str
    rows: int
    gpu_us: float
    gain: float
    saved_us: float
    cause: str | None
    regime: str
    limiter: str
    next: str
    sentence: str
    seen: Annotated[str | None, Meta(description="last, UTC")]
    example: Annotated[str, Meta(description="an input that holds it")]


class Moved(Frozen, frozen=True, kw_only=True):
    """A change of a kernel's time that stayed. What came with it: findings that appeared or went, other machine code,
    another clock."""

    name: str
    grid: str
    block: str
    chip: str
    job: str | None
    model: str | None
    since: Annotated[str, Meta(description="first run after it, UTC")]
    until: Annotated[str, Meta(description="last run before it, UTC")]
    before_us: float
    after_us: float
    ratio: Annotated[float, Meta(description="of the medians, above 1 is slower")]
    runs_before: int
    runs_after: int
    commit_before: str | None
    commit: str | None
    findings_new: list[str]
    findings_gone: list[str]
    code_before: str | None
    code_after: str | None
    limiter_before: str
    limiter_after: str
    clock_ratio: Annotated[float | None, Meta(description="of the multiprocessors' clock, after to before")]
    cause: Annotated[str, Meta(description="what came with it, in words")]
    lasts: Annotated[bool, Meta(description="the last level of the series")]
    cost_us: Annotated[float, Meta(description="what a launch takes more, times the launches of the last run")]


class Delivered(Frozen, frozen=True, kw_only=True):
    """A promise whose finding went when the kernel got faster; of several that went at once the largest."""

    name: str
    chip: str
    code: str
    promised: float
    low: float
    high: float
    got: float
    since: str
    held: bool


class Cluster(Frozen, frozen=True, kw_only=True):
    """Kernels with the same cause and the same limit."""

    code: str
    title: str
    limiter: str
    kernels: int
    names: list[str]
    gpu_us: float
    saved_us: float


class Renamed(Frozen, frozen=True, kw_only=True):
    """One machine code under several names."""

    code: str
    names: list[str]


class Idle(Frozen, frozen=True, kw_only=True):
    cause: str
    timelines: int
    idle_us: float


class Refusal(Frozen, frozen=True, kw_only=True):
    code: str
    count: int
    message: str
    example: str


class Coverage(Frozen, frozen=True, kw_only=True):
    """What the figures stand on."""

    by_kind: dict[str, int]
    without_code: Annotated[int, Meta(description="kernel rows without machine code")]
    without_time: int
    parts_left_out: Annotated[int, Meta(description="kernels and other parts of inputs that could be read")]
    refusals: list[Refusal]
    series: Annotated[int, Meta(description="of kernel, shape, chip, job and model")]
    short_series: Annotated[int, Meta(description="with too few runs to tell a change")]


class FleetReport(Frozen, frozen=True, kw_only=True):
    schema: str = SCHEMA
    kscope: str
    dataset: str
    totals: Totals
    causes: list[Cause] = []
    chips: list[Share] = []
    models: list[Share] = []
    jobs: list[Share] = []
    kernels: list[FleetKernel] = []
    slower: list[Moved] = []
    faster: list[Moved] = []
    delivered: list[Delivered] = []
    clusters: list[Cluster] = []
    renamed: list[Renamed] = []
    idle: list[Idle] = []
    coverage: Coverage
