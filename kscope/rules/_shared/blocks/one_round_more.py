"""Rounds of the device that a grid takes: whether more registers a thread make one more of them, and how many elements
a thread fill whole ones (LAT302)."""

from __future__ import annotations

import math
from typing import NamedTuple

from kscope.features.facts import Code, Facts
from kscope.rules._shared.blocks.deeper_loads import dealt

FEW = 4.0  # waves, above which a round more is little: kernels of more lost nothing to the registers of their loads
SOME = 0.5  # waves, below which a chip holds the grid with half of its warps as well
STEP = 8  # registers a thread, in which an SM gives them out
MOST = 255
WORD = 4
HELD_LONG = 1.75  # registers a word that is loaded early, with its address (two public kernels: 1.7 and 2.6)
ENOUGH = 16  # loads of one thread that need nothing of each other, from which more elements are not the way (judged)
CROWDED = "a thread's own loads fill {} registers: those of two elements would take half of the warps and more"
BATCH = 4  # loads of one array in one block of a loop: nvcc's own unrolling of a loop whose length it does not know
MANY = 8.0  # waves, from which a last round that is not full costs less than an eighth


class Room(NamedTuple):
    """The most registers a thread with which the grid takes as many rounds as now, and the rounds with more; the loads
    they leave room for, as a multiple of those in flight now, and how many times more blocks there are for the places
    of all of them."""

    registers: int
    blocks: int
    rounds: int
    beyond: int
    loads: float
    longer: float

    def gain(self, share: float, times: float) -> float:
        """Of `times` as many loads in flight where `share` of the time waits for them: as many as there is room for, or
        all of them at the price of the rounds."""
        return max(hidden(share, min(times, self.loads)), hidden(share, times) / self.longer)

    def told(self, facts: Facts, way: str, share: float, times: float) -> tuple[str, float]:
        """The remedy in words, and its gain."""
        limit = f"__launch_bounds__({facts.kernel.launch.threads}, {self.blocks})"
        return (
            f"{way}; past {self.registers} registers a thread the grid takes {self.beyond} rounds of blocks, not "
            f"{self.rounds}: {limit}"
        ), self.gain(share, times)


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
    rounds = beyond = _whole(launch.waves)
    loop = code.cfg.loop_of[loads[0]]
    each = sum(max(1, code.classes[i].bytes // WORD) for i in loads if code.cfg.loop_of[i] == loop)
    wanted, most, blocks = min(MOST, math.ceil(mine.registers + (times - 1) * each)), 0, now.blocks
    for registers in range(-(-mine.registers // STEP) * STEP, MOST + 1, STEP):
        then = facts.profile.occupancy_with(registers, mine.threads, shared)
        if then is None or not then.blocks:  # no block fits: registers are not what it would be paid with
            return None
        beyond = _whole(launch.waves * now.blocks / then.blocks)
        if beyond > rounds:
            break
        most, blocks = registers, then.blocks
    all_ = facts.profile.occupancy_with(wanted, mine.threads, shared)
    if beyond <= rounds or not mine.registers <= most < wanted or all_ is None or not all_.blocks:
        return None
    longer = max(1.0, launch.waves * now.blocks / all_.blocks) / max(1.0, launch.waves)
    return Room(most, blocks, rounds, beyond, 1 + (most - mine.registers) / each, longer)


def _whole(waves: float) -> int:
    """Rounds of so many waves, but for what reports round."""
    return max(1, math.ceil(waves - 1e-6))


def in_rounds(
    facts: Facts, code: Code, loads: list[int], kind: str, told: tuple[str, float], share: float
) -> tuple[str, float, float]:
    """A remedy in words, how many times more of these loads it has in flight, and its gain. kind: `longer` threads take
    several elements each, `deeper` ones issue more of their loads early; others stay as they are."""
    (way, times), waves = told, facts.counters.launch.waves
    if kind == "longer" and waves < MANY:
        count, longer = elements_of_whole_rounds(waves, math.ceil(times))
        words = f"{way.replace('several', str(count), 1)}: whole rounds of the device"
        return words, count, hidden(share, count) / longer
    room = room_for(facts, code, loads, times) if kind == "deeper" else None
    if room is None:
        return way, times, hidden(share, in_flight(facts, code, loads, times) if kind == "deeper" else times)
    words, gain = room.told(facts, way, share, times)
    return words, times, gain


def in_flight(facts: Facts, code: Code, loads: list[int], times: float) -> float:
    """How many times more loads an SM has in flight, of `times` as many a thread at most, where a loop issues several
    rounds' at once already: each word more takes registers, and registers take warps. Elsewhere as many as asked for.
    Two public products of sparse rows, of 26 and 40 registers with 12 and 48 words in flight: 0.64x and 0.71x."""
    mine, together = facts.kernel.launch, _beside(code, loads)
    shared = mine.shared_static + mine.shared_dynamic
    now = facts.profile.occupancy_with(mine.registers, mine.threads, shared)
    if _rounds_of(facts, loads, together) < BATCH or now is None or not now.warps or not facts.counters.launch.waves:
        return times
    lanes = [i for i in dealt(facts, code, loads[0]) if i in together]  # a word for 32 rounds
    words = sum(max(1, code.classes[i].bytes // WORD) for i in together if i not in lanes)
    given, best = facts.counters.launch.waves * now.warps, 1.0  # what the grid has for an SM
    for more in (*(t for t in (1.5, 2.0, 3.0) if t < times), times):
        registers = mine.registers - len(lanes) + (more - 1) * words  # one address for all of an array
        then = facts.profile.occupancy_with(min(MOST, math.ceil(registers)), mine.threads, shared)
        if then is not None and registers <= MOST:
            best = max(best, more * min(then.warps, given) / min(now.warps, given))
    return best


def _beside(code: Code, loads: list[int]) -> list[int]:
    """Loads that ran in the first one's block."""
    block = code.cfg.block_of[loads[0]] if loads else None
    return [i for i in code.ran(range(len(code))) if code.cfg.block_of[i] == block and _asks(code, i)]


def _rounds_of(facts: Facts, loads: list[int], together: list[int]) -> int:
    """How many of them are of the first one's array."""
    array = facts.addresses.pointer(loads[0]) if loads else None
    return sum(array is not None and facts.addresses.pointer(i) == array for i in together)


def working_waves(facts: Facts, code: Code, loads: list[int]) -> float:
    """Waves of the warps that come to these loads: those without an element of theirs leave at once (of 7,813 warps of
    4.9 waves 1,250 had one: three a thread took 1.08 times as long, public)."""
    launch = facts.counters.launch
    reached = max((code.executed[i] for i in loads), default=0.0) / max(1, launch.warps)
    return launch.waves * min(1.0, reached) if loads else launch.waves


def _asks(code: Code, index: int) -> bool:
    return code.classes[index].access == "load" and code.classes[index].space == "global"


def elements_of_whole_rounds(waves: float, most: int) -> tuple[int, float]:
    """How many elements a thread can take for its elements' loads to be in flight together, up to `most`, and how many
    times more thread rounds the grid then takes: of 2.96 rounds now, four elements a thread make one of four times the
    length (0.9x where it was built), three make one of three times."""
    now = _whole(waves)
    longer = {k: _whole(waves / k) * k / now for k in range(2, max(2, min(most, now)) + 1)}
    best = max(longer, key=lambda k: (-longer[k], k))
    return best, longer[best]


def crowded(facts: Facts, code: Code) -> int:
    """Registers that a thread's own loads fill, where those of a second element would leave an SM fewer than half of
    its warps; 0 elsewhere. Public kernels: 32 loads of doubles a thread (40 registers or 150) 0.92x, 28 of words (34 or
    179) 0.65x."""
    mine = facts.kernel.launch
    loads = [i for i in code.where(lambda ins, op: op.access == "load" and op.space == "global") if code.executed[i]]
    most = max((code.executed[i] for i in loads), default=0.0)
    own = [i for i in loads if 2 * code.executed[i] > most and not facts.addresses.gathers(i)]
    if len(own) < ENOUGH:
        return 0
    words = sum(max(1, code.classes[i].bytes // WORD) for i in own)
    shared = mine.shared_static + mine.shared_dynamic
    now = facts.profile.occupancy_with(mine.registers, mine.threads, shared)
    more = int(HELD_LONG * words)
    then = facts.profile.occupancy_with(min(MOST, mine.registers + more), mine.threads, shared)
    return words if now is not None and then is not None and 2 * then.warps < now.warps else 0
