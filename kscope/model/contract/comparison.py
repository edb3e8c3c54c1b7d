"""`Comparison`: two analyses side by side, kernel by kernel. JSON `kscope.diff/1`; fields are only ever added."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kscope.model.contract.analysis import Finding, Frozen, Input, KernelAnalysis, SkippedInput, TimelineAnalysis

DIFF_SCHEMA = "kscope.diff/1"

MatchedBy = Literal[
    "by hand", "name and launch", "name", "name and signature", "name without arguments", "code",
    "elimination", "position",
]  # fmt: skip
"""How a pair was found. by hand: --match. code: machine code that is alike. The last two are guesses: the only kernel
left on either side; the n-th of as many that were left on both."""

Outcome = Literal["inside", "above", "below"]


class Promise(Frozen, frozen=True, kw_only=True):
    """What a finding of the old version promised for its repair, against what happened.

    A promise is for one repair alone. Where several findings went away together, `alone` is false and the measured
    gain can only be compared with their bounds, not with one of them.
    """

    code: str
    rule: str
    speedup: float
    low: float
    high: float
    measured: float
    alone: bool
    outcome: Outcome
    shared_with: Annotated[list[str], Meta(description="codes whose repairs share the measured gain")] = []


class Change(Frozen, frozen=True, kw_only=True):
    """One figure before and after. null where a report does not hold it."""

    what: str
    unit: str
    before: float | None
    after: float | None


class KernelPair(Frozen, frozen=True, kw_only=True):
    before: KernelAnalysis
    after: KernelAnalysis
    matched_by: MatchedBy
    speedup: Annotated[float | None, Meta(description="time before / time after; above 1 is faster")]
    sentence: str
    fixed: Annotated[
        list[str], Meta(description="codes of findings of the old version that the new one passes, their evidence gone")
    ] = []
    new: list[str] = []
    remaining: list[str] = []
    unknown: Annotated[list[str], Meta(description="found before; the new report cannot tell")] = []
    promises: list[Promise] = []
    changes: list[Change] = []
    next: Finding | None = None
    guess: Annotated[bool, Meta(description="nothing but the place pairs the two: no promise is judged")] = False
    gone: Annotated[
        list[str],
        Meta(description="no longer found, though what they counted did not go (or cannot be told): not credited"),
    ] = []
    against: Annotated[
        list[str],
        Meta(description="slower, or below a promise: what it pays that the old one did not, largest factor first"),
    ] = []


class TimelinePair(Frozen, frozen=True, kw_only=True):
    before: TimelineAnalysis
    after: TimelineAnalysis
    per: Annotated[str, Meta(description="what the times are of: `step`, or `recording` where no steps were found")]
    speedup: float | None
    sentence: str
    fixed: list[str] = []
    new: list[str] = []
    remaining: list[str] = []
    changes: list[Change] = []
    unknown: Annotated[list[str], Meta(description="found before; the new recording cannot tell")] = []
    low: Annotated[float | None, Meta(description="speedup if recording slowed the old side alone, at most")] = None
    high: Annotated[float | None, Meta(description="speedup if recording slowed the new side alone, at most")] = None
    promises: list[Promise] = []
    kernels: Annotated[list[Change], Meta(description="time a step by kernel, most changed first")] = []
    operators: Annotated[
        list[Change], Meta(description="GPU time a step by operator that issued it, most changed first")
    ] = []


class Comparison(Frozen, frozen=True, kw_only=True):
    schema: str = DIFF_SCHEMA
    kscope: str
    before: list[Input]
    after: list[Input]
    pairs: list[KernelPair] = []
    timelines: list[TimelinePair] = []
    only_before: Annotated[list[str], Meta(description="demangled names without a partner")] = []
    only_after: list[str] = []
    speedup: Annotated[float | None, Meta(description="of all pairs of kernels together, guesses left out")] = None
    skipped: list[SkippedInput] = []
    notes: list[str] = []


def comparison_json(comparison: Comparison) -> bytes:
    """JSON of a Comparison, without a newline."""
    return msgspec.json.encode(comparison)


def comparison_schema() -> dict[str, object]:
    """The JSON Schema (2020-12) of `kscope diff --format json`."""
    schema = msgspec.json.schema(Comparison)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": DIFF_SCHEMA, **schema}
