"""Ways beside a finding's fix, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.reports import words

if TYPE_CHECKING:
    from kscope.model.contract.findings import Remedy


def remedy(way: Remedy) -> str:
    """`a warp a row, 2.1x: rows of 4,096 elements`; of one that does not apply, why not."""
    gain = f", {words.times(way.estimate.speedup)}" if way.applies and way.estimate is not None else ""
    return f"{way.step}{gain}{': ' if way.why else ''}{way.why}"
