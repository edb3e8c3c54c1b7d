"""One verdict for a program from its timeline and its kernel reports."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kscope.model.contract.findings import Estimate, Frozen, Limiter, Regime, Severity, Verdict


class JoinedKernel(Frozen):
    """A kernel of a timeline with what its counters say. kernel: id of the entry in `kernels`, null where none has the
    same name, grid and block; `why` says what is missing then."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    count: int
    total_us: float
    share: Annotated[float, Meta(ge=0, le=1, description="of the time of all kernels in the window")]
    kernel: str | None = None
    regime: Regime | None = None
    limiter: Limiter | None = None
    headroom: float | None = None
    why: str = ""


class RegimeShare(Frozen):
    """Share of the kernels' time that is bound by one limiter; null for kernels without counters."""

    regime: Regime | None
    limiter: Limiter | None
    share: float


class JoinedSuggestion(Frozen):
    """A finding of the timeline (kernel null) or of its kernels; its gain is the whole program's, by Amdahl's law."""

    rule: str
    code: str
    title: str
    kernel: str | None
    share: Annotated[float | None, Meta(description="of the kernel in the window, 0..1")]
    severity: Severity
    estimate: Annotated[Estimate, Meta(description="speed-up of the program over the window")]
    busy_speedup: Annotated[float | None, Meta(description="speed-up of the kernels' time alone")] = None
    kernel_speedup: float | None = None
    why: str = ""
    fix: str = ""
    confidence: Annotated[float, Meta(ge=0, le=1)] = 0.5


class JoinedAnalysis(Frozen):
    """One verdict for a program from its timeline and its kernel reports."""

    input: str
    reports: list[str]
    verdict: Verdict | None
    span_us: float
    kernels_pct: Annotated[float, Meta(description="of the window less the profiler's part, in kernels")]
    matched_pct: Annotated[float, Meta(description="of the kernels' time, with counters")]
    abstained: str = ""
    regimes: list[RegimeShare] = []
    kernels: list[JoinedKernel] = []
    suggestions: list[JoinedSuggestion] = []
    unused: Annotated[list[str], Meta(description="kernels of the reports that the timeline does not have")] = []
