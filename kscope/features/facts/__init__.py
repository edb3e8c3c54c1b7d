"""The one door to everything the rules ask about a kernel, computed once, on first use.

`Facts` is one profiled kernel, `CodeFacts` the bare code of one function. Behind both lie namespaces, each a class in a
module of its own here:

facts.counters      units, stalls, traffic, launch, occupancy, roofline: what the report's counters say
facts.code          the listing with a column of values an instruction: executions, samples, blame (None without SASS)
facts.patterns      shapes of code: products, chains, copies, spills, math functions; what belongs to a computation
facts.addresses     where an address comes from: parameters, block indices, loaded data
facts.lanes         the addresses of all 32 lanes: strides, bank conflicts, accesses that could be merged
facts.profile       code and counters: excess over the ideal, demands of a set of instructions, serial sections
facts.specialized   roles and waits of warp-specialised kernels
facts.chip          what the chip has: instructions, tensor cores
facts.estimate      what a fix gains: relieve, overlap, balance, regain, latency floor
facts.constants     the figures that estimates and verdicts rest on, each with its source

The types that these hand out, and the words that rules share with them, are importable from here as well: a rule
imports nothing else from `kscope.features`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from kscope.arch.estimates import Constants, constants
from kscope.features.counters.occupancy import Occupancy
from kscope.features.counters.packing import Packing, longer_rows
from kscope.features.counters.product_tile import SQUARE
from kscope.features.counters.traffic import SECTOR
from kscope.features.counters.units import ELAPSED, Demand, Scale, Unit
from kscope.features.estimate.bounds import CHAIN
from kscope.features.estimate.gains import between, no_higher, up_to
from kscope.features.estimate.latency_floor import latency_path
from kscope.features.facts.chip import ChipFacts
from kscope.features.facts.code import AddressFacts, CodeFacts, LaneFacts, alike
from kscope.features.facts.counters import CounterFacts
from kscope.features.facts.estimate import Estimates
from kscope.features.facts.patterns import PatternFacts
from kscope.features.facts.profile import ProfileFacts
from kscope.features.facts.specialized import SpecializedFacts
from kscope.features.lanes.proxy_hazards import Hazard
from kscope.features.patterns.accurate_math import FUNCTIONS, MathCall
from kscope.features.patterns.fma_loops import FMA_OPCODES, FmaLoop
from kscope.features.patterns.loop_parallelism import Pieces
from kscope.features.patterns.math_functions import CONVERSIONS, DOUBLE, PAIRS
from kscope.features.patterns.repeated_loads import Repeated
from kscope.features.patterns.tile_copies import Copy
from kscope.features.profile.block_items import Items
from kscope.features.profile.coalescing import WIDE, strewn
from kscope.features.profile.code import Code
from kscope.features.profile.excess import IDEAL_SECTORS, IDEAL_WAVEFRONTS, LINE, SECTORS, WAVEFRONTS, Excess, partly
from kscope.features.profile.idle_threads import Idle
from kscope.features.profile.neighbours import Window
from kscope.features.profile.serial_sections import Alone
from kscope.features.profile.warp_rows import WarpRows
from kscope.features.sass.cfg import Loop
from kscope.features.sass.columns import Column, total
from kscope.features.sass.listing import Listing, Places, Structure
from kscope.features.sass.loop_kinds import SERIAL, SPIN
from kscope.model.kernel import Kernel

if TYPE_CHECKING:
    from kscope.features.lanes.vectorizable import Merge as Merge
    from kscope.features.patterns.double_math import DoubleCall as DoubleCall
    from kscope.features.specialized.pipeline_loss import Loss as Loss
    from kscope.features.specialized.specialization import Specialization as Specialization
    from kscope.features.specialized.wait_sites import Wait as Wait
    from kscope.features.specialized.wait_sites import Waits as Waits

__all__ = [
    "CHAIN", "CONVERSIONS", "DOUBLE", "ELAPSED", "FMA_OPCODES", "FUNCTIONS", "IDEAL_SECTORS", "IDEAL_WAVEFRONTS",
    "LINE", "PAIRS", "SECTOR", "SECTORS", "SERIAL", "SPIN", "SQUARE", "WAVEFRONTS", "WIDE", "Alone", "ChipFacts",
    "Code", "CodeFacts", "Column", "Copy", "Demand", "Excess", "Facts", "FmaLoop", "Hazard", "Idle", "Items", "Listing",
    "Loop", "MathCall", "Occupancy", "Packing", "Pieces", "Places", "Repeated", "Scale", "Unit", "WarpRows", "Window",
    "between", "longer_rows", "no_higher", "partly", "total", "up_to",
]  # fmt: skip


class Facts:
    """What is known of one profiled kernel. Namespaces about code raise LookupError where the report has none: a rule
    that derives from `ProfiledRule`, or has asked `facts.code`, never meets that."""

    def __init__(self, kernel: Kernel, structure: Structure | None = None) -> None:
        """structure: of the kernel's program, if it is known already."""
        self.kernel = kernel
        self._structure = structure

    @cached_property
    def code(self) -> Code | None:
        """The kernel's code with what the profiler saw at each instruction; None where the report has no SASS."""
        program = self.kernel.program
        return Code(self.kernel, program, self._structure) if program is not None else None

    @cached_property
    def counters(self) -> CounterFacts:
        """What the counters of the launch say."""
        return CounterFacts(self.kernel, self.code)

    @cached_property
    def constants(self) -> Constants:
        """How limits add up, when a unit is full: kscope/arch/estimates.toml."""
        return constants()

    @cached_property
    def chip(self) -> ChipFacts:
        """What the chip has that advice could name."""
        return ChipFacts(self.kernel.device.sm, self.kernel.device.name)

    @cached_property
    def patterns(self) -> PatternFacts:
        """Shapes of code."""
        return self._of_code.patterns

    @cached_property
    def addresses(self) -> AddressFacts:
        """Where addresses come from."""
        return self._of_code.addresses

    @cached_property
    def lanes(self) -> LaneFacts:
        """The addresses of all lanes, for the launch's block shape."""
        return self._of_code.lanes

    @cached_property
    def profile(self) -> ProfileFacts:
        """Code and counters together."""
        return ProfileFacts(self._listing)

    @cached_property
    def specialized(self) -> SpecializedFacts:
        """Roles and waits of warp-specialised kernels."""
        return SpecializedFacts(self.kernel, self.code, self.counters)

    @cached_property
    def estimate(self) -> Estimates:
        """What a fix gains."""
        c, code = self.counters, self.code
        floor = latency_path(code, c.launch, c.traffic) if code is not None else None
        held = c.occupancy
        resident = held.achieved / held.theoretical if held is not None and held.achieved and held.theoretical else 1.0
        changed = strewn(code, c.traffic.l2_sectors) if code is not None else 0.0
        return Estimates(
            c.units, c.stalls, c.launch, floor, self.constants, resident, changed, traffic=c.traffic, code=code
        )

    @property
    def _listing(self) -> Code:
        if self.code is None:
            raise LookupError("the report has no SASS; ask facts.code first")
        return self.code

    @cached_property
    def _of_code(self) -> CodeFacts:
        return alike(self._listing, self.kernel.launch.block)
