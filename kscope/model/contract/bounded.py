"""What a time and a launch allow to be said of machine code that no profiler looked at. Fields are only ever added."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kscope.model.contract.findings import Frozen
from kscope.model.contract.next_step import NextStep


class PipeTime(Frozen):
    """What one pass through the code takes of a pipe, if every warp makes it and none leaves early: a lower bound."""

    pipe: str
    us: float
    share: Annotated[float, Meta(description="of the time, 0..1; more where warps leave early")]


class RoundsBound(Frozen):
    """How often a warp can have gone round a loop in the time, by the pipe that it needs most."""

    loop: int
    start: int
    end: int
    pipe: str
    cycles: Annotated[float, Meta(description="of one round and warp, at least")]
    rounds: Annotated[float, Meta(description="at most, if every warp makes as many")]


class ResidentWarps(Frozen):
    """By static resources. waves: of blocks over the chip; filled: share of the block slots of all waves in use."""

    warps: int
    warps_max: int
    blocks: int
    limits: list[str]
    waves: float
    filled: float
    idle_sms: int


class BesideProblem(Frozen):
    text: str
    floor_us: Annotated[float, Meta(description="nothing is faster")]
    attained_us: Annotated[float, Meta(description="what the best kernels reach")]
    above: Annotated[float, Meta(description="time over attained_us")]
    limiter: str
    verdict: str
    explanations: Annotated[list[str], Meta(description="ways of falling short that take about as long")] = []


class Unknown(Frozen):
    """What only a profiler would tell, and the command that asks it."""

    what: str
    collect: str


class Bounded(Frozen, frozen=True, kw_only=True):
    time_us: float
    chip: str
    chip_from: Annotated[str, Meta(description="--chip, measured here, or assumed from the target")]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_dynamic: int
    resident: ResidentWarps | None
    pipes: list[PipeTime] = []
    loops: list[RoundsBound] = []
    refused: Annotated[list[str], Meta(description="why there are no bounds, or not for all pipes")] = []
    device_bytes: Annotated[float, Meta(description="that device memory can have moved in the time, at most")]
    problem: BesideProblem | None = None
    says: list[str] = []
    unknown: list[Unknown] = []
    next: NextStep
