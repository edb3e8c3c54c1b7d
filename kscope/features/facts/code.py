"""What the machine code says by itself, profiled or bare: patterns, addresses, lanes. Rules and lints ask the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from kscope.features.facts.patterns import PatternFacts
from kscope.features.lanes.assumption import Assumption
from kscope.features.lanes.proxy_hazards import Hazard, hazards
from kscope.features.lanes.strides import Walks, astride, lane_stride
from kscope.features.lanes.values import Lanes, block_shapes
from kscope.features.patterns import loop_parallelism
from kscope.features.sass import slices
from kscope.features.sass.listing import Listing, Ran, Structure, once_per_code

if TYPE_CHECKING:  # of the modules that only lints ask, which profiles do without
    from kscope.features.lanes.bank_conflicts import Conflict
    from kscope.features.lanes.semantics import Value
    from kscope.features.lanes.vectorizable import Merge


KEEP = 4  # kinds of launches of one function that are remembered


class CodeFacts:
    """What a lint asks about the code of one function, without a launch."""

    def __init__(self, code: Listing, block: Sequence[int] | None = None) -> None:
        """block: the shape of a block (x, y, z), if it is known."""
        self.code = code
        self._block = block

    @cached_property
    def patterns(self) -> PatternFacts:
        """Shapes of code: products, chains, copies, spills, math functions; what belongs to a computation."""
        return PatternFacts(self.code)

    @cached_property
    def addresses(self) -> AddressFacts:
        """Where the address of a memory instruction comes from."""
        return AddressFacts(self.code)

    @cached_property
    def lanes(self) -> LaneFacts:
        """The addresses of all lanes: strides, bank conflicts, accesses that could be merged."""
        return LaneFacts(self.code, self._block)


def alike(code: Listing, block: tuple[int, int, int]) -> CodeFacts:
    """The facts of one launch, which those that ran each instruction as often, with blocks of this shape, share."""
    known, key = _alike(code.structure), (tuple(code.executed), block)
    facts = known.pop(key, None)
    if facts is None or not facts.lanes.renewed():
        facts = CodeFacts(Ran(code.structure, key[0]), block)
    known[key] = facts
    if len(known) > KEEP:
        del known[next(iter(known))]
    return facts


@once_per_code
def _alike(code: Structure) -> dict[tuple[tuple[float, ...], tuple[int, int, int]], CodeFacts]:
    """Room for them, those asked for last at the end."""
    return {}


class AddressFacts:
    """`facts.addresses`: where the address of a memory instruction comes from. All take an instruction's index."""

    def __init__(self, code: Listing) -> None:
        self._code = code

    def origins(self, index: int) -> frozenset[str] | None:
        """What the address depends on: "tid", "x", "y", "z" (block indices), "load", words of constant banks; None
        where the slice is too large to tell."""
        return slices.address_origins(self._code, index)

    def gathers(self, index: int) -> bool:
        """The address is computed from loaded data."""
        return slices.gathers(self._code, index)

    def chases(self, load: int) -> bool:
        """The address comes from the load itself, a round before: nothing can be loaded ahead."""
        return slices.chases(self._code, load)

    def swaps_its_own(self, index: int) -> bool:
        """What a compare-and-swap writes is computed from what it read a round before: a sum of floats, say."""
        written = self._code[index].operands[-1].register
        return slices.feeds(self._code, index, list(self._code.defuse.producers(index, written)))

    def steps_from_loaded(self, index: int) -> bool:
        """In a loop, with an address that starts from loaded data and then goes on by itself: it walks a row."""
        return slices.steps_from_loaded(self._code, index)

    def exchanges(self, loop: int) -> bool:
        """A loop loads and stores one array at places that its data pick: a round may need what another has stored."""
        return loop_parallelism.exchanges(self._code, loop)

    def continues(self, index: int, loop: int) -> bool:
        """An access goes on where one of another loop stopped: the remainder of an unrolled loop."""
        return slices.continues(self._code, index, loop)

    def pointer(self, index: int) -> str | None:
        """The kernel parameter that the address starts from."""
        return slices.pointer(self._code, index)

    def grid_dimensions(self, index: int) -> frozenset[str] | None:
        """Grid dimensions ("x", "y", "z") that the address depends on; None where that cannot be told."""
        return slices.grid_dimensions(self._code, index)


class LaneFacts:
    """`facts.lanes`: the addresses of all 32 lanes, computed under invented launch values."""

    def __init__(self, code: Listing, block: Sequence[int] | None) -> None:
        self._code, self._block = code, block

    @cached_property
    def _shape(self) -> tuple[int, int, int]:
        """Of the block: the launch's, or the likeliest."""
        if self._block is None:
            return block_shapes(self._code, None)[0]
        return self._block[0], self._block[1], self._block[2]

    @cached_property
    def strides(self) -> Walks:
        """How accesses move from round to round and from block to block."""
        return Walks(self._code, self._shape)

    @cached_property
    def inside(self) -> Walks:
        """The same of threads whose indices no border clamps."""
        return Walks(self._code, self._shape, interior=True)

    def renewed(self) -> bool:
        """See `Lanes.renewed`, of all that is asked one by one."""
        return self.strides.renewed() and self.inside.renewed() and self._plain.renewed()

    @cached_property
    def _plain(self) -> Lanes:
        return Lanes(self._code, Assumption(1, block_shapes(self._code, self._block)[0]))

    def addresses(self, index: int) -> Value:
        """The address of each lane under one assumption (one number: the same in all lanes); None if unknown."""
        return self._plain.address(index)

    def stride(self, index: int) -> int | None:
        """Bytes between what neighbouring lanes access, the smallest that occurs; None where the code is silent."""
        return lane_stride(self._code, index, self._shape)

    def astride(self, index: int) -> bool:
        """cp.async lays some sectors across two 32-byte pieces of shared memory: rows padded by half a sector."""
        return astride(self._code, index, self._shape)

    @cached_property
    def shared_accesses(self) -> list[int]:
        """Loads and stores of shared memory by lane addresses."""
        from kscope.features.lanes.bank_conflicts import shared_accesses

        return shared_accesses(self._code)

    @cached_property
    def conflicts(self) -> Mapping[int, Conflict]:
        """Bank conflicts of every shared access for which they follow from the code, by instruction index."""
        from kscope.features.lanes.bank_conflicts import conflicts

        return conflicts(self._code, self._block)

    @cached_property
    def mergeable(self) -> list[Merge]:
        """Groups of global accesses that one wider access could replace."""
        from kscope.features.lanes.vectorizable import merges

        return merges(self._code, self._block)

    @cached_property
    def alternating(self) -> list[Merge]:
        """The same, and those that alternate with stores of what they bring: one if these lie elsewhere."""
        from kscope.features.lanes.vectorizable import merges

        return merges(self._code, self._block, crossing=True)

    @cached_property
    def threes(self) -> list[Merge]:
        """Groups of three adjacent accesses that would be one if their structure had a fourth piece."""
        from kscope.features.lanes.vectorizable import threes

        return threes(self._code)

    @cached_property
    def proxy_hazards(self) -> list[Hazard]:
        """Accesses of shared memory by the asynchronous proxy that no fence orders."""
        return hazards(self._code, self._block)


