"""More threads a block, for the rounds that it deals out to them: what GRD401 offers beside more blocks."""

from __future__ import annotations

from kscope.features.facts import Facts
from kscope.model.contract.analysis import Estimate

MOST, REGISTERS = 1024, 65536  # threads that a block can have, registers of an SM: the same on every chip from sm_50 on


def wider_blocks(facts: Facts, factor: float) -> tuple[Estimate | None, int]:
    """Gain where a block has more threads for the rounds that it deals out to them (i += blockDim.x), and how many
    times more: as registers, the empty warp slots (`factor`) and the rounds allow. None where there are no such."""
    path, launch = facts.estimate.latency_floor, facts.kernel.launch
    if facts.code is None or path is None or launch.threads > MOST // 2:
        return None, 1
    room = REGISTERS // (max(1, launch.registers) * launch.threads)
    times = min(MOST // launch.threads, room, int(factor))
    if times < 2:
        return None, 1
    left = facts.profile.wider_blocks(path.walk, launch.block, times)
    chain = max(min(1.0, path.share), facts.estimate.waiting) * left
    return facts.estimate.overlap(1 / left, chain=chain), times
