"""What Nsight Compute's own rules said, beside ours in the contract."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from kscope.model.contract.findings import Frozen


class NvidiaTable(Frozen, frozen=True):
    """A table of NVIDIA's rule: cells as the report spells them, a list a row."""

    title: str
    headers: list[str]
    rows: list[list[str]]


class NvidiaFinding(Frozen, frozen=True):
    rule: str
    title: str
    message: str
    speedup_pct: float | None
    type: Literal["global", "local", ""]
    tables: list[NvidiaTable] | UnsetType = UNSET
