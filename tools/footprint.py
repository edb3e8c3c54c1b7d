"""What kscope_trace.cuh leaves of itself in a profile of the program that records.

The recorder starts behind the prologue and its own set-up and ends before the block's last barrier: what lies before
and behind is in the report's shares and not in the records. All warps with a role record, so what a record costs is in
the report's shares and in the records alike.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kscope.features.sass.columns import total
from kscope.features.specialized.role_time import RoleTime, issued
from kscope.features.specialized.specialization import Specialization

CLOCK = "SR_CLOCKLO"
AROUND = 12  # blocks between a wait and the clock readings around it


class Footprint(Struct, frozen=True):
    """Shares of a block's life: `before` and `behind` what was recorded. `enclosed`: by role, shares of its time that
    it issues between the two clock readings around a wait (the address of a barrier, the descriptors of a product): the
    record calls that waiting. Less the waits that a record misses: a warp reads the clock behind a BAR.SYNC before it
    blocks."""

    before: float
    behind: float
    enclosed: Mapping[str, float]


def of_plain(sp: Specialization) -> Footprint:
    """A program without a recorder, compared from its roles' begin on."""
    main = sp.time_of(sp.main)
    return Footprint(main.prologue if main is not None else 0.0, 0.0, {})


def of_recorded(sp: Specialization, cycles: float, late: float) -> Footprint:
    """`cycles`: recorded life of a block; `late`: of them, what the main role's warps missed."""
    main, active = sp.time_of(sp.main), sp.code.kernel.metrics.get("sm__cycles_active.avg")
    if main is None or not active or not main.samples:
        return of_plain(sp)
    outside = 1 - cycles * sp.generations / active
    before = main.prologue + max(0.0, _set_up(sp, main) - late * sp.generations / active)
    before = min(before, main.priming.point)
    behind = max(0.0, min(outside - before, main.drain.point))
    enclosed = {t.role.name: _enclosed(sp, t) for t in sp.times if t.samples}
    return Footprint(before, behind, enclosed)


def _enclosed(sp: Specialization, time: RoleTime) -> float:
    """Share of a role's time that counts as issued and lies between the clock readings around a wait."""
    code, waits = sp.code, sp.waits.of(time.role.name)
    reads = {i for i in time.role.members if _reads(sp, i) and "32" in code[i].mods}
    around: set[int] = set()
    missed: set[int] = set()
    for wait in waits:
        ahead, behind = _up_to(sp, wait.index, reads, back=True), _up_to(sp, wait.index, reads, back=False)
        if ahead is not None and behind is not None:
            around |= ahead | behind
            if wait.kind == "barrier":
                missed |= {i for i in wait.members - behind if any(wait.index < r < i for r in reads)}
    blocked = total(sp.samples.stall.get("barrier", []), missed) if "barrier" in sp.samples.stall else 0.0
    return (issued(sp, time.role, around) - blocked) / time.samples


def _up_to(sp: Specialization, index: int, reads: set[int], *, back: bool) -> set[int] | None:
    """Instructions from one to the clock readings before (or behind) it on every way; None where a way has none."""
    cfg = sp.code.cfg
    seen: set[int] = set()
    blocks: set[int] = set()
    queue = [(cfg.block_of[index], index)]
    while queue:
        block, at = queue.pop()
        one = cfg.blocks[block]
        way = range(at, one.start - 1, -1) if back else range(at, one.end)
        for i in way:
            if i in reads:
                break
            seen.add(i)
        else:
            following = one.predecessors if back else one.successors
            if not following or len(blocks) > AROUND:
                return None
            for b in following:
                if b not in blocks:
                    blocks.add(b)
                    queue.append((b, cfg.blocks[b].end - 1 if back else cfg.blocks[b].start))
    return seen


def _set_up(sp: Specialization, main: RoleTime) -> float:
    """Share of the main role's time up to its recorder's first reading of the whole clock."""
    found = 0.0
    for way in main.role.ways:
        first = min((i for i in way if _reads(sp, i) and "32" not in sp.code[i].mods), default=None)
        if first is not None:
            found += total(sp.samples.all, (i for i in way if i <= first))
    return found / main.samples


def _reads(sp: Specialization, index: int) -> bool:
    ins = sp.code[index]
    return ins.opcode == "CS2R" and CLOCK in ins.text
