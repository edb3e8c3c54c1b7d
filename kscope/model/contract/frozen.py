"""The bases of the public view and of what is drawn beside it, and the promise that findings and fixes share."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType


class Frozen(Struct, frozen=True, kw_only=True):
    """Base of the public view: immutable, keyword-only."""


class Part(Struct, frozen=True, omit_defaults=True):
    """Base of the parts: immutable; defaults are left out of the JSON."""


class Estimate(Frozen):
    """Speed-up of the kernel if only this were fixed. Estimates of several findings are never added."""

    speedup: float
    low: float
    high: float
    capped_by: str
    kind: Literal["measured", "modelled"]
    relieves: Annotated[
        list[str] | UnsetType,
        Meta(description="units near their peak, or in the way of `high`, that the fix asks less of: dram, l2, ..."),
    ] = UNSET
