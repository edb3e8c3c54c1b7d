"""Everything the rules ask about one kernel, computed once, on first use."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from kscope.features.bounds import Bounds
from kscope.features.code import Code
from kscope.features.launch import Geometry, geometry
from kscope.features.listing import Structure
from kscope.features.memory import Traffic, traffic
from kscope.features.occupancy import Occupancy, occupancy
from kscope.features.path import LatencyPath, latency_path
from kscope.features.roofline import RooflinePoint, roofline
from kscope.features.stalls import StallMix, stall_mix
from kscope.features.units import Unit, busiest, units
from kscope.model.kernel import Kernel

if TYPE_CHECKING:
    from kscope.features.specialization import Specialization
    from kscope.features.wait_sites import Waits

BESIDE = frozenset({"wgmma", "tcgen05", "tma"})
"""Kinds of instructions that hand work to an asynchronous unit."""


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
        return busiest({n: u for n, u in self.units.items() if n != "constant" or divergent})

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
    def code(self) -> Code | None:
        program = self.kernel.program
        return Code(self.kernel, program, self._structure) if program is not None else None

    @cached_property
    def specialization(self) -> Specialization | None:
        """Roles, waits and phases of a warp-specialised kernel; None for every other one."""
        if self.code is None or not self.code.asynchronous:
            return None
        from kscope.features.specialization import specialization  # a dozen modules that most kernels never need

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
        from kscope.features.wait_sites import find_waits

        return find_waits(self.code, None)

    @cached_property
    def path(self) -> LatencyPath | None:
        """The unloaded latency of one warp's way through the code; None without SASS and execution counts."""
        return latency_path(self.code, self.launch, self.traffic) if self.code is not None else None

    @cached_property
    def bounds(self) -> Bounds:
        return Bounds(self.units, self.stalls, self.launch, self.path)
