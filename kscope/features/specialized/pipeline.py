"""A pipeline of specialised warps: who works, where they wait, the unit that their work is for, and its phases.

What the modules beside this one (times of roles, causes of loss, adjusted stalls) start from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from kscope.features.profile.calibration import Samples, calibrated
from kscope.features.sass.columns import total
from kscope.features.sass.graph import reached
from kscope.features.specialized.phases import SERIES, Activity, Phases, phases, plateau_of
from kscope.features.specialized.roles import PRODUCTS, STORES, Role, Roles
from kscope.features.specialized.timed import Timed, timed_of
from kscope.features.specialized.wait_sites import Wait, Waits

if TYPE_CHECKING:
    from kscope.features.counters.units import Unit
    from kscope.features.profile.code import Code

Tier = Literal["A", "B", "C"]
AGAIN = 1.5  # tiles a block, below which, and blocks an SM, above which every tile starts a pipeline of its own
WAITING = ("long_scoreboard", "short_scoreboard", "barrier", "warpgroup_arrive", "membar", "sleeping")
"""Reasons that count as waiting at a wait site that does more than wait."""
SCHEDULERS = 4  # of an SM


class Pipeline:
    """The roles of one specialised kernel, where they wait, and the unit whose work it is for."""

    def __init__(self, code: Code, roles: Roles, waits: Waits, sampled: Activity | None, units: Mapping[str, Unit]):
        self.code, self.roles, self.waits, self.activity, self.units = code, roles, waits, sampled, units

    @cached_property
    def samples(self) -> Samples:
        return calibrated(self.code)

    @property
    def tier(self) -> Tier:
        """A: samples with time stamps; B: timelines; C: neither."""
        if self.timed is not None:
            return "A"
        return "B" if self.activity is not None and self.phases is not None else "C"

    @cached_property
    def timed(self) -> Timed | None:
        return timed_of(self.code, self.code.kernel.timed, self.activity, self.phases)

    @cached_property
    def products(self) -> bool:
        """Whether tensor work is what the kernel is for."""
        return any(self.code[i].opcode in PRODUCTS for r in self.roles.roles for i in r.members)

    @cached_property
    def unit(self) -> str:
        """The unit whose work the kernel is for: the tensor pipe where there are products, else the fuller memory."""
        if self.products:
            return "tensor"
        loads = {u: self.units[u].load for u in ("dram", "l2") if u in self.units}
        if self.activity is not None:
            loads = {u: self.activity.lines[u].mean / plateau_of(u) for u in ("dram", "l2") if u in self.activity.lines}
        return max(loads, key=lambda u: loads[u], default="dram")

    @cached_property
    def phases(self) -> Phases | None:
        return phases(self.activity, self.unit) if self.activity is not None else None

    @property
    def span(self) -> float:
        """us from the first block's begin to the last one's end; 0 without a timeline."""
        return self.activity.span if self.activity is not None else 0.0

    @property
    def fixed(self) -> float:
        """us that do not grow with the work of a tile: launch, fill, bubbles, drain."""
        ph, duration = self.phases, self.code.kernel.duration_ns
        if ph is None or not duration:
            return 0.0
        return max(0.0, duration / 1000 - self.span) + ph.fill + ph.drain + min(ph.lost, max(0.0, ph.steady - ph.busy))

    @property
    def resolved(self) -> bool:
        return self.phases is not None and self.phases.resolved

    # --- shares of time

    @cached_property
    def before(self) -> frozenset[int]:
        """Common instructions from which the roles are still ahead: the prologue."""
        heads = [min(way) for r in self.roles.roles for way in r.ways]
        ahead = reaching(self.code, heads)
        return frozenset(i for i in self.roles.common if i in ahead)

    @cached_property
    def main(self) -> Role | None:
        """The role whose stalls stop the unit."""
        return max(self.roles.consumers, key=lambda r: r.warps or 0.0, default=None)

    @cached_property
    def loops(self) -> frozenset[int]:
        """Instructions of the loops around the main role's products, the innermost ones (those over K)."""
        code, cfg, role = self.code, self.code.cfg, self.main
        found = {cfg.loop_of[i] for i in (role.members if role is not None else ()) if code[i].opcode in PRODUCTS}
        deepest = max((cfg.loops[n].depth for n in found if n is not None), default=0)
        inner = [n for n in found if n is not None and cfg.loops[n].depth == deepest]
        return frozenset(i for n in inner for i in cfg.loops[n].instructions)

    @cached_property
    def epilogue(self) -> frozenset[int]:
        """Instructions of the main role behind its last product, up to where the next tile's begin."""
        code, role = self.code, self.main
        tries = self._at_waits("mbarrier")
        out: set[int] = set()
        for way in role.ways if role is not None else ():
            last = max((i for i in way if code[i].opcode in (*PRODUCTS, "WARPGROUP")), default=None)
            if last is None:
                continue
            behind = {i for i in way if i > last and i not in tries and i not in self.loops}
            if any(code[i].opcode in (*STORES, "STS", "STSM") for i in behind):
                out |= behind
        return frozenset(out)

    def _at_waits(self, kind: str) -> frozenset[int]:
        return frozenset().union(*(w.members for w in self.waits.sites if w.kind == kind))

    @cached_property
    def data_waits(self) -> list[Wait]:
        """Where the main role waits for data."""
        return [w for w in self.waits.of(self.main.name) if key_of(w) == "data"] if self.main is not None else []

    @cached_property
    def storing(self) -> float:
        """Share of the main role's time behind the last product of a tile."""
        role = self.main
        if role is None or not role.warps:
            return 0.0
        return total(self.samples.all, self.epilogue) / max(1.0, self.life[0] * role.warps)

    @property
    def tiles(self) -> float:
        """Tiles that one block works on: how often its main role comes to the end of one."""
        code, role = self.code, self.main
        first = next((i for i in sorted(self.epilogue) if code.executed[i]), None)
        if role is None or not role.warps or first is None:
            return 1.0
        return max(1.0, code.executed[first] / (code.kernel.launch.blocks * role.warps))

    @property
    def generations(self) -> float:
        """Blocks that an SM works on one after the other."""
        launch = self.code.kernel.launch
        return max(1.0, launch.waves or 1.0)

    @property
    def turns(self) -> bool:
        """Whether every tile starts and ends a pipeline of its own: blocks of one tile follow each other on an SM."""
        return self.tiles < AGAIN and self.generations > AGAIN

    def busy(self, unit: str) -> float:
        """Activity of a unit in the steady phase over what it holds at best, 0..1."""
        if self.activity is not None and unit in self.activity.lines:
            if unit == self.unit and self.phases is not None:
                # Busy is busy: only memory cannot be busy all the time.
                best = 1.0 if unit == "tensor" else max(self.phases.level, self.phases.attainable)
                return min(1.0, self.phases.mean / best)
            return min(1.0, self.activity.lines[unit].mean / plateau_of(unit))
        return self.units[unit].load if unit in self.units else 0.0

    def works(self, unit: str) -> float:
        """Share of the time in which SMs have work that a unit works, at the rate that it holds at best, 0..1."""
        ph = self.phases
        if unit == self.unit:
            for stem in SERIES[unit] if unit == "tensor" else ():
                if (counted := self.code.kernel.metrics.get(f"{stem}.avg.pct_of_peak_sustained_active")) is not None:
                    return min(1.0, counted / 100)
            if ph is not None:
                return self.busy(unit) * ph.steady / ph.active
        return self.busy(unit)

    @cached_property
    def life(self) -> tuple[float, float]:
        """Least and most samples of one warp that lives as long as its block. The sampler goes round the four
        schedulers of an SM and takes one warp of each: where their warps are not equally many, those of the fuller one
        get fewer. Where warps without a role leave at once, the others get their samples."""
        code, role = self.code, self.main
        every = max(1, code.kernel.launch.warps)
        even = sum(self.samples.all) / every
        working = sum(min(r.working or r.warps or 0.0, r.warps or 0.0) for r in self.roles.roles)
        idle = max(0.0, every - working)
        waiting = total(self.samples.all, self.roles.common - self.before)
        alive = every if waiting > 0.5 * idle * even else max(1.0, working)
        mean = even * every / alive
        if role is not None and role.warps:
            own = total(self.samples.all, role.members) / role.warps
            mean = max(mean, own + total(self.samples.all, self.before) / every)
        fewest, most = int(alive // SCHEDULERS), -int(-alive // SCHEDULERS)
        if fewest == most or not fewest:
            return mean, mean
        return mean * alive / (SCHEDULERS * most), mean * alive / (SCHEDULERS * fewest)


def only_waits(sp: Pipeline, wait: Wait) -> bool:
    """Whether every sample at a site is a wait, for whatever reason."""
    return sp.code[wait.index].opcode in PRODUCTS or wait.kind == "mbarrier"


def waiting_at(sp: Pipeline, wait: Wait) -> float:
    """Samples that wait at a site. A product waits for its pipe in whatever queue it stands."""
    if only_waits(sp, wait):
        return total(sp.samples.all, wait.members | wait.beside)
    return sum(total(column, wait.members) for reason, column in sp.samples.stall.items() if reason in WAITING)


def reaching(code: Code, targets: Iterable[int]) -> frozenset[int]:
    """Instructions from which any of the targets can be reached."""
    cfg = code.cfg
    seen = reached([cfg.block_of[t] for t in targets], lambda b: cfg.blocks[b].predecessors)
    return frozenset(i for b in seen for i in range(cfg.blocks[b].start, cfg.blocks[b].end))


def key_of(wait: Wait) -> str:
    """The group of waits that one share of coverage holds for."""
    return "data" if wait.unit == "memory" and wait.kind == "mbarrier" else wait.unit
