"""Shared by the rules on accesses that move more than their bytes need: two counters of each instruction, what was and
what would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.features.facts import Code, Column, no_higher, up_to
from kscope.rules.base import PASSED, Missing, Passed, ProfiledRule, derived

if TYPE_CHECKING:
    from collections.abc import Callable

    from kscope.features.facts import Facts, Scale
    from kscope.model.contract.analysis import Estimate, Evidence

SCATTERED = 0.5  # excess over ideal up to which an access is contiguous but misaligned (MEM108), not scattered


class ExcessRule(ProfiledRule):
    """A rule that compares two counters of each instruction."""

    regime = "memory"
    needs_samples = True
    collect = "--section SourceCounters"

    def columns(
        self, code: Code, actual: str, ideal: str, untouched: Callable[[], bool]
    ) -> tuple[Column, Column] | Passed | Missing:
        """Both counters. Without them the rule passes where the code has nothing that they count (`untouched`)."""
        was, would = code.column(actual), code.column(ideal)
        if was is not None and would is not None:
            return was, would
        return PASSED if untouched() else Missing(f"{actual} was not collected; profile with {self.collect}")


def up_to_misses(facts: Facts, scale: Scale, relieved: Callable[[Scale], Estimate]) -> Estimate:
    """What the fix brings where sectors that lanes come back for hit L2, its upper end where they miss it as often as
    the others: the most that device memory can be asked less. No range goes beyond what that leaves there; where it is
    full, what its bytes are for decides, and nothing more is hoped for. relieved: the estimate by demands."""
    point, dram = relieved(scale), facts.counters.units.get("dram")
    if dram is None or dram.load >= facts.constants.full_unit:
        return point
    fewer: Scale = {**scale, "dram_bytes": min(scale["dram_bytes"], scale["l2_sectors"])}
    roof = facts.constants.over / max(dram.load_after(fewer), 1e-3)
    return up_to(point, no_higher(relieved(fewer), roof, facts.constants.noise))


def compared(actual: tuple[str, float, str], ideal: tuple[str, float, str], unit: str, share: float) -> list[Evidence]:
    """Evidence: both counters, each with its sum and what it is of, and the samples behind the accesses (0..1)."""
    (was, much, of), (would, little, same) = actual, ideal
    return [
        derived(was, much, unit, of),
        derived(would, little, unit, same),
        derived("samples behind these accesses", share, "", "share of warp samples, blamed by def-use"),
    ]
