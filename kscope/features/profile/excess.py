"""Accesses that move more than their bytes need: what they touch against the fewest that could do, an instruction.

Three rules ask the same question of different columns: scattered lanes and misaligned bases of sectors, bank conflicts
of wavefronts. What they do with the answer differs.
"""

from __future__ import annotations

from msgspec import Struct

from kscope.features.profile.code import Code
from kscope.features.sass.columns import Column, total

SECTORS = "memory_l2_theoretical_sectors_global"
IDEAL_SECTORS = "memory_l2_theoretical_sectors_global_ideal"
WAVEFRONTS = "memory_l1_wavefronts_shared"
IDEAL_WAVEFRONTS = "memory_l1_wavefronts_shared_ideal"
POSTED = ("store", "reduction")  # accesses without a result: nobody waits for them
LINE = 4  # sectors that one request to L2, or one wavefront of L1, can carry


class Excess(Struct, frozen=True):
    """members: the instructions with too much, actual and ideal their sums; every, needed: the same over all
    instructions; share: of all samples that are blamed on the members; worst: the member with most of them, with its
    actual and ideal an execution; stores: share of the members' excess that stores and reductions make, for
    which nobody waits."""

    members: list[int]
    actual: float
    ideal: float
    every: float
    needed: float
    share: float
    worst: int
    worst_actual: float
    worst_ideal: float
    stores: float

    @property
    def ratio(self) -> float:
        """What is left of the members' cost without the excess, 0..1."""
        return self.ideal / self.actual if self.actual else 1.0

    @property
    def kept(self) -> float:
        """What is left of everybody's cost, 0..1."""
        return 1 - (self.actual - self.ideal) / self.every if self.every else 1.0


def excess(code: Code, actual: Column, ideal: Column, above: float, upto: float, least: float) -> Excess | None:
    """Instructions whose actual cost is over (1 + above) and at most (1 + upto) times the ideal; None where their
    excess is less than `least` of all cost."""
    members = [i for i, x in enumerate(actual) if ideal[i] * (1 + above) < x <= ideal[i] * (1 + upto)]
    mine, best, every = total(actual, members), total(ideal, members), total(actual)
    if not members or mine - best < least * every:
        return None
    worst = code.hottest(members)[0]
    runs = max(code.executed[worst], 1)
    posted = [i for i in members if code.classes[i].access in POSTED]
    stores = (total(actual, posted) - total(ideal, posted)) / (mine - best) if mine > best else 0.0
    return Excess(
        members, mine, best, every, total(ideal), code.blamed_share(members), worst, actual[worst] / runs,
        ideal[worst] / runs, stores,
    )  # fmt: skip


def partly(actual: Column, ideal: Column, members: list[int], share: float) -> Column:
    """The ideal, but members reach only `share` (0..1) of the way to it."""
    reached = list(ideal)
    for i in members:
        reached[i] = actual[i] - share * max(0.0, actual[i] - ideal[i])
    return reached


def least_wavefronts(code: Code, members: list[int], sectors: Column) -> float:
    """Wavefronts of L1 (or requests to L2) that these accesses would need: whole lines, at least one an execution."""
    return sum(max(float(code.executed[i]), sectors[i] / LINE) for i in members)


def only_bulk(code: Code) -> bool:
    """Whether the code was counted and makes no global accesses of its own: bulk copies have no sectors an
    instruction."""
    mine = code.where(lambda ins, op: op.space in ("global", "generic") and op.pipe == "lsu")
    return any(code.executed) and not code.ran(mine)
