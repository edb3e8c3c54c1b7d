"""What kscope_trace.cuh leaves of itself in a profile of the program that records.

The recorder starts behind the prologue and its own set-up and ends before the block's last barrier: what lies before
and behind is in the report's shares and not in the records. One warp of each warpgroup records: it alone waits for its
records to leave its registers (a clock read that waits for the store before it), so those samples count for a warpgroup
what they mean for one warp.
"""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kscope.features.columns import total
from kscope.features.role_time import RoleTime
from kscope.features.specialization import Specialization

CLOCK = "SR_CLOCKLO"
WARPS = 4  # of a warpgroup


class Footprint(Struct, frozen=True):
    """Shares of a block's life: `before` and `behind` what was recorded; `alone`: what a recording warp of the main
    role issues beyond its neighbours."""

    before: float
    behind: float
    alone: float


def of_plain(sp: Specialization) -> Footprint:
    """A program without a recorder, compared from its roles' begin on."""
    main = sp.time_of(sp.main)
    return Footprint(main.prologue if main is not None else 0.0, 0.0, 0.0)


def of_recorded(sp: Specialization, cycles: float, late: float) -> Footprint:
    """`cycles`: recorded life of a block; `late`: of them, what the main role's warps missed."""
    main, active = sp.time_of(sp.main), sp.code.kernel.metrics.get("sm__cycles_active.avg")
    if main is None or not active or not main.samples:
        return of_plain(sp)
    outside = 1 - cycles * sp.generations / active
    before = main.prologue + max(0.0, _set_up(sp, main) - late * sp.generations / active)
    before = min(before, main.priming.point)
    return Footprint(before, max(0.0, min(outside - before, main.drain.point)), (WARPS - 1) * _held(sp, main))


def _set_up(sp: Specialization, main: RoleTime) -> float:
    """Share of the main role's time up to its recorder's first reading of the whole clock."""
    found = 0.0
    for way in main.role.ways:
        first = min((i for i in way if _reads(sp, i) and "32" not in sp.code[i].mods), default=None)
        if first is not None:
            found += total(sp.samples.all, (i for i in way if i <= first))
    return found / main.samples


def _held(sp: Specialization, main: RoleTime) -> float:
    """Share of the main role's time in which clock reads in its inner loop wait for a store before them."""
    waits = sp.samples.stall.get("long_scoreboard")
    return total(waits, (i for i in sp.loops if _reads(sp, i))) / main.samples if waits is not None else 0.0


def _reads(sp: Specialization, index: int) -> bool:
    ins = sp.code[index]
    return ins.opcode == "CS2R" and CLOCK in ins.text
