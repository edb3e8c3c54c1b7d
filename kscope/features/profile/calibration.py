"""Warp samples calibrated by what the hardware counted of the same launch.

The sampler looks at one warp of an SM every so many cycles. Where the interval is a multiple of the period of a loop it
looks at the same part of the loop every time, and SMs that run in step are looked at in the same part: shares of
samples are then off by far more than their number suggests. The counters behind `warp cycles per issued instruction`
count every cycle of every warp by the same reasons: each reason's samples are scaled to its counted share
(post-stratification; Deming and Stephan 1940). Within a reason the samples still say where.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kscope.features.counters.stalls import stall_mix
from kscope.features.profile.code import Code
from kscope.features.sass.columns import Column, total

FEW = 5.0  # samples of a reason, below which they are left as they are
MOST = 3.0  # factor, beyond which the two did not see the same launch


class Samples(Struct, frozen=True):
    """`stall[reason]`: samples an instruction; `all`: of every reason; `exact`: whether counters calibrated them."""

    stall: Mapping[str, Column]
    all: Column
    exact: bool


def calibrated(code: Code) -> Samples:
    """The samples of a kernel, with the counted shares of reasons where there are any; their number stays."""
    mix, every = stall_mix(code.kernel), total(code.samples)
    if not mix.exact or not every:
        return Samples(code.stall, code.samples, False)
    factors = {}
    for reason, column in code.stall.items():
        seen, counted = total(column), mix.share.get(reason, 0.0) * every
        factors[reason] = min(MOST, max(1 / MOST, counted / seen)) if seen >= FEW and counted else 1.0
    scale = every / sum(f * total(code.stall[r]) for r, f in factors.items())
    stall = {r: [scale * f * v for v in code.stall[r]] for r, f in factors.items()}
    return Samples(stall, [sum(row) for row in zip(*stall.values(), strict=True)], True)
