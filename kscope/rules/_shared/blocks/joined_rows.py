"""What lanes that share a row do more than lanes with a row each: what is done once a row, and joining its sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kscope.features.facts import Code, Facts, total

if TYPE_CHECKING:
    from kscope.features.facts import Demand

STEP = 2  # instructions of a shuffle and what it is for
LEAST = 1.1  # times the instructions of now, below which they are not counted: rounds save counters and tests, too


def joined(facts: Facts, code: Code, members: Sequence[int], lanes: int) -> dict[Demand, float]:
    """Times the instructions of now where so many lanes share a row that one lane walks with these accesses. Of what
    lies outside the row's loop a warp has as many rows fewer; each sum of the loop is joined in log2(lanes) steps. A
    public kernel with 15 sums and rows of 58 elements: 0.62x with a warp a row, 0.96x with 8 lanes."""
    loop = code.cfg.loop_of[code.hottest(members)[0]] if members else None
    if loop is None or lanes <= 1:
        return {}
    inside = set(code.cfg.loop_body(loop))
    every = total(code.executed, range(len(code)))
    once = every - total(code.executed, inside)
    adding = (code[i] for i in inside if code.classes[i].pipe not in ("alu", "uniform"))
    sums = {r for ins in adding for r in {*ins.defs} & {*ins.uses}}
    rows = code.executed[code.cfg.blocks[code.cfg.loops[loop].header].start] / max(1.0, facts.patterns.trips(loop))
    steps = STEP * len(sums) * max(1, lanes.bit_length() - 1)
    times = 1 + (lanes - 1) * once / every + lanes * steps * rows / every
    return {"instructions": times} if times > LEAST else {}
