"""Everything the rules ask about one kernel, computed once, on first use."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from kscope.features.counters.launch import Geometry, geometry
from kscope.features.counters.occupancy import Occupancy, occupancy
from kscope.features.counters.product_tile import Tile, tile
from kscope.features.counters.roofline import RooflinePoint, roofline
from kscope.features.counters.stalls import StallMix, stall_mix
from kscope.features.counters.traffic import SECTOR, Traffic, traffic
from kscope.features.counters.units import Unit, busiest, units
from kscope.features.estimate.bounds import Bounds
from kscope.features.estimate.latency_floor import LatencyPath, latency_path
from kscope.features.profile.code import Code
from kscope.features.sass.listing import Structure
from kscope.model.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kscope.features.specialized.specialization import Specialization
    from kscope.features.specialized.wait_sites import Waits

BESIDE = frozenset({"wgmma", "tcgen05", "tma"})
"""Kinds of instructions that hand work to an asynchronous unit."""
PASSED_ON = 1.25  # bytes that L2 serves over bytes of device memory, up to which it hardly serves any again


class Facts:
    """Memoised features of one kernel. Parts whose inputs the report lacks are None or empty."""

    def __init__(self, kernel: Kernel, structure: Structure | None = None) -> None:
        """structure: of the kernel's program, if it is known already."""
        self.kernel = kernel
        self._structure = structure

    @cached_property
    def units(self) -> dict[str, Unit]:
        return units(self.kernel.metrics)

    @cached_property
    def busiest(self) -> Unit | None:
        """The unit nearest to what it can attain.

        Every thread fetches its parameters through the constant cache and the unit behind it, which handles barriers
        too: short threads keep it busy. It counts only where lanes index constants.
        """
        divergent = self.code is not None and self.code.blamed_share(self.code.indexed_constants) > 0.1
        beside = {"constant"} if not divergent else set()
        if self.l2_passes:
            beside.add("l2")
        return busiest({n: u for n, u in self.units.items() if n not in beside})

    @cached_property
    def l2_passes(self) -> bool:
        """L2 only hands on what device memory delivers or takes: hardly more bytes, and no port of its own is as near
        to its limit as device memory. What its overall counter shows then is device memory's time
        (kscope/arch/units.toml)."""
        dram, l2, moved = self.units.get("dram"), self.units.get("l2"), self.traffic.dram_bytes
        if dram is None or l2 is None or not moved or SECTOR * self.traffic.l2_sectors > PASSED_ON * moved:
            return False
        return l2.named < dram.load

    def held_up(self, unit: str) -> bool:
        """Whether a full unit can be what holds a specialised kernel up: its main role would wait for data more than
        for anything else. True of every other kernel."""
        sp = self.specialization
        if sp is None or sp.loss is None or sp.unit == unit:
            return True
        return sp.loss.data >= sp.loss.loop + sp.loss.epilogue

    @cached_property
    def memory_load(self) -> float | None:
        """Load of the fullest of device memory, L2 and L1, L2 left aside where it only hands on; None without any."""
        names = ("dram", "l1") if self.l2_passes else ("dram", "l2", "l1")
        return max((self.units[u].load for u in names if u in self.units), default=None)

    @cached_property
    def stalls(self) -> StallMix:
        return stall_mix(self.kernel)

    @cached_property
    def launch(self) -> Geometry:
        return geometry(self.kernel)

    @cached_property
    def occupancy(self) -> Occupancy | None:
        return occupancy(self.kernel, self.launch)

    @cached_property
    def traffic(self) -> Traffic:
        return traffic(self.kernel)

    @cached_property
    def roofline(self) -> RooflinePoint | None:
        return roofline(self.kernel)

    @cached_property
    def product_tile(self) -> Tile | None:
        """The tile of a product on tensor cores; None of every other kernel."""
        return tile(self.roofline, self.traffic, self.kernel.duration_ns)

    @cached_property
    def code(self) -> Code | None:
        program = self.kernel.program
        return Code(self.kernel, program, self._structure) if program is not None else None

    @cached_property
    def specialization(self) -> Specialization | None:
        """Roles, waits and phases of a warp-specialised kernel; None for every other one."""
        if self.code is None or not self.code.asynchronous:
            return None
        from kscope.features.specialized.specialization import (
            specialization,  # a dozen modules that most kernels never need
        )

        return specialization(self.code, self.units)

    @cached_property
    def asynchronous(self) -> bool:
        """Whether warps wait for units that work beside them (TMA, wgmma, tcgen05): by the code, without SASS by what
        the counters know of them. Such warps wait and are few by design."""
        if self.code is not None:
            return bool(self.code.where(lambda ins, op: not op.kind.isdisjoint(BESIDE)))
        counted = self.kernel.metrics.get("sm__pipe_tc_cycles_active.avg.pct_of_peak_sustained_active")
        return bool(counted or self.traffic.tma_bytes or self.stalls.of("warpgroup_arrive"))

    def exposed(self, *reasons: str) -> float:
        """Share of warp time in some states; of a specialised kernel only what no busy unit covers, 0..1."""
        sp, share = self.specialization, self.stalls.share
        return sum(share.get(r, 0.0) if sp is None else sp.exposed(r, share.get(r, 0.0)) for r in reasons)

    @cached_property
    def waits(self) -> Waits | None:
        """Wait sites of the asynchronous parts, whether or not warps have roles; None without SASS."""
        if self.specialization is not None:
            return self.specialization.waits
        if self.code is None:
            return None
        from kscope.features.specialized.wait_sites import find_waits

        return find_waits(self.code, None)

    @cached_property
    def path(self) -> LatencyPath | None:
        """The unloaded latency of one warp's way through the code; None without SASS and execution counts."""
        return latency_path(self.code, self.launch, self.traffic) if self.code is not None else None

    def path_without(self, members: Iterable[int], remaining: float = 0.0) -> float:
        """Share of one warp's unloaded path that is left when only `remaining` (0..1) of these instructions is: the
        factor that a fix has on the latency floor."""
        if self.code is None or self.path is None or not self.path.cycles:
            return 1.0
        after = latency_path(self.code, self.launch, self.traffic, frozenset(members))
        bare = min(1.0, after.cycles / self.path.cycles) if after is not None else 1.0
        return bare + remaining * (1 - bare)

    @cached_property
    def bounds(self) -> Bounds:
        return Bounds(self.units, self.stalls, self.launch, self.path)
