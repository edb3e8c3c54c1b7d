"""What a worklog holds: frozen values, no I/O. JSON of an entry is `kscope.worklog/1`; fields are only ever added."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kscope.model.contract.analysis import DeviceInfo, Frozen, Repeats
from kscope.model.contract.comparison import Outcome

SCHEMA = "kscope.worklog/1"

Status = Literal["kept", "set aside"]
Because = Literal["evidence gone", "recognised", "told"]
"""Why a promise is held against a version: what its finding counted went (kscope.engine.comparing.credit); the machine
code shows that the idea was tried, though the finding is still there; the user said so."""


class Git(Frozen, frozen=True, kw_only=True):
    """Where the code was. patch: object with the uncommitted changes, None where there are none."""

    commit: str | None = None
    branch: str | None = None
    dirty: bool = False
    patch: str | None = None
    left_out: Annotated[list[str], Meta(description="files that are not in the patch: too large")] = []


class Tools(Frozen, frozen=True, kw_only=True):
    kscope: str
    profiler: str | None = None
    flags: str | None = None
    sm_clock_hz: float | None = None
    dram_clock_hz: float | None = None


class Claim(Frozen, frozen=True, kw_only=True):
    """A finding of a version and what it promised for its repair; promise 0 where none was made."""

    code: str
    rule: str
    title: str
    severity: str
    speedup: float = 0.0
    low: float = 0.0
    high: float = 0.0


class Delivered(Frozen, frozen=True, kw_only=True):
    """A promise of the parent against what this version took. alone: nothing else shares the gain."""

    code: str
    rule: str
    speedup: float
    low: float
    high: float
    measured: float
    alone: bool
    outcome: Outcome
    because: Because


class Attempt(Frozen, frozen=True, kw_only=True):
    """An opportunity that a version tried. how: the mark that moved, in words, or who said so."""

    opportunity: str
    how: str
    told: bool = False


class Step(Frozen, frozen=True, kw_only=True):
    """A version against its parent (`parent` is the uid). speedup: time before over time after."""

    parent: str
    speedup: float | None
    sentence: str
    fixed: list[str] = []
    new: list[str] = []
    remaining: list[str] = []
    delivered: list[Delivered] = []
    against: list[str] = []
    """What a version that is slower, or below a promise, pays that its parent did not: the largest factor first."""


class Entry(Frozen, frozen=True, kw_only=True):
    """One version of a kernel. `uid` names it in every copy of the worklog, `number` in this one. Words (`message`,
    `notes`, `status`, `why`) are as corrected last; figures are never changed. Objects are named by the SHA-256 of
    their content."""

    uid: str
    added: Annotated[str, Meta(description="UTC, ISO 8601")]
    kernel: str
    time_us: float
    regime: str
    limiter: str
    sentence: str
    device: DeviceInfo
    tools: Tools
    git: Git
    report: str
    report_name: str
    analysis: str
    number: int = 0
    message: str = ""
    notes: list[str] = []
    status: Status = "kept"
    why: str = ""
    spread: Repeats | None = None
    pct_of_roof: float | None = None
    headroom: float | None = None
    bounded_by: str = ""
    metrics: dict[str, float | None] = {}
    marks: dict[str, float] = {}
    claims: list[Claim] = []
    passed: list[str] = []
    blind: Annotated[dict[str, str], Meta(description="rules that could not tell, with the reason")] = {}
    parent: str | None = None
    step: Step | None = None
    attempts: list[Attempt] = []
    footprint: str | None = None
    code: str | None = None
    change: str | None = None


class Word(Frozen, frozen=True, kw_only=True):
    """A correction or an addition in words, kept for ever. kind: message, note, kept, set aside."""

    uid: str
    at: str
    entry: str
    kind: str
    text: str


class Idea(Frozen, frozen=True, kw_only=True):
    """What the user decided about an opportunity, at a version and under its limiter. what: set aside, tried,
    reopened."""

    uid: str
    at: str
    entry: str
    opportunity: str
    what: Literal["set aside", "tried", "reopened"]
    why: str
    regime: str
    limiter: str


class Export(Frozen, frozen=True, kw_only=True):
    """`kscope log export --format json`: everything but the objects."""

    schema: str
    kscope: str
    entries: list[Entry] = []
    ideas: list[Idea] = []
