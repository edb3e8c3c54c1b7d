"""Launch geometry: how the grid fills the device, how full the last wave is, how evenly the SMs are used."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct, structs

from kscope.features.counters.occupancy_limits import limits_of, shared_blocks
from kscope.features.counters.units import elapsed_cycles
from kscope.model.kernel import Kernel

LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "blocks": "launch__occupancy_limit_blocks",
    "block size": "launch__occupancy_limit_warps",
    "barriers": "launch__occupancy_limit_barriers",
}
EVEN = 1.1  # instructions of the busiest SM over the mean, below which the SMs have the same work


class Geometry(Struct, frozen=True):
    """blocks_per_sm: blocks that fit an SM at once, with the limits (blocks an SM) that make it so.

    waves: blocks over what the device holds at once. active: mean share of the kernel's cycles in which an SM had
    work; active_max: the same for the busiest SM. idle_sms: SMs that can get no block at all. uneven: instructions of
    the SM that executes most over the mean SM; None where they were not counted. known: whether the report says how
    many blocks and SMs there were.
    """

    blocks: int
    warps_per_block: int
    sms: int
    blocks_per_sm: int
    limits: Mapping[str, int]
    waves: float
    cycles: float | None
    active: float
    active_max: float
    duration_us: float | None
    uneven: float | None = None
    known: bool = True
    timed: bool = True
    """The report says how long SMs had work, on average or at most, and how long the kernel took in cycles."""
    behind: float = 0.0
    """Share of the cycles in which no SM has work any more, and the memory still adds up what they sent it."""
    partitions: int = 1
    """Sub-partitions of an SM, each with a scheduler and pipes for its own warps (kscope/arch/sm.toml); 1 where the
    chip is not known, so that no pipe counts as fuller than the SM's."""

    def room(self, most: float) -> float:
        """How many times more blocks the device would hold, up to `most`; 1 when it is full or limits are unknown."""
        return min(most, 1 / self.waves) if self.limits and 0 < self.waves < 1 else 1.0

    @property
    def idle_sms(self) -> int:
        return max(0, self.sms - self.blocks)

    @property
    def warps(self) -> int:
        """Warps of the whole launch."""
        return self.blocks * self.warps_per_block

    @property
    def resident_warps(self) -> int:
        """Warps that an SM holds when the grid is large enough."""
        return self.blocks_per_sm * self.warps_per_block

    @property
    def at_once(self) -> float:
        """Warps that an SM with work holds at once, as far as the grid goes."""
        return self.warps_per_block * min(self.blocks_per_sm, max(1.0, self.blocks / self.sms))

    @property
    def imbalance(self) -> float:
        """Busiest SM over the mean SM, 1.0 when even: the speed-up that perfect balance would give."""
        return self.active_max / self.active if self.active else 1.0

    @property
    def shape(self) -> float:
        """How much the busiest SM has over the mean by the number of blocks alone: in the last wave, or, where all
        blocks are resident at once, because some SMs hold one more than others and nobody can share a block."""
        if self.waves > 1:
            return self.tail_gain
        most = -(-self.blocks // self.sms) if self.sms else 1
        return most * self.sms / max(1, self.blocks)

    @property
    def even(self) -> bool:
        """Whether all SMs execute as many instructions, but for what the number of blocks explains: those that take
        longer then wait longer for the same work."""
        return self.uneven is not None and self.uneven < EVEN * max(1.0, min(self.shape, self.uneven))

    @property
    def tail_gain(self) -> float:
        """ceil(waves) / waves: the time of whole waves over that of exactly as many blocks, if all blocks last the
        same and no block of the last wave can start before the wave before ends."""
        return math.ceil(self.waves - 1e-6) / self.waves if self.waves > 0 else 1.0

    @property
    def outside(self) -> float:
        """Share of the kernel's cycles before the first and after the last block, 0..1."""
        return max(0.0, 1.0 - self.active_max)

    @property
    def own(self) -> float:
        """What of that is the launch itself."""
        return self.outside - self.behind


def drained(launch: Geometry, launch_us: float) -> Geometry:
    """Of a kernel whose atomics on few addresses keep a slice of L2 busy: nobody waits for a reduction whose result is
    not used, so the last block ends before they are done. What a launch takes by itself (launch_us) is not theirs."""
    if not launch.timed or not launch.duration_us:
        return launch
    return structs.replace(launch, behind=max(0.0, launch.outside - launch_us / launch.duration_us))


def geometry(kernel: Kernel) -> Geometry:
    m, launch, device = kernel.metrics, kernel.launch, kernel.device
    limits = {name: int(v) for name, metric in LIMITS.items() if (v := m.get(metric)) is not None and v > 0}
    per_sm = max(1, min(limits.values(), default=1))
    limits = _with_room(kernel, limits)
    sms = max(1, device.sms)
    cycles = elapsed_cycles(m)
    mean, most = m.get("sm__cycles_active.avg"), m.get("sm__cycles_active.max")
    if most is None and mean is not None and 0 < launch.blocks < sms:
        most = mean * sms / launch.blocks  # a block an SM: the mean of those that have one
    counted, evenly = m.get("sm__inst_executed.max.per_cycle_elapsed"), m.get("sm__inst_executed.avg.per_cycle_elapsed")
    duration = kernel.duration_ns
    return Geometry(
        blocks=launch.blocks,
        warps_per_block=launch.warps,
        sms=sms,
        blocks_per_sm=per_sm,
        limits=limits,
        waves=launch.waves if launch.waves is not None else launch.blocks / (per_sm * sms),
        cycles=cycles,
        active=min(1.0, mean / cycles) if mean is not None and cycles else 1.0,
        active_max=min(1.0, most / cycles) if most is not None and cycles else 1.0,
        duration_us=duration / 1000 if duration is not None else None,
        uneven=counted / evenly if counted is not None and evenly else None,
        known=launch.known and device.sms > 0,
        timed=cycles is not None and most is not None,
        partitions=(limits_of(device.sm) or {}).get("partitions", 1),
    )


def _with_room(kernel: Kernel, limits: dict[str, int]) -> dict[str, int]:
    """Of an SM the driver sets no more aside as shared memory than the blocks take that fit for other reasons, and the
    report calls that a limit, too: here it is what the SM has."""
    shared, mine = limits.get("shared memory"), kernel.launch
    rest = [v for n, v in limits.items() if n != "shared memory"]
    if shared is None or mine.carved is None or not rest or shared != min(rest):
        return limits
    room = shared_blocks(kernel.device.sm, mine.shared_static + mine.shared_dynamic)
    return {**limits, "shared memory": max(shared, room)} if room is not None else limits
