"""The time of a warp-specialised kernel: what each role does with it, what its waits cost, what stops the unit.

Roles and wait sites come from the code, phases from the timeline, shares from the warp samples: the sampler takes one
warp an SM an interval, so a role's samples are shares of its time. Priming is the prologue and the wait before the
first product (the fill of the timeline); drain is what follows the last one; in between, samples at wait sites are
waits and all others are issued. `kscope.features.specialized.coverage` says how much of the waits a busy unit covers.

Tier A: samples with time stamps (not read yet); B: PM-sampled timelines; C: samples without any time: priming is
bounded by the prologue and the first wait's share, coverage uses whole-kernel averages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from kscope.features.sass.columns import total
from kscope.features.specialized.adjusted_stalls import adjusted_stalls
from kscope.features.specialized.phases import activity
from kscope.features.specialized.pipeline import Pipeline, waiting_at
from kscope.features.specialized.pipeline_loss import Loss, loss_of
from kscope.features.specialized.role_time import RoleTime, role_time
from kscope.features.specialized.roles import Role, find_roles
from kscope.features.specialized.wait_sites import find_waits

if TYPE_CHECKING:
    from kscope.features.counters.units import Unit
    from kscope.features.profile.code import Code
    from kscope.features.specialized.coverage import Share


AHEAD = 0.25
"""Share of its time that a producer waits for slots, from which it is not the one that is late. Judged: in
fixtures/dials those that are late wait for 0.04 of it at most, those that are not for 0.43 and more; one of which
nobody waits for data, ws_gemm.block_a_tile, for 0.23."""
FLOATS = frozenset({"fp32", "fp32_fma", "fp16", "fp64"})


class Specialization(Pipeline):
    """Everything known about one specialised kernel. Built by `specialization`."""

    @cached_property
    def times(self) -> tuple[RoleTime, ...]:
        return tuple(role_time(self, r) for r in self.roles.roles)

    def time_of(self, role: Role | None) -> RoleTime | None:
        return next((t for t in self.times if t.role is role), None)

    @cached_property
    def loss(self) -> Loss | None:
        return loss_of(self, self.time_of(self.main))

    @cached_property
    def adjusted(self) -> dict[str, Share]:
        """By reason: the factor on its raw share that is left when priming, drain and covered waits are taken away."""
        return adjusted_stalls(self, self.times)

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
    def asks_late(self) -> bool:
        """Whether the producers are the ones who are late: they hardly wait for free slots. False where that is not
        known."""
        return self.slot_waits is not None and self.slot_waits < AHEAD

    @property
    def makes(self) -> float:
        """Share of what the producers execute that is floating-point arithmetic, 0..1: they convert, scale,
        exponentiate what the others then multiply."""
        return arithmetic(self.code, self.roles.producers)

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


def arithmetic(code: Code, roles: Iterable[Role]) -> float:
    """Share of what some roles execute that is floating-point arithmetic, 0..1."""
    members = {i for role in roles for i in role.members}
    every = total(code.executed, members)
    return total(code.executed, [i for i in members if code.classes[i].kind & FLOATS]) / every if every else 0.0


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
