"""What the counters of one launch say: how full each unit is, what warps wait for, how the launch fits the chip."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from kscope.arch.chips import of_device
from kscope.arch.estimates import constants
from kscope.features.counters.collected import Collected, collected
from kscope.features.counters.hot_slice import beyond_mean, hot_slice, nothing_busy, places
from kscope.features.counters.launch import Geometry, drained, geometry
from kscope.features.counters.occupancy import Occupancy, occupancy
from kscope.features.counters.packing import Packing, packing
from kscope.features.counters.product_tile import Tile, tile
from kscope.features.counters.roofline import RooflinePoint, roofline
from kscope.features.counters.stalls import StallMix, stall_mix
from kscope.features.counters.traffic import SECTOR, Traffic, traffic
from kscope.features.counters.units import Unit, bus, busiest, by_rate, units
from kscope.isa.families import family
from kscope.isa.purpose import constant_of

if TYPE_CHECKING:
    from kscope.features.profile.code import Code
    from kscope.model.kernel import Kernel

_FMA = family("fma")
FLAGS = 32768.0  # bytes of system memory that no kernel of a few flags takes (1,024 sectors, as MEM110 asks for)
PASSED_ON = 1.25  # bytes that L2 serves over bytes of device memory, up to which it hardly serves any again


class CounterFacts:
    """`facts.counters`. Parts whose counters the report lacks are None or empty."""

    def __init__(self, kernel: Kernel, code: Code | None) -> None:
        self._kernel, self._code = kernel, code

    @cached_property
    def units(self) -> dict[str, Unit]:
        """Units by their name in kscope/arch/units.toml ("dram", "l2", "l1", "tensor", "issue", ...)."""
        found = {**units(self._kernel.metrics), **self._bus()}
        point = roofline(self._kernel) if "dram" not in found else None
        if point is None or not point.moved or not point.bandwidth:
            return found
        named = (n for n in ("dram__bytes.sum", "dram__bytes_read.sum") if self._kernel.metrics.get(n) is not None)
        return {"dram": by_rate(point.bytes_per_s / point.bandwidth, next(named, "dram__bytes.sum")), **found}

    def _bus(self) -> dict[str, Unit]:
        """The link to the host of a chip whose rate is known, where a kernel takes more than a few flags over it."""
        chip, ns = of_device(self._kernel.device.name), self._kernel.duration_ns
        away = SECTOR * self.traffic.sysmem_sectors
        if chip is None or chip.host_bytes_per_s is None or not ns or away < FLAGS:
            return {}
        return {"bus": bus(away / ns * 1e9, chip.host_bytes_per_s)}

    @cached_property
    def collected(self) -> Collected:
        """What of the report was collected: all else is unknown."""
        return collected(self._kernel, self.units, self.stalls)

    @cached_property
    def busiest(self) -> Unit | None:
        """The unit nearest to what it can attain.

        Every thread fetches its parameters through the constant cache and the unit behind it, which handles barriers
        too: short threads keep it busy. It counts only where lanes index constants.
        """
        code = self._code
        divergent = code is not None and code.blamed_share(code.indexed_constants) > 0.1
        beside = {"constant"} if not divergent else set()
        if self.l2_passes:
            beside.add("l2")
        return busiest({n: u for n, u in self.units.items() if n not in beside})

    @property
    def beyond_mean(self) -> float:
        """Share of the requests of the L2 slice that is asked most which are beyond the mean slice's, 0..1; 0 where
        atomics are not what keeps it busy."""
        return beyond_mean(self._kernel.metrics) if self.hot_slice is not None else 0.0

    @cached_property
    def hot_slice(self) -> float | None:
        """Work of the busiest L2 slice over the average slice's, where atomics on few addresses fill that one."""
        return hot_slice(self._kernel.metrics, self.units)

    @property
    def atomic_places(self) -> float | None:
        """Sectors that atomics go to, at least about; None where that is not known."""
        return places(self._kernel.metrics)

    @property
    def nothing_busy(self) -> bool:
        """No unit works for long, as an average of all of its kind."""
        return nothing_busy(self.units)

    def packed(self, threads: int) -> Packing | None:
        """What blocks of so many threads would make of this launch; None where that cannot be told."""
        lanes = self._kernel.metrics.get("smsp__thread_inst_executed_per_inst_executed.ratio")
        return packing(self._kernel, self.launch, threads, lanes)

    @cached_property
    def l2_passes(self) -> bool:
        """L2 only hands on what device memory delivers or takes: hardly more bytes, and no port of its own is as near
        to its limit as device memory. What its overall counter shows then is device memory's time
        (kscope/arch/units.toml)."""
        dram, l2, moved = self.units.get("dram"), self.units.get("l2"), self.traffic.dram_bytes
        through = SECTOR * self.traffic.l2_sectors
        if dram is None or l2 is None or not moved or not through or through > PASSED_ON * moved:
            return False
        return l2.named < dram.load

    @cached_property
    def l2_shows_dram(self) -> bool:
        """L2's overall counter is fuller than any of its ports, and device memory fuller than these: what the counter
        shows is time behind L2 then, however often L2 serves the same bytes (kscope/arch/units.toml)."""
        dram, l2 = self.units.get("dram"), self.units.get("l2")
        return dram is not None and l2 is not None and l2.named < min(dram.load, l2.load)

    @cached_property
    def memory_load(self) -> float | None:
        """Load of the fullest of device memory, L2 and L1, L2 left aside where it only hands on; None without any."""
        names = ("dram", "l1") if self.l2_passes else ("dram", "l2", "l1")
        return max((self.units[u].load for u in names if u in self.units), default=None)

    @cached_property
    def beyond_l1_load(self) -> float:
        """Load of the fuller of device memory and L2, 0..1 of what kernels attain; L2 left aside where it only hands
        on what device memory moves."""
        names = ("dram",) if self.l2_passes else ("dram", "l2")
        return max((self.units[u].load for u in names if u in self.units), default=0.0)

    @cached_property
    def stalls(self) -> StallMix:
        """Warp time by stall reason, 0..1 each."""
        return stall_mix(self._kernel)

    @cached_property
    def launch(self) -> Geometry:
        """Blocks, warps and waves of the launch, and how evenly the SMs had work."""
        return drained(geometry(self._kernel), constants().empty) if self.hot_slice else geometry(self._kernel)

    @cached_property
    def occupancy(self) -> Occupancy | None:
        """Warps that an SM holds, and what limits them."""
        return occupancy(self._kernel, self.launch)

    @cached_property
    def traffic(self) -> Traffic:
        """Sectors and bytes at each level of memory."""
        return traffic(self._kernel)

    @cached_property
    def roofline(self) -> RooflinePoint | None:
        """Operations and bytes a second against the chip's."""
        return roofline(self._kernel, self._constants())

    def _constants(self) -> float:
        """Share of the multiply-adds of halves that move a constant by way of a pipe that is free."""
        code = self._code
        if code is None:
            return 0.0
        halves = code.where(lambda ins, op: ins.opcode in _FMA and op.pipe in ("fp16", "tensor"))
        every = sum(float(code.threads[i]) for i in halves)
        return sum(float(code.threads[i]) for i in halves if constant_of(code[i]) is not None) / every if every else 0.0

    @cached_property
    def product_tile(self) -> Tile | None:
        """The tile of a product on tensor cores; None of every other kernel."""
        return tile(self.roofline, self.traffic, self._kernel.duration_ns)
