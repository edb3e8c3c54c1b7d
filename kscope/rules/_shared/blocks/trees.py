"""Trees and scans of a block: which of their instructions a remedy of LAT304 removes, and what that gains."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kscope.features.facts import Code, Facts

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Estimate

ONE = "a warp takes all values of an item, some a lane, with one tree of shuffles and no barrier; several items a block"
EVEN = "two buffers instead of a second barrier, balanced work, named barriers, smaller blocks"
LEVEL = (
    "balanced work between the barriers: each warp as many rounds as the others, items dealt out in turn or by a "
    "counter of the block; not smaller blocks, whose warps would have more of it each"
)
FEWER = (
    "shorten what the few warps do that have work (its loads a phase ahead), or give the others some: several items a "
    "block at once; smaller blocks pass more barriers for the same work"
)
FEW, SMALL = 3, 8
"""Barriers a warp passes, and warps of a block, below which less of a block only shares its work among fewer: of 128
threads for each molecule's pairs, with two barriers, 64 took 1.14 times as long (public; judged)."""


def even(facts: Facts, passed: float) -> str:
    """What shortens waits at barriers that are no phases of a tree; passed: barriers, by each warp."""
    return LEVEL if passed < FEW and facts.counters.launch.warps_per_block < SMALL else EVEN


def shared(code: Code) -> list[int]:
    """Accesses of shared memory that ran. Without them barriers order what lies in device memory, and who has nothing
    to do between them is waited for by nobody: in blocks of 64 threads instead of 1,024 a public kernel took 2.2 times
    as long, in blocks of 32 instead of 128 another one as long as before."""
    return list(code.ran(code.where(lambda ins, op: op.space == "shared")))


def lost(code: Code, serial: float) -> float:
    """Of the waits at barriers between which a share of the warps works, what is lost: theirs alone where the others,
    who have nothing to do, share nothing with them either."""
    return 1.0 if shared(code) else serial


def rounds(facts: Facts) -> frozenset[int]:
    """All instructions of the rounds of trees and scans in shared memory."""
    return facts.patterns.block_trees(32 * facts.counters.launch.warps_per_block)


def of_each_warp(facts: Facts) -> frozenset[int]:
    """The trees of shuffles whose results a block only puts together, where as many blocks come as the device holds
    warps: with a warp for each item it stays as full as it is."""
    launch = facts.counters.launch
    if launch.warps_per_block < 2 or launch.waves < launch.warps_per_block:
        return frozenset()
    return facts.patterns.warp_trees


def one_warp(facts: Facts, code: Code, trees: Collection[int], barriers: Collection[int], waits: float) -> Estimate:
    """An item's trees become one, its barriers and what few warps do behind them none. Loads and what is done with
    each value stay: as many, in fewer warps. waits: share of the samples at the barriers."""
    lone = facts.profile.serial_section
    members = {*trees, *barriers, *(lone.members if lone is not None and lone.warps < 0.5 else ())}
    touched = waits + code.blamed_share(members.difference(barriers))
    remaining = 1 / facts.counters.launch.warps_per_block
    scale = facts.profile.demands_after(members, remaining)
    latency = facts.estimate.floor_without(members, remaining)
    return facts.estimate.relieve(touched, remaining, scale, latency=latency, hides=True)
