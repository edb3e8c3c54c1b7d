"""Registers that a thread can do with: what bounds the warps that LAT301 promises."""

from __future__ import annotations

from kscope.features.facts import Facts, Occupancy

MAXIMUM = 64  # warps of the largest SM: no bound where the report does not hold the code
SPARE = 0.6  # of the registers that a thread can do with: most compilers' savings end there, and spills begin (judged)
ALIVE = 0.85
"""Of the values that are alive at once, as many registers as a kernel can be brought to. Judged: two public kernels
went to 0.9 of them by moving work, and gained; one to 0.7, and took 1.9 times as long."""


def with_fewer(facts: Facts, step: int) -> int:
    """Warps an SM with as few registers as a thread can do with, for fewer would spill; at least the next step where
    that is within reach."""
    launch = facts.kernel.launch
    fewest = max(SPARE * launch.registers, 32.0)
    if facts.code is None:
        return MAXIMUM
    then = facts.profile.occupancy_with(int(fewest), launch.threads)
    return then.warps if then is not None else step


def held(facts: Facts, occ: Occupancy, target: int) -> bool:
    """More values are alive at once than so many warps leave registers: that takes another algorithm."""
    if facts.code is None or "registers" not in occ.limiters:
        return False
    launch, most = facts.kernel.launch, int(ALIVE * facts.code.liveness.peak()[0])
    then = facts.profile.occupancy_with(min(most, launch.registers), launch.threads)
    return then is not None and then.warps < target
