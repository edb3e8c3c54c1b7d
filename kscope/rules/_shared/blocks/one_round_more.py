"""Whether more registers a thread make the grid take one round of the device more (LAT302)."""

from __future__ import annotations

import math
from typing import NamedTuple

from kscope.features.facts import Code, Facts

FEW = 4.0  # waves, above which a round more is little: kernels of more lost nothing to the registers of their loads
SOME = 0.5  # waves, below which a chip holds the grid with half of its warps as well
STEP = 8  # registers a thread, in which an SM gives them out
MOST = 255
WORD = 4


class Room(NamedTuple):
    """The most registers a thread with which the grid takes as many rounds as now, the loads they leave room for, as a
    multiple of those in flight now, and how many times more blocks there are for the places of all of them."""

    registers: int
    blocks: int
    rounds: int
    loads: float
    longer: float

    def gain(self, share: float, times: float) -> float:
        """Of `times` as many loads in flight where `share` of the time waits for them: as many as there is room for, or
        all of them at the price of the rounds."""
        return max(hidden(share, min(times, self.loads)), hidden(share, times) / self.longer)

    def words(self, threads: int) -> str:
        return (
            f"past {self.registers} registers a thread the grid takes {self.rounds + 1} rounds of blocks, not "
            f"{self.rounds}: __launch_bounds__({threads}, {self.blocks})"
        )


def hidden(share: float, times: float) -> float:
    """The share of the time that loads explain shrinks as more of them overlap; the rest stays."""
    return 1 / (1 - share + share / times)


def room_for(facts: Facts, code: Code, loads: list[int], times: float) -> Room | None:
    """Where the registers of `times` as many of these loads would leave an SM so few blocks that the grid takes a
    round more, which costs more than the loads save; None elsewhere."""
    launch, mine = facts.counters.launch, facts.kernel.launch
    shared = mine.shared_static + mine.shared_dynamic
    now = facts.profile.occupancy_with(mine.registers, mine.threads, shared)
    if not SOME < launch.waves <= FEW or not launch.even or now is None or not now.blocks or not loads:
        return None
    rounds = math.ceil(launch.waves)
    loop = code.cfg.loop_of[loads[0]]
    each = sum(max(1, code.classes[i].bytes // WORD) for i in loads if code.cfg.loop_of[i] == loop)
    wanted, most, blocks = min(MOST, math.ceil(mine.registers + (times - 1) * each)), 0, now.blocks
    for registers in range(-(-mine.registers // STEP) * STEP, MOST + 1, STEP):
        then = facts.profile.occupancy_with(registers, mine.threads, shared)
        if then is None or not then.blocks or math.ceil(launch.waves * now.blocks / then.blocks) > rounds:
            break
        most, blocks = registers, then.blocks
    all_ = facts.profile.occupancy_with(wanted, mine.threads, shared)
    if not mine.registers <= most < wanted or all_ is None or not all_.blocks:
        return None
    longer = max(1.0, launch.waves * now.blocks / all_.blocks) / max(1.0, launch.waves)
    return Room(most, blocks, rounds, 1 + (most - mine.registers) / each, longer)
