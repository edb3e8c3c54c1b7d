"""The time of a warp-specialised kernel: what each role does with it, what its waits cost, what stops the unit.

Roles and wait sites come from the code, phases from the timeline, shares from the warp samples: the sampler takes one
warp an SM an interval, so a role's samples are shares of its time. Priming is the prologue and the wait before the
first product (the fill of the timeline); drain is what follows the last one; in between, samples at wait sites are
waits and all others are issued. `kscope.features.specialized.coverage` says how much of the waits a busy unit covers.

Tier A: samples with time stamps (not read yet); B: PM-sampled timelines; C: samples without any time: priming is
bounded by the prologue and the first wait's share, coverage uses whole-kernel averages.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from kscope.features.profile.calibration import Samples, calibrated
from kscope.features.sass.columns import total
from kscope.features.specialized.adjusted_stalls import adjusted_stalls
from kscope.features.specialized.phases import SERIES, Activity, Phases, activity, phases, plateau_of
from kscope.features.specialized.pipeline_loss import Loss, loss_of
from kscope.features.specialized.role_time import RoleTime, key_of, life_of, reaching, role_time, waiting_at
from kscope.features.specialized.roles import PRODUCTS, STORES, Role, Roles, find_roles
from kscope.features.specialized.wait_sites import Wait, Waits, find_waits

if TYPE_CHECKING:
    from kscope.features.counters.units import Unit
    from kscope.features.profile.code import Code
    from kscope.features.specialized.coverage import Share


AGAIN = 1.5  # tiles a block, below which, and blocks an SM, above which every tile starts a pipeline of its own


class Specialization:
    """Everything known about one specialised kernel. Built by `specialization`."""

    def __init__(self, code: Code, roles: Roles, waits: Waits, sampled: Activity | None, units: Mapping[str, Unit]):
        self.code, self.roles, self.waits, self.activity, self.units = code, roles, waits, sampled, units

    @cached_property
    def samples(self) -> Samples:
        return calibrated(self.code)

    @property
    def tier(self) -> str:
        return "B" if self.activity is not None and self.phases is not None else "C"

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
        return life_of(self)

    @cached_property
    def times(self) -> tuple[RoleTime, ...]:
        return tuple(role_time(self, r) for r in self.roles.roles)

    def time_of(self, role: Role | None) -> RoleTime | None:
        return next((t for t in self.times if t.role is role), None)

    @cached_property
    def loss(self) -> Loss | None:
        return loss_of(self)

    @cached_property
    def adjusted(self) -> dict[str, Share]:
        """By reason: the factor on its raw share that is left when priming, drain and covered waits are taken away."""
        return adjusted_stalls(self)

    @property
    def slot_waits(self) -> float | None:
        """Share of the producers' steady time in which they wait for a free slot; None without producers' samples."""
        found = [t for t in self.times if t.role in self.roles.producers and t.samples]
        if not found:
            return None
        waits = sum(
            waiting_at(self, w) for t in found for w in self.waits.of(t.role.name) if w.unit in ("role", "tensor")
        )
        steady = sum(t.samples * (1 - t.priming.point - t.drain.point) for t in found)
        return min(1.0, waits / steady) if steady else None

    @property
    def fixed_at_least(self) -> float:
        """Least share of the kernel's time in fill, drain and outside, however the bins are cut, 0..1."""
        ph, duration = self.phases, self.code.kernel.duration_ns
        if ph is None or not duration:
            return 0.0
        outside = max(0.0, duration / 1000 - self.span)
        slack = ph.error if self.resolved else ph.bin
        return min(1.0, (max(0.0, ph.fill - slack) + max(0.0, ph.drain - slack) + outside) / (duration / 1000))

    def exposed(self, reason: str, raw: float) -> float:
        """A raw share of one stall reason less what is covered or belongs to priming."""
        factor = self.adjusted.get(reason)
        return raw * factor.point if factor is not None else raw

    def exposed_of(self, reason: str, part: float) -> float:
        """The same for a part of a reason's samples (as a share of all samples): at most what is exposed of them all.
        The part itself need not be what is covered: a load waits elsewhere than a copy."""
        column, every = self.code.stall.get(reason), total(self.code.samples)
        return min(part, self.exposed(reason, total(column) / every)) if column is not None and every else part


def specialization(code: Code, units: Mapping[str, Unit]) -> Specialization | None:
    """None where the warps of a kernel all do the same."""
    roles = find_roles(code)
    if roles is None:
        return None
    launch, sms = code.kernel.launch, code.kernel.device.sms
    used = min(1.0, launch.blocks / sms) if sms else 1.0
    return Specialization(
        code, roles, find_waits(code, roles), activity(code.kernel.timelines, code.kernel.metrics, used), units
    )
