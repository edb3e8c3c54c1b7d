"""What the code keeps in local memory: spills, arrays, copies of parameters."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from kscope.features.patterns import local_memory
from kscope.features.sass.listing import Listing


class LocalMemoryFacts:
    """The part of `facts.patterns` that speaks of local memory. Instructions are named by index."""

    _code: Listing

    @cached_property
    def local_accesses(self) -> list[int]:
        """Loads and stores of local memory."""
        return local_memory.local_accesses(self._code)

    @cached_property
    def spills_and_arrays(self) -> tuple[list[int], list[int], bool]:
        """(spills, array accesses, whether that is certain), by the code alone."""
        return local_memory.spills_and_arrays(self._code)

    def fixed_slot(self, index: int) -> bool:
        """The address is the stack pointer and a constant."""
        return local_memory.fixed_slot(self._code, index)

    def slot_offset(self, index: int) -> int | None:
        """Bytes from the stack pointer; None for a computed address."""
        return local_memory.slot_offset(self._code, index)

    @cached_property
    def frame(self) -> int:
        """Bytes of local memory that the kernel itself sets aside for a thread: arrays, spills, what it saves."""
        return local_memory.frame(self._code)

    def only_counting(self, arrays: Iterable[int]) -> list[int]:
        """What goes beside the accesses where loops whose counters index an array have as many rounds as the compiler
        knows: counters, tests, branches. Empty where loaded data has a say."""
        return local_memory.counted(self._code, arrays)

    def passed_on(self, arrays: Iterable[int]) -> bool:
        """These are in memory for a function that is called through a pointer, not for an index."""
        return local_memory.passed_on(self._code, arrays)

    def copied_parameters(self, arrays: Iterable[int]) -> bool:
        """These are accesses of the launch's parameters, copied so that a computed index can pick among them."""
        return local_memory.copied(self._code, arrays)
