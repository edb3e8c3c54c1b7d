"""Communication and jobs of many ranks in JSON v1: parts of `TimelineAnalysis` and `Analysis`
(kscope.model.contract.analysis). Fields are only added."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kscope.model.contract.findings import Finding, Frozen, NotApplicable, RuleError, Verdict

COMPUTING, SENDING, WAITING, COPYING, ONCE = "computing", "communication", "waiting", "copying", "one_off"
"""What a rank's time goes into besides idle time by its cause: kernels, exposed communication once all ranks have come
and before, copies alone; and gaps that happened once, which are no time of the steady state."""


class CollectiveFigures(Frozen, frozen=True, kw_only=True):
    """The collectives of one kind on one communicator, in the window of one recording."""

    what: Annotated[str, Meta(description="all_reduce, all_gather, send, peer_copy, ..")]
    group: Annotated[str, Meta(description="name of the communicator, empty where unknown")]
    ranks: list[int] = []
    size: Annotated[int, Meta(description="ranks of the communicator, 0 where unknown")] = 0
    count: int
    bytes: Annotated[int, Meta(description="of all of them on this rank, the larger of in and out; 0 where unknown")]
    us: Annotated[float, Meta(description="their time, added up")]
    exposed_us: Annotated[float, Meta(description="of it while no other kernel ran, added up")]
    waiting_us: Annotated[float | None, Meta(description="of it until the last rank came; null for a lone rank")] = None


class StepCommunication(Frozen, frozen=True, kw_only=True):
    """One step: time in which the device communicated, and of it while no other kernel ran; mean over the devices."""

    step: int
    us: float
    exposed_us: float


class DeviceCommunication(Frozen, frozen=True, kw_only=True):
    device: int
    us: float
    exposed_us: float


class CommunicationFigures(Frozen, frozen=True, kw_only=True):
    """What the ranks sent each other in the window, mean over the devices. exposed: no other kernel ran meanwhile."""

    us: Annotated[float, Meta(description="union of all collectives and transfers between GPUs")]
    pct: Annotated[float, Meta(description="of the window that shares are of")]
    exposed_us: float
    exposed_pct: Annotated[float, Meta(description="of the window that shares are of")]
    overlapped_us: Annotated[float, Meta(description="beside other kernels")]
    waiting_us: Annotated[
        float | None, Meta(description="of the exposed time: until the last rank came; null for a lone rank")
    ] = None
    operations: int = 0
    kinds: list[CollectiveFigures] = []
    steps: list[StepCommunication] = []
    devices: list[DeviceCommunication] = []


class RankFigures(Frozen, frozen=True, kw_only=True):
    """One rank of a job. Percentages are of its window, as in its own analysis."""

    rank: int
    input: str
    span_us: float
    step_us: Annotated[float | None, Meta(description="median")] = None
    computing_pct: Annotated[float, Meta(description="kernels other than collectives")] = 0.0
    sending_pct: Annotated[float, Meta(description="exposed communication after the last rank has come")] = 0.0
    waiting_pct: Annotated[float, Meta(description="exposed communication until the last rank comes")] = 0.0
    copying_pct: float = 0.0
    idle_pct: float = 0.0
    awaited_us: Annotated[float, Meta(description="time that other ranks wait for this one, added up")] = 0.0
    clock_us: Annotated[float, Meta(description="its clock less that of the first rank, from collectives' ends")] = 0.0


class LateCollective(Frozen, frozen=True, kw_only=True):
    """A collective at which ranks waited for the last one, and in which step of the recording that was."""

    what: str
    group: str
    step: Annotated[int, Meta(description="place among the recorded steps, -1 where there are none")]
    late: Annotated[int, Meta(description="rank that came last")]
    waiting_us: Annotated[float, Meta(description="wait of the others, mean")]


class TimeShare(Frozen, frozen=True, kw_only=True):
    """What the ranks' time goes into. A rank's wait counts as what the rank that it waits for does meanwhile."""

    what: str
    pct: float


class JobAnalysis(Frozen, frozen=True, kw_only=True):
    """One program that ran as several ranks, each with a recording of its own. Findings are those of the job and those
    of `critical`, the rank that the others wait for most; `verdict` is null where `abstained` says why."""

    name: str
    inputs: list[str]
    world: Annotated[int, Meta(description="ranks of the job, recorded or not; 0 where unknown")]
    ranks: list[RankFigures]
    span_us: float
    steps: int
    step_us: float | None
    verdict: Verdict | None
    abstained: str = ""
    critical: Annotated[int, Meta(description="rank whose own findings are listed")] = 0
    straggler: Annotated[int | None, Meta(description="the rank that the others wait for, step after step")] = None
    matched: Annotated[int, Meta(description="collectives found on all their ranks")] = 0
    matched_pct: Annotated[float, Meta(description="of the collectives in the windows")] = 0.0
    shares: list[TimeShare] = []
    late: list[LateCollective] = []
    findings: list[Finding] = []
    passed: list[str] = []
    not_applicable: list[NotApplicable] = []
    errors: list[RuleError] = []
    notes: list[str] = []
