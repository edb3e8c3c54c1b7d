"""Code and counters together: what a set of instructions asks of each unit, and who moves more than it must."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from kscope.features.counters.occupancy_limits import MAX_REGISTERS, Pressure, limits_of, pressure
from kscope.features.profile import block_items, coalescing, demands, excess
from kscope.features.profile.excess import Excess
from kscope.features.profile.idle_threads import Idle, at_work, idle
from kscope.features.profile.passes import single
from kscope.features.profile.serial_sections import Alone, alone
from kscope.features.sass.columns import total

if TYPE_CHECKING:
    from kscope.features.counters.units import Demand
    from kscope.features.lanes.strides import Walks
    from kscope.features.profile.blame import Blame
    from kscope.features.profile.block_items import Items
    from kscope.features.profile.code import Code
    from kscope.features.profile.neighbours import Window
    from kscope.features.profile.warp_rows import WarpRows
    from kscope.features.sass.columns import Column
    from kscope.features.sass.warp_simulation import Walk


class ProfileFacts:
    """`facts.profile`. Instructions are named by index, columns have one value an instruction."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._items: dict[tuple[object, ...], Items | None] = {}

    @property
    def blame(self) -> Blame:
        """Stall samples by the instruction that caused them; `code.blamed_share(members)` sums them up."""
        return self._code.blame

    def demands_after(self, members: Iterable[int], remaining: float) -> dict[Demand, float]:
        """Factor on each demand inside the SM when only `remaining` (0..1) of these instructions is left: the scale of
        `facts.estimate.relieve`. L2 and device memory are not among them: the caches decide."""
        return demands.left(self._code, members, remaining)

    def sectors_share(self, members: Iterable[int]) -> float:
        """Share of the sectors that global accesses touch, 0..1; by executions where sectors were not counted."""
        return demands.sectors_share(self._code, members)

    def written_to_l2(self, members: Iterable[int], served: float) -> float:
        """Share of the sectors that L2 serves (`served`) which are global stores of these instructions, 0..1."""
        return demands.written_to_l2(self._code, members, served)

    def wider_blocks(self, walk: Walk, block: tuple[int, ...], factor: float) -> float:
        """Share of a thread's path (`facts.estimate.latency_floor.walk`) that is left where a block has `factor` times
        the threads, for the loops whose rounds it deals out to them; block: its shape now."""
        from kscope.features.profile import dealt_rounds

        return dealt_rounds.left_with(self._code, walk, dealt_rounds.dealt(self._code, block), factor)

    def excess(self, actual: Column, ideal: Column, above: float, upto: float, least: float) -> Excess | None:
        """Instructions whose actual cost is over (1 + above) and at most (1 + upto) times the ideal; None where their
        excess is less than `least` of all cost."""
        return excess.excess(self._code, actual, ideal, above, upto, least)

    def least_wavefronts(self, members: list[int], sectors: Column) -> float:
        """Wavefronts of L1 (or requests to L2) that these accesses would need: whole lines, at least one each."""
        return excess.least_wavefronts(self._code, members, sectors)

    @property
    def only_bulk(self) -> bool:
        """The code was counted and makes no global accesses of its own: bulk copies have no sectors an instruction."""
        return excess.only_bulk(self._code)

    @cached_property
    def contiguous(self) -> list[int]:
        """Global accesses under 16 bytes a lane whose lanes together fill the sectors that they touch."""
        return coalescing.contiguous(self._code)

    @cached_property
    def picked(self) -> list[int]:
        """The same of rows that loaded data picks, outside loops."""
        return coalescing.picked(self._code)

    def compact(self, index: int) -> bool:
        """The lanes of a global access touch no more sectors than their bytes fill."""
        return coalescing.compact(self._code, index)

    def compact_together(self, members: Iterable[int], each: int) -> bool:
        """Accesses of adjacent pieces touch no more sectors than all their bytes (`each` a lane) fill."""
        return coalescing.compact_together(self._code, members, each)

    def scattered(self, members: Iterable[int], sectors: Column) -> list[int]:
        """Those of the accesses that touch about a sector for every active lane."""
        return coalescing.apart(self._code, members, sectors)

    def halves(self, members: Iterable[int]) -> list[int]:
        """Those of the loads that take 16 bytes of an element, another one its next 16, and that are only stored."""
        return coalescing.halves(self._code, members)

    @cached_property
    def alike(self) -> tuple[list[int], list[int]]:
        """What all threads compute alike: (float arithmetic, all arithmetic and loads)."""
        from kscope.features.profile.alike import alike

        return alike(self._code)

    def doubles_in_memory(self, doubles: Iterable[int]) -> float:
        """How often FP64 arithmetic takes a double from memory or gives one to it, in warp instructions."""
        from kscope.features.patterns.double_math import in_memory

        return total(self._code.executed, in_memory(self._code, doubles))

    def windows(self, walks: Walks) -> list[Window]:
        """Loads whose values neighbouring threads load again: stencils, filters, moving sums. walks:
        `facts.lanes.inside`."""
        from kscope.features.profile.neighbours import windows

        launch = self._code.kernel.launch
        return windows(walks.code, walks, launch.block, launch.grid)

    @cached_property
    def serial_section(self) -> Alone | None:
        """Work that few warps of a block do between two barriers while the others wait."""
        return alone(self._code)

    def single_pass(self, narrow: Collection[int]) -> float:
        """Share of the samples in divergent code that a warp's own way keeps when its lanes are all of one kind, 0..1:
        1 where it walks that code once as it is, for few lanes."""
        return single(self._code, narrow)

    def idle_threads(self, warps: int) -> Idle | None:
        """Warps of the launch (`warps` in all) that have no data; None where that cannot be proved."""
        return idle(self._code, warps)

    def items(self, block: tuple[int, ...], warps: int, walk: Walk) -> Items | None:
        """The items that blocks deal out to their threads; block: its shape, warps: of the launch, walk:
        `facts.estimate.latency_floor.walk`. None where threads have other work."""
        if (block, warps) not in self._items:
            self._items[block, warps] = block_items.items(self._code, block, warps, walk)
        return self._items[block, warps]

    def items_left(self, work: Items, threads: int, *, joined: bool = True, wide: float = 1.0) -> dict[Demand, float]:
        """Factors on the demands inside the SM with so many threads an item."""
        return block_items.left(self._code, work, threads, joined=joined, wide=wide)

    def warp_rows(self, stride: Callable[[int], int | None], steps: Callable[[int], Sequence[int]]) -> WarpRows | None:
        """The rows that warps walk together and join by shuffles; stride, steps: `facts.lanes.stride`,
        `facts.lanes.strides.steps`."""
        from kscope.features.profile.warp_rows import warp_rows

        return warp_rows(self._code, stride, steps)

    @cached_property
    def warps_at_work(self) -> float:
        """Warps of the launch that come to where half of all samples or more are; 0 without samples."""
        return at_work(self._code)

    def fits_shared(self, each: int, threads: int) -> bool:
        """Whether an SM's shared memory has `each` bytes for all threads of a block; True where the chip is unknown."""
        chip = limits_of(self._code.program.sm)
        return chip is None or each * threads <= chip["shared"] - chip["reserved"]

    def occupancy_with(self, registers: int, threads: int, shared: int = 0) -> Pressure | None:
        """What an SM of this code's chip would hold with so many registers a thread, MAX_REGISTERS at most, and bytes
        of shared memory a block."""
        return pressure(self._code.program.sm, min(MAX_REGISTERS, registers), threads, "launch", shared)
