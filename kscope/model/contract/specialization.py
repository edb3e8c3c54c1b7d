"""The figures of a warp-specialised kernel in JSON v1: a part of `KernelAnalysis` (kscope.model.contract.analysis).
Fields are only ever added."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class RoleShare(Struct, frozen=True, kw_only=True):
    priming: float
    steady_issued: float
    covered_wait: float
    exposed_wait: float
    drain: float


class Retries(Struct, frozen=True, kw_only=True):
    """Exact counts of try-waits on mbarriers that were not over at the first try."""

    waits_for: Annotated[str, Meta(description="memory: data; role, tensor: a free slot or finished products")]
    failed: float
    made: float


class Role(Struct, frozen=True, kw_only=True):
    """One warp role. `warps` a block; `share` of the role's time, between `low` and `high`."""

    role: str
    warps: float
    share: RoleShare
    low: RoleShare | None = None
    high: RoleShare | None = None
    retries: list[Retries] = []
    sampling_error: Annotated[
        float, Meta(description="two standard errors of the shares, from how often the sampler looked; in the bounds")
    ] = 0.0


class Phases(Struct, frozen=True, kw_only=True):
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


class Series(Struct, frozen=True, kw_only=True):
    """A PM-sampled timeline, thinned: shares of the unit's peak (0..1) at even distances from the first work on."""

    unit: str
    metric: str
    values: list[float]


class LostTime(Struct, frozen=True, kw_only=True):
    """Why the unit that the kernel is for is not at its plateau: shares of the kernel's time."""

    fill: float
    drain: float
    uneven: Annotated[float, Meta(description="SMs that got less work have left")]
    turnover: Annotated[float, Meta(description="blocks of one tile start a pipeline each")]
    data: Annotated[float, Meta(description="its role waits for data")]
    epilogue: Annotated[float, Meta(description="results are stored")]
    loop: Annotated[float, Meta(description="issue, signals and turns between products")]
    pipe: Annotated[float, Meta(description="products in flight below the attainable rate")]


class Amortisation(Struct, frozen=True, kw_only=True):
    """T(n) = fixed + n t: time and share of the fixed part at a multiple of the present work."""

    work: float
    us: float
    fixed_pct: float


class WarpSpecialization(Struct, frozen=True, kw_only=True):
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
    sampled_every: Annotated[float | None, Meta(description="cycles after which the sampler takes a warp of an SM")] = (
        None
    )
