"""Work that few warps of a block do between two barriers while the others wait at the second one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kscope.features.patterns.loop_parallelism import shareable, trips
from kscope.features.profile.code import Code
from kscope.features.sass.cfg import Cfg
from kscope.features.sass.columns import total
from kscope.features.sass.slices import alike

HOT = 0.02  # share of all samples from which a loop is worth asking
FEW = 0.5  # of a block's warps, up to which the others wait for them
ROUNDS = 1.5  # of a thread that walks a loop, from which more threads can take some of them
EXPLAINED = 0.5  # of the waits at a barrier, from which a section is what they wait for


class Alone(Struct, frozen=True):
    """The hottest loop between barriers, or what the most waited-for barrier waits for. `members`: its instructions;
    `warps`: share of the block's warps that enter it; `lanes`: share of their lanes that work in it; `shareable`:
    whether more threads could divide its rounds."""

    members: tuple[int, ...]
    warps: float
    lanes: float
    shareable: bool

    @property
    def threads(self) -> float:
        """Share of the block's threads that work."""
        return self.warps * self.lanes


def alone(code: Code) -> Alone | None:
    """None where there is no such code with samples, or no barrier beside it."""
    barriers = [i for i in range(len(code)) if code[i].opcode == "BAR"]
    loop = _loop(code, barriers)
    if loop is not None and loop.warps < FEW and _together(code, loop.members[0]):
        loop = None
    return loop if loop is not None and loop.warps < FEW else _awaited(code, barriers) or loop


def _awaited(code: Code, barriers: Sequence[int]) -> Alone | None:
    """What few warps run on the way to the barrier with the longest waits. While they do, all others stand at it: a
    share w of the warps takes w of the samples of that time, and the others 1 - w."""
    waits = code.blame.by_producer.get("barrier")
    if waits is None or not barriers:
        return None
    cfg, last = code.cfg, max(barriers, key=waits.__getitem__)
    passed, waited = float(code.executed[last]), float(waits[last])
    if not passed or waited < HOT * total(code.samples):
        return None
    around = cfg.loops_around(last)
    entered = dict[int, float]()  # how often warps come to an instruction or to the loop that it is in
    for i in _before(cfg, last, barriers):
        loops = cfg.loops_around(i)
        if not set(around) <= set(loops):  # what ran before the loop ran once, not in few warps
            continue
        inner = [n for n in loops if n not in around]
        entered[i] = _entered(code, inner[-1]) if inner else float(code.executed[i])
    members = tuple(i for i, times in entered.items() if code.executed[i] and 0 < times <= FEW * passed)
    if not members or _together(code, members[0]):
        return None
    warps = max(entered[i] for i in members) / passed
    if total(code.samples, members) * (1 - warps) / warps < EXPLAINED * waited:
        return None
    inside = {cfg.loop_of[i] for i in members}.difference(around)
    return Alone(members, warps, _lanes(code, members), any(_dealt_out(code, n) for n in inside if n is not None))


def _dealt_out(code: Code, number: int) -> bool:
    """Whether more threads than now can take the rounds of a loop: those that walk it do so more than once."""
    return trips(code, number) >= ROUNDS and shareable(code, number)


def _together(code: Code, first: int) -> bool:
    """Whether whole blocks come to an instruction or pass it by: what decides is the same for all threads (a distance,
    a flag). Few come there then, yet nobody waits for them."""
    cfg, number = code.cfg, code.cfg.block_of[first]
    ways = list[int]()
    while (above := cfg.idom[number]) is not None and above != number:
        last = cfg.blocks[above].end - 1
        if code[last].guard is not None and code.executed[cfg.blocks[number].start] <= FEW * code.executed[last]:
            ways.append(last)
        number = above
    return bool(ways) and alike(code, ways)


def _before(cfg: Cfg, barrier: int, barriers: Sequence[int]) -> list[int]:
    """Instructions from which a warp reaches a barrier without passing another, in address order."""
    others = set(barriers)
    found, seen, todo = list[int](), set[int](), [(cfg.block_of[barrier], barrier)]
    while todo:
        number, end = todo.pop()
        block = cfg.blocks[number]
        first = max((i + 1 for i in range(block.start, end) if i in others), default=None)
        found += range(block.start if first is None else first, end)
        if first is not None:
            continue
        fresh = [p for p in block.predecessors if p not in seen]
        seen.update(fresh)
        todo += [(p, cfg.blocks[p].end) for p in fresh]
    return sorted(set(found))


def _loop(code: Code, barriers: Sequence[int]) -> Alone | None:
    cfg = code.cfg
    inner = [n for n, lp in enumerate(cfg.loops) if lp.innermost and not set(barriers).intersection(lp.instructions)]
    if not inner or not barriers:
        return None
    number = max(inner, key=lambda n: total(code.samples, cfg.loops[n].instructions))
    loop = cfg.loops[number]
    if total(code.samples, loop.instructions) < HOT * total(code.samples):
        return None
    beside = _beside(cfg, loop.parent, barriers)
    passed = max((float(code.executed[i]) for i in beside), default=0.0)
    if not passed:
        return None
    warps = min(1.0, (_entered(code, number) or passed) / passed)
    return Alone(loop.instructions, warps, _lanes(code, loop.instructions), _dealt_out(code, number))


def _entered(code: Code, number: int) -> float:
    """How often warps come to a loop from outside."""
    cfg, loop = code.cfg, code.cfg.loops[number]
    outside = [p for p in cfg.blocks[loop.header].predecessors if p not in loop.blocks]
    return max((float(code.executed[cfg.blocks[p].end - 1]) for p in outside), default=0.0)


def _lanes(code: Code, members: Sequence[int]) -> float:
    ran = total(code.executed, members)
    return min(1.0, total(code.threads, members) / (32 * ran)) if ran and any(code.threads) else 1.0


def _beside(cfg: Cfg, parent: int | None, barriers: Sequence[int]) -> list[int]:
    """Barriers in the loop around, or where there is none, those in no loop."""
    if parent is None:
        return [i for i in barriers if cfg.loop_of[i] is None]
    return [i for i in barriers if i in cfg.loops[parent].instructions]
