"""What a benchmark found: `kscope.bench/1`, field by field what `--format json` writes. Fields are only ever added."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from kscope.model.contract.findings import Frozen

SCHEMA = "kscope.bench/1"

Word = Literal["faster", "slower", "inconclusive", "incorrect", "not comparable", "correct"]
"""`correct`: nothing to time against, or no time was asked for."""
Standing = Literal["caught", "seen"]
"""caught: the verdict rests on it. seen: it was tried, or is worth knowing, and changes no figure here."""


class Finding(Frozen, frozen=True, kw_only=True):
    """One cheat of the catalogue (kscope/bench/values/cheats.toml). evidence: what was measured; how: by what."""

    cheat: Annotated[int | None, Meta(description="number in the catalogue")]
    name: str
    standing: Standing
    evidence: str
    how: str


class Check(Frozen, frozen=True, kw_only=True):
    """One comparison with the reference. error, bound: at the worst element, as a share of neither."""

    dims: dict[str, int]
    dtype: str
    inputs: Annotated[str, Meta(description="distribution or structure of the inputs, and how they lie in memory")]
    ok: bool
    error: float | None = None
    bound: float | None = None
    index: list[int] = []
    says: str = ""


class Timing(Frozen, frozen=True, kw_only=True):
    """Microseconds a call, medians of the rounds. ratio: baseline over candidate, with an interval of 95 %."""

    dims: dict[str, int]
    dtype: str
    cache: Literal["cold", "hot"]
    candidate_us: float
    baseline_us: float | None
    ratio: float | None
    low: float | None
    high: float | None
    noise_pct: float | None
    rounds: int
    calls: Annotated[int, Meta(description="calls of the candidate in a round")]
    mode: Annotated[str, Meta(description="called: as Python calls it; graph: replayed from a CUDA graph")] = "called"
    verdict: Word = "inconclusive"
    floor_us: float | None = None
    bytes_needed: float | None = None


class Clocks(Frozen, frozen=True, kw_only=True):
    """The device while it was timed, from NVML; empty on a machine without."""

    device: str
    sm_mhz: list[float] = []
    memory_mhz: list[float] = []
    power_w: list[float] = []
    temperature_c: list[float] = []
    throttled: list[str] = []
    note: str = ""


class Variant(Frozen, frozen=True, kw_only=True):
    """One row of a sweep."""

    values: dict[str, str]
    verdict: Word | Literal["not run", "failed"]
    candidate_us: float | None = None
    ratio: float | None = None
    says: str = ""
    dims: dict[str, int] = {}


class Result(Frozen, frozen=True, kw_only=True):
    schema: str
    kscope: str
    candidate: str
    reference: str
    baseline: str
    device: str
    verdict: Word
    sentence: str
    findings: list[Finding] = []
    notes: list[str] = []
    checks: list[Check] = []
    timings: list[Timing] = []
    clocks: Clocks | None = None
    geomean: float | None = None
    variants: list[Variant] = []
    deterministic: bool | None = None
    seconds: float = 0.0
    when: str = ""
