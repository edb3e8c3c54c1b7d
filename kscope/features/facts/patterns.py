"""Shapes of machine code that rules and lints look for, each found once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from kscope.features.facts.local_memory import LocalMemoryFacts
from kscope.features.patterns import (
    accurate_math,
    block_trees,
    carried_values,
    dependency_chains,
    exchanges,
    fma_loops,
    loop_parallelism,
    math_functions,
    repeated_loads,
    slicing,
    strong_loads,
    tile_copies,
)
from kscope.features.patterns.fma_loops import FmaLoop
from kscope.features.patterns.loop_parallelism import Pieces
from kscope.features.patterns.repeated_loads import Repeated
from kscope.features.patterns.tile_copies import Copy

if TYPE_CHECKING:  # and of the modules that only lints ask, which profiles do without
    from kscope.features.patterns.accurate_math import MathCall
    from kscope.features.patterns.dependency_chains import Recurrence
    from kscope.features.patterns.double_math import DoubleCall, Tabled
    from kscope.features.patterns.kept_in_memory import Kept
    from kscope.features.patterns.math_functions import Power
    from kscope.features.patterns.register_banks import BankCost
    from kscope.features.sass.columns import Column
    from kscope.features.sass.listing import Listing
    from kscope.features.sass.warp_simulation import Walk
    from kscope.model.kernel import Launch


class PatternFacts(LocalMemoryFacts):
    """`facts.patterns`. Instructions are named by index; lists are of instructions that ran, and not to be changed."""

    def __init__(self, code: Listing) -> None:
        self._code = code

    # Products and stencils

    @property
    def fma_loops(self) -> tuple[FmaLoop, ...]:
        """Loops whose multiply-adds take loaded factors, most executed first."""
        return fma_loops.fma_loops(self._code)

    @property
    def pair_loops(self) -> tuple[FmaLoop, ...]:
        """Loops that add up, or choose from, what another operation makes of two loaded values."""
        return fma_loops.pair_loops(self._code)

    def product(self, loads: Iterable[int]) -> FmaLoop | None:
        """The loop whose sums of products take a factor from these loads, the other one loaded too."""
        return fma_loops.product(self._code, loads)

    def multiplies_halves(self, loop: FmaLoop) -> bool:
        """The loop multiplies 2-byte values, which tensor cores multiply exactly."""
        return fma_loops.halves(self._code, loop)

    def unpacking(self, loop: FmaLoop) -> list[int]:
        """Conversions, shifts and permutes between the loop's loads and its multiply-adds."""
        return fma_loops.unpacking(self._code, loop)

    # What belongs to what

    def same_computation(self, seeds: Iterable[int]) -> set[int]:
        """Arithmetic (no memory access) that belongs to the same computation as the seeds."""
        return slicing.computation(self._code, tuple(seeds))

    def addresses_of(self, members: Iterable[int]) -> list[int]:
        """Integer work and constants that serve nothing but these instructions, which are listed too."""
        return slicing.feeding(self._code, tuple(members))

    def removed_with(self, members: Iterable[int]) -> list[int]:
        """What goes when a computation goes: it, the tests that choose how to compute it, what serves nothing else."""
        return slicing.dying(self._code, tuple(members))

    def values_of(self, stores: Iterable[int]) -> list[int]:
        """The arithmetic that computes what stores write, from the loads on."""
        return slicing.behind(self._code, stores)

    @cached_property
    def results(self) -> set[int]:
        """The arithmetic behind all values that the kernel writes, and the tests of what it loaded."""
        return slicing.purpose(self._code)

    # Loops

    @cached_property
    def recurrences(self) -> list[Recurrence]:
        """The longest carried chain of each innermost loop that has one, longest first."""
        return dependency_chains.recurrences(self._code)

    def carried_chain(self, weight: Column) -> list[int]:
        """Arithmetic of the one chain around a loop with most weight (a value an instruction), heaviest first."""
        return dependency_chains.carried(self._code, weight)

    def pieces(self, walk: Walk) -> Pieces:
        """Pieces that the work of one thread can fall into; walk: where its cycles go
        (`facts.estimate.latency_floor.walk`)."""
        return loop_parallelism.pieces(self._code, walk)

    def trips(self, loop: int) -> float:
        """Rounds of a loop (its number in the flow graph) each time that it is entered."""
        return loop_parallelism.trips(self._code, loop)

    def joined(self, loop: int) -> frozenset[str]:
        """What must be joined where several threads share a loop's rounds: "sum", "choice", "count", "recurrence"."""
        return carried_values.carried(self._code, loop).joined

    def searches(self, loop: int) -> bool:
        """Its data may end the loop, and hardly ever do: the rounds are dealt out, and some are in vain."""
        return carried_values.carried(self._code, loop).searches

    def chained(self, loop: int) -> tuple[int, ...]:
        """The instructions that make a loop's rounds one chain: what it carries and nobody can divide, or the branch
        that its data decide; empty where rounds can be divided."""
        return loop_parallelism.chained(self._code, loop)

    def shareable(self, loop: int) -> bool:
        """The rounds of a loop can be divided among threads: it carries nothing, or sums, choices, a recurrence."""
        return loop_parallelism.shareable(self._code, loop)

    @cached_property
    def exposed_copies(self) -> list[Copy]:
        """Copies into shared memory that a loop starts and waits for before it uses an earlier tile."""
        return tile_copies.exposed_copies(self._code)

    @cached_property
    def loop_kinds(self) -> Mapping[int, str]:
        """Loops that are no loop of the source (SPIN, SERIAL), by number in the flow graph."""
        from kscope.features.sass.loop_kinds import loop_kinds

        return loop_kinds(self._code.program, self._code.cfg, self._code.classes)

    @cached_property
    def redundant_barriers(self) -> list[int]:
        """Block-wide barriers that every path reaches from another one with nothing to order between."""
        from kscope.features.patterns.redundant_barriers import redundant_barriers

        return redundant_barriers(self._code)

    @cached_property
    def exchanges(self) -> frozenset[int]:
        """Stores to shared memory that go where data say, the loads behind the next barrier, and those barriers."""
        return exchanges.exchanges(self._code)

    def block_trees(self, threads: int, space: str = "shared") -> frozenset[int]:
        """All instructions of the rounds of scans and trees in that memory over a block of so many threads."""
        return block_trees.block_trees(self._code, threads, space)

    @cached_property
    def warp_trees(self) -> frozenset[int]:
        """Trees of shuffles in each warp whose results are all that the block has in shared memory."""
        return block_trees.warp_trees(self._code)

    @cached_property
    def bank_costs(self) -> list[BankCost]:
        """Instructions whose operand reads take longer than their pipe: three from one register bank."""
        from kscope.features.patterns.register_banks import bank_costs

        return bank_costs(self._code)

    @cached_property
    def kept_in_memory(self) -> list[Kept]:
        """Loops that store what they compute to the same place in every round."""
        from kscope.features.patterns.kept_in_memory import kept_in_memory

        return kept_in_memory(self._code)

    @cached_property
    def repeated_loads(self) -> list[Repeated]:
        """Loads that fetch the same in each round of a loop around them."""
        return repeated_loads.repeated_loads(self._code)

    # Arithmetic

    @cached_property
    def math_calls(self) -> list[int]:
        """Special-function instructions of floats and range reductions of accurate functions."""
        return math_functions.math_calls(self._code)

    @cached_property
    def accurate_calls(self) -> list[MathCall]:
        """Calls of accurate float functions other than powf, each with its own instructions."""
        from kscope.features.patterns.math_functions import half_divisions

        return [*accurate_math.accurate_calls(self._code), *half_divisions(self._code)]

    @cached_property
    def shared_divisors(self) -> set[int]:
        """Anchors of the divisions whose divisor another division has too."""
        return accurate_math.shared_divisors(self._code, self.accurate_calls)

    @cached_property
    def slow_paths(self) -> set[int]:
        """What special arguments of math functions (zero, subnormal, infinite) are sent through."""
        from kscope.features.patterns.slow_paths import slow_paths

        return slow_paths(self._code)

    @cached_property
    def powers(self) -> list[Power]:
        """The calls of powf."""
        return math_functions.powers(self._code)

    def reduces_range(self, index: int) -> bool:
        """A multiplication by a constant that only the range reduction of an accurate function uses."""
        return math_functions.reduces(self._code[index])

    @cached_property
    def integer_divisions(self) -> list[int]:
        """Reciprocals around which divisions and modulos by run-time integers are built."""
        return math_functions.integer_divisions(self._code)

    def dividend(self, division: int) -> tuple[frozenset[str], int]:
        """What an integer division's operands come from, the names that `facts.addresses.origins` gives, and the
        products with reciprocals of all that is computed together."""
        return math_functions.dividend(self._code, division)

    @cached_property
    def unfused(self) -> list[int]:
        """Multiplies whose result goes to nothing but one add (PAIRS)."""
        return math_functions.unfused(self._code)

    @cached_property
    def self_moves(self) -> list[int]:
        """Moves of a register to itself: what -G leaves."""
        return math_functions.self_moves(self._code)

    @cached_property
    def conversions(self) -> list[int]:
        """Number-format conversions (CONVERSIONS), those of an integer division left aside."""
        return math_functions.conversions(self._code)

    @cached_property
    def double_calls(self) -> list[DoubleCall]:
        """Functions of doubles (pow, exp, division, ...) that ran, those with most FP64 instructions first."""
        from kscope.features.patterns.double_math import double_calls

        return double_calls(self._code)

    @cached_property
    def tabled(self) -> Tabled | None:
        """Functions of doubles of values that indexed constants give: what a table of results can stand for."""
        from kscope.features.patterns.double_math import tabled

        return tabled(self._code, self.double_calls)

    def of_doubles(self, seeds: Iterable[int]) -> list[int]:
        """What belongs to double arithmetic (the seeds: it and its conversions), memory accesses left aside."""
        from kscope.features.patterns.double_math import of_doubles

        return of_doubles(self._code, seeds)

    @cached_property
    def widened(self) -> tuple[list[int], list[int]]:
        """(conversions from float to double, the double arithmetic that their values reach)."""
        return math_functions.widened(self._code)

    # Strong loads

    def strong_loads_shared_by_blocks(self, launch: Launch) -> list[int]:
        """Strong loads of few bytes that all blocks read and nobody writes: L1 could answer them."""
        return strong_loads.shared_by_blocks(self._code, launch)

    @property
    def l1_over_l2_latency(self) -> float:
        """Latency of an L1 hit over that of an L2 hit, 0..1 (kscope/arch/latency.toml)."""
        return strong_loads.latency_left(self._code)
