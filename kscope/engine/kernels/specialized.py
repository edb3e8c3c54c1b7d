"""Warp specialisation in the result: roles, phases, what is lost, how it amortises, what is no advice here."""

from __future__ import annotations

from kscope.features.facts import Facts
from kscope.features.specialized.phases import drawn
from kscope.features.specialized.role_time import RoleTime, noise
from kscope.features.specialized.specialization import Specialization
from kscope.model.contract.specialization import (
    Amortisation,
    LostTime,
    Phases,
    Retries,
    Role,
    RoleShare,
    Series,
    WarpSpecialization,
)
from kscope.model.units import percent

MULTIPLES = (0.5, 1.0, 2.0, 4.0)
REASONS = {"barrier": "barrier stalls", "long_scoreboard": "long scoreboard stalls"}
MOVED = 0.1  # of all samples that coverage takes from a reason, from which its raw share misleads


def warp_specialization(facts: Facts) -> WarpSpecialization | None:
    """The JSON view of one specialised kernel; null for every other."""
    sp = facts.specialized.pipeline
    if sp is None:
        return None
    return WarpSpecialization(
        roles=[_role(sp, t) for t in sp.times],
        timeline=_phases(facts, sp),
        tier=sp.tier,
        stages=sp.waits.stages,
        stage_bytes=sp.waits.stage_bytes,
        tiles_per_block=round(sp.tiles, 2),
        warps_unaccounted=sp.roles.unaccounted,
        lost=_lost(sp),
        amortisation=_amortisation(facts, sp),
        series=[
            Series(unit=u, metric=line.metric, values=list(drawn(line)))
            for u in ("tensor", "dram", "l2")
            if sp.activity is not None
            and (line := sp.activity.lines.get(u)) is not None
            and max(line.values, default=0) > 0.01
        ],
        not_advice=_not_advice(facts, sp),
        sampled_every=facts.kernel.metrics.get("smsp__pcsamp_interval_cycles"),
    )


def _role(sp: Specialization, time: RoleTime) -> Role:
    parts = (time.priming, time.issued, time.covered, time.exposed, time.drain)

    def shares(pick: str) -> RoleShare:
        values = [round(min(1.0, max(0.0, getattr(p, pick))), 4) for p in parts]
        return RoleShare(
            priming=values[0], steady_issued=values[1], covered_wait=values[2], exposed_wait=values[3], drain=values[4]
        )

    return Role(
        role=time.role.name,
        warps=round(time.role.warps or 0.0, 3),
        share=shares("point"),
        low=shares("low"),
        high=shares("high"),
        retries=[Retries(waits_for=u, failed=f, made=m) for u, (f, m) in time.retried.items()],
        sampling_error=round(min(1.0, max(noise(sp, p.point, time.role) for p in parts)), 4) if time.samples else 0.0,
    )


def _phases(facts: Facts, sp: Specialization) -> Phases | None:
    ph = sp.phases
    if ph is None:
        return None
    duration = facts.counters.launch.duration_us or ph.active
    return Phases(
        fill_us=round(ph.fill, 3),
        steady_us=round(ph.steady, 3),
        drain_us=round(ph.drain, 3),
        steady_utilization_pct=round(100 * ph.mean, 2),
        bubbles=len(ph.bubbles),
        unit=ph.unit,
        plateau_pct=round(100 * ph.level, 2),
        bubble_us=round(ph.lost, 3),
        outside_us=round(max(0.0, duration - sp.span), 3),
        uneven_us=round(max(0.0, sp.span - ph.active), 3),
        error_us=round(ph.error, 3),
        resolved=ph.resolved,
        bin_us=round(ph.bin, 4),
    )


def _lost(sp: Specialization) -> LostTime | None:
    loss = sp.loss
    if loss is None:
        return None
    return LostTime(
        fill=round(loss.fill, 4), drain=round(loss.drain, 4), uneven=round(loss.uneven, 4),
        turnover=round(loss.turnover, 4), data=round(loss.data, 4), epilogue=round(loss.epilogue, 4),
        loop=round(loss.loop, 4), pipe=round(loss.pipe, 4),
    )  # fmt: skip


def _amortisation(facts: Facts, sp: Specialization) -> list[Amortisation]:
    """Launch, fill, bubbles and drain stay, the rest scales: as if each tile had more steps."""
    ph, duration = sp.phases, facts.counters.launch.duration_us
    if ph is None or duration is None or not sp.resolved:
        return []
    out = []
    for work in MULTIPLES:
        us = sp.fixed + work * max(0.0, duration - sp.fixed)
        out.append(Amortisation(work=work, us=round(us, 2), fixed_pct=round(100 * sp.fixed / us, 1)))
    return out


def bound(facts: Facts) -> tuple[float, str] | None:
    """T / (T_fixed + (T - T_fixed) A* / attainable): what a kernel gains at most by keeping its unit at the plateau
    that others hold, its fill and drain as they are. None without a resolved timeline."""
    sp = facts.specialized.pipeline
    duration = facts.counters.launch.duration_us
    if sp is None or sp.phases is None or not sp.resolved or duration is None:
        return None
    ph = sp.phases
    fixed = min(duration, ph.fill + ph.drain + max(0.0, duration - sp.span))
    after = fixed + (duration - fixed) * min(1.0, ph.mean / ph.attainable)
    names = {"tensor": "the tensor pipe", "dram": "device memory", "l2": "L2"}
    text = f"{names.get(ph.unit, ph.unit)} at {percent(ph.attainable)} between fill and drain"
    return max(1.0, duration / after), text


def _not_advice(facts: Facts, sp: Specialization) -> list[str]:
    """What counters suggest and the waits' coverage takes back."""
    out = []
    occupancy = facts.kernel.metrics.get("sm__warps_active.avg.pct_of_peak_sustained_active")
    if occupancy is not None and occupancy < 60:
        out.append(f"low occupancy ({occupancy:.1f} %)")
    issue = facts.counters.units.get("issue")  # of the elapsed time, as the verdict tells it
    if issue is not None and issue.busy < 0.6:
        out.append(f"issue slots ({percent(issue.busy)} busy)")
    for reason, name in REASONS.items():
        raw = facts.counters.stalls.share.get(reason, 0.0)
        left = sp.exposed(reason, raw)
        if raw - left > MOVED:
            out.append(f"{name} ({percent(raw)}, {percent(left)} of it exposed)")
    return out


def adjusted_stall(sp: Specialization, reason: str, raw: float, error: float) -> tuple[float, float, float]:
    """Share of a stall reason when covered waits are taken away, with its bounds."""
    factor = sp.adjusted.get(reason)
    if factor is None:
        return raw, max(0.0, raw - error), min(1.0, raw + error)
    return raw * factor.point, max(0.0, (raw - error) * factor.low), min(1.0, (raw + error) * factor.high)
