"""Work that few warps of a block do between two barriers while the others wait at the second one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kscope.features.patterns.loop_parallelism import shareable
from kscope.features.profile.code import Code
from kscope.features.sass.cfg import Cfg
from kscope.features.sass.columns import total

HOT = 0.02  # share of all samples from which a loop is worth asking


class Alone(Struct, frozen=True):
    """The hottest loop between barriers. `members`: its instructions; `warps`: share of the block's warps that enter
    it; `lanes`: share of their lanes that work in it; `shareable`: whether more threads could divide its rounds."""

    members: tuple[int, ...]
    warps: float
    lanes: float
    shareable: bool

    @property
    def threads(self) -> float:
        """Share of the block's threads that work."""
        return self.warps * self.lanes


def alone(code: Code) -> Alone | None:
    """None where there is no such loop with samples, or no barrier beside it."""
    cfg = code.cfg
    barriers = [i for i in range(len(code)) if code[i].opcode == "BAR"]
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
    outside = [p for p in cfg.blocks[loop.header].predecessors if p not in loop.blocks]
    entered = max((float(code.executed[cfg.blocks[p].end - 1]) for p in outside), default=passed)
    ran = total(code.executed, loop.instructions)
    lanes = total(code.threads, loop.instructions) / (32 * ran) if ran and any(code.threads) else 1.0
    return Alone(loop.instructions, min(1.0, entered / passed), min(1.0, lanes), shareable(code, number))


def _beside(cfg: Cfg, parent: int | None, barriers: Sequence[int]) -> list[int]:
    """Barriers in the loop around, or where there is none, those in no loop."""
    if parent is None:
        return [i for i in barriers if cfg.loop_of[i] is None]
    return [i for i in barriers if i in cfg.loops[parent].instructions]
