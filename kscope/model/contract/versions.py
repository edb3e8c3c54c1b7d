"""JSON of `kscope diff` of more than two versions: each kernel and recording against the first and the one before.
Fields are only ever added."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kscope.model.contract.analysis import Frozen, Input, SkippedInput

VERSIONS_SCHEMA = "kscope.versions/1"


class Standing(Frozen, frozen=True, kw_only=True):
    """One kernel or recording in one version. Speed-ups are time before / time now: above 1 is faster."""

    version: Annotated[int, Meta(description="from 1, as on the command line")]
    name: str
    time_us: float | None
    regime: str
    limiter: str
    on_first: Annotated[float | None, Meta(description="against the first version that has it")] = None
    on_before: Annotated[float | None, Meta(description="against the version before that has it")] = None
    sentence: Annotated[str, Meta(description="against the version before")] = ""
    fixed: Annotated[list[str], Meta(description="codes, against the version before")] = []
    new: list[str] = []
    next: Annotated[str | None, Meta(description="code of the first suggestion")] = None
    guess: Annotated[bool, Meta(description="nothing but its place says what it was before")] = False


class Line(Frozen, frozen=True, kw_only=True):
    """What became of one kernel or recording. per: what its times are of."""

    kind: Literal["kernel", "recording"]
    per: Literal["launch", "step", "recording"]
    name: Annotated[str, Meta(description="as the last version that has it calls it")]
    standings: list[Standing]


class Version(Frozen, frozen=True, kw_only=True):
    """One version. speedups: of all kernels together that it shares with the first version, or with the one before,
    guesses left out."""

    number: int
    inputs: list[Input]
    on_first: float | None = None
    on_before: float | None = None


class Versions(Frozen, frozen=True, kw_only=True):
    """Several versions in their order."""

    schema: str = VERSIONS_SCHEMA
    kscope: str
    versions: list[Version]
    lines: Annotated[list[Line], Meta(description="longest first, by the first version that has them")] = []
    skipped: list[SkippedInput] = []
    notes: list[str] = []


def versions_schema() -> dict[str, object]:
    """The JSON Schema (2020-12) of `kscope diff A B C --format json`."""
    schema = msgspec.json.schema(Versions)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": VERSIONS_SCHEMA, **schema}
