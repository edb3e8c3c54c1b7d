"""What one role does with its time: priming, issued, covered waits, exposed waits, drain, each with bounds.

A role's time is its blocks'. The sampler takes one warp an SM an interval, so samples are shares of time; those at wait
sites are waits, those behind a role's own code too (it waits for the others, until the unit has done its last work),
all others are issued. How much of the waits a busy unit covers: `kscope.features.coverage`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.features.columns import total
from kscope.features.coverage import NOTHING, Share, covered, elsewhere, exactly, in_flight
from kscope.features.wait_sites import Wait
from kscope.features.warp_roles import PRODUCTS, Role

if TYPE_CHECKING:
    from kscope.features.specialization import Specialization
    from kscope.model.program import Instruction

WAITING = ("long_scoreboard", "short_scoreboard", "barrier", "warpgroup_arrive", "membar", "sleeping")
"""Reasons that count as waiting at a wait site that does more than wait."""
AHEAD = 0.5  # share of its time that a producer waits for slots, from which its own work is not what the unit waits for
SCHEDULERS = 4  # of an SM
OUT_OF_STEP = 4  # SMs whose samples count as independent


class RoleTime(Struct, frozen=True):
    """Shares of one role's time, which add up to 1; its time is its block's. `prologue`: the part of the priming before
    the role's own code. `waits`: exposed share by the unit waited for; `retried`: exact
    count of try-waits that failed at once, by the unit waited for, with the waits made."""

    role: Role
    samples: float
    prologue: float
    priming: Share
    issued: Share
    covered: Share
    exposed: Share
    drain: Share
    waits: Mapping[str, Share]
    retried: Mapping[str, tuple[float, float]]


def life_of(sp: Specialization) -> tuple[float, float]:
    """Least and most samples of one warp that lives as long as its block. The sampler goes round the four schedulers
    of an SM and takes one warp of each: where their warps are not equally many, those of the fuller one get
    fewer. Where warps without a role leave at once, the others get their samples."""
    code, role = sp.code, sp.main
    every = max(1, code.kernel.launch.warps)
    even = sum(code.samples) / every
    working = sum(min(r.working or r.warps or 0.0, r.warps or 0.0) for r in sp.roles.roles)
    idle = max(0.0, every - working)
    waiting = total(code.samples, sp.roles.common - sp.before)
    alive = every if waiting > 0.5 * idle * even else max(1.0, working)
    mean = even * every / alive
    if role is not None and role.warps:
        mean = max(mean, total(code.samples, role.members) / role.warps + total(code.samples, sp.before) / every)
    fewest, most = int(alive // SCHEDULERS), -int(-alive // SCHEDULERS)
    if fewest == most or not fewest:
        return mean, mean
    return mean * alive / (SCHEDULERS * most), mean * alive / (SCHEDULERS * fewest)


def _noise(sp: Specialization, share: float, warps: float) -> float:
    """Two standard errors of a share of samples. SMs that run in step are sampled in the same moments, so their
    samples are not independent: what counts is the moments, and a few SMs out of step."""
    metrics, code = sp.code.kernel.metrics, sp.code
    interval, cycles = metrics.get("smsp__pcsamp_interval_cycles"), metrics.get("sm__cycles_active.avg")
    every = max(1, code.kernel.launch.warps)
    independent = sum(code.samples) * warps / every
    if interval and cycles:
        independent = min(independent, OUT_OF_STEP * cycles / interval * warps / every)
    return float(2 * (max(share * (1 - share), 0.01) / max(1.0, independent)) ** 0.5)


def role_time(sp: Specialization, role: Role) -> RoleTime:
    code = sp.code
    every = max(1, code.kernel.launch.warps)
    warps = min(role.working or role.warps or 0.0, role.warps or 0.0)
    fewest, most = sp.life
    own = total(code.samples, role.members) + total(code.samples, sp.before) / every * warps
    whole = min(most * warps, max(fewest * warps, own))
    if not whole:
        return RoleTime(role, 0.0, 0.0, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, {}, {})
    prologue = total(code.samples, sp.before) / every * warps
    sites = sp.waits.of(role.name)
    between = _between(sp)
    waiting = {id(w): waiting_at(sp, w) for w in sites}
    first = _first_wait(sp, role, sites, waiting, whole, prologue)
    blur = sp.phases.error / sp.phases.active if sp.phases is not None else 0.0
    priming = Share(prologue + first.point, prologue + first.low, prologue + first.high).scaled(1 / whole)
    # What is left of the block's life behind a role's own code: it waits for the others, then everything drains.
    behind = max(0.0, 1.0 - (total(code.samples, role.members) + prologue) / whole)
    drain = _drain(sp, role, behind)
    groups: dict[str, float] = {"tail": max(0.0, behind - drain.point)} if behind > drain.point else {}
    data = sum(waiting[id(w)] for w in sites if key_of(w) == "data")
    for w in sites:
        amount = waiting[id(w)]
        if key_of(w) == "data" and data:
            amount -= first.point * amount / data  # the first wait is priming
        groups[key_of(w)] = groups.get(key_of(w), 0.0) + (amount + between.get(w.index, 0.0)) / whole
    cover, exposed = NOTHING, {}
    for key, share in groups.items():
        one = _cover(sp, role, key, share, groups)
        cover = cover.plus(one)
        exposed[key] = one.rest_of(share)
    bare = _sum(exposed.values())
    issued = max(0.0, 1.0 - sum(groups.values()) - priming.point - drain.point)
    return RoleTime(
        role,
        whole,
        prologue / whole,
        priming.widened(blur + _noise(sp, priming.point, warps)),
        exactly(issued).widened(blur + _noise(sp, issued, warps)),
        cover.widened(blur + _noise(sp, cover.point, warps)),
        bare.widened(blur + _noise(sp, bare.point, warps)),
        drain.widened(2 * blur),
        exposed,
        _retries(sites),
    )


def _between(sp: Specialization) -> dict[int, float]:
    """By product that ends a group: samples from the group's WARPGROUP.ARRIVE up to it which stand at no product:
    descriptors and the like. An issue takes no longer than the pipe makes it."""
    code, out = sp.code, {}
    for block in code.cfg.blocks:
        products = [i for i in range(block.start, block.end) if code[i].opcode in PRODUCTS]
        first = next((i for i in range(block.start, block.end) if _arrives(code[i])), None)
        if products and first is not None and first < products[0]:
            out[products[-1]] = sum(code.samples[i] for i in range(first + 1, products[-1]) if i not in products)
    return out


def waiting_at(sp: Specialization, wait: Wait) -> float:
    """Samples that wait at a site. A product waits for its pipe in whatever queue it stands."""
    code = sp.code
    if code[wait.index].opcode in PRODUCTS or wait.kind == "mbarrier":
        return total(code.samples, wait.members)
    return sum(total(column, wait.members) for reason, column in code.stall.items() if reason in WAITING)


def _first_wait(
    sp: Specialization, role: Role, sites: Iterable[Wait], waiting: Mapping[int, float], whole: float, prologue: float
) -> Share:
    """Samples of the wait before the role's first work: for the main role the fill of the timeline beyond the
    prologue, once a block; nobody else waits for data first."""
    data = sum(waiting[id(w)] for w in sites if key_of(w) == "data")
    if not data or role is not sp.main:
        return NOTHING
    if sp.phases is None:
        return Share(0.0, 0.0, data)
    filling = sp.phases.fill / sp.phases.active * whole
    once = max(0.0, filling - prologue / sp.generations)
    point = min(data, once * sp.generations)
    return Share(point, min(data, once) * 0.5 if sp.resolved else 0.0, min(data, 2 * point) if sp.resolved else data)


def _drain(sp: Specialization, role: Role, behind: float) -> Share:
    """Share of a role's time behind the last work of the unit. Without a timeline: between nothing and all that is
    left behind its own code."""
    if sp.phases is None:
        return Share(0.0, 0.0, behind) if role is not sp.main else Share(behind, 0.0, behind)
    share = sp.phases.drain / sp.phases.active
    if role is not sp.main:
        share = min(share, behind)
    return exactly(share) if sp.resolved else Share(share, 0.0, min(1.0, 2 * share + behind))


def _cover(sp: Specialization, role: Role, key: str, share: float, groups: Mapping[str, float]) -> Share:
    """What is covered of one group of waits of a role."""
    if key == "unknown":
        return Share(share * sp.busy(sp.unit), 0.0, share)
    own = sp.busy(sp.unit)
    if key == "tail":
        return covered(share, own)
    if key == "tensor" and sp.unit == "tensor":
        return in_flight(share, own) if role is sp.main else covered(share, own)
    if role is sp.main and sp.unit == "tensor":
        # While results are stored the pipe idles, as far as nothing else keeps it busy: outside of that it is the
        # busier.
        storing = min(0.9, sp.storing) if key == "data" else 0.0
        rest = elsewhere(min(1.0, own / (1 - storing)), min(1.0, groups.get("tensor", 0.0) / (1 - storing)))
        point = share * max(rest, sp.covering if key == "data" and sp.covering > 0.9 else 0.0)
        return covered(share, max(own, sp.covering) if key == "data" else own, point)
    if key == "role" and role in sp.roles.producers and share > AHEAD:
        # A producer that waits most of its time waits whenever the unit idles: the ring is full, or all in flight.
        return covered(share, own, 0.0)
    return covered(share, sp.covering if key in ("data", "memory") else own)


def _retries(sites: Iterable[Wait]) -> dict[str, tuple[float, float]]:
    out: dict[str, tuple[float, float]] = {}
    for w in sites:
        if w.failed is not None and w.executed:
            failed, made = out.get(w.unit, (0.0, 0.0))
            out[w.unit] = (failed + w.failed, made + w.executed)
    return out


def adjusted_stalls(sp: Specialization) -> dict[str, Share]:
    """By reason: the factor on its raw share that is left when priming, drain and covered waits are taken away."""
    code = sp.code
    every = {reason: total(column) for reason, column in code.stall.items()}
    gone = dict.fromkeys(every, NOTHING)
    for time in sp.times:
        if not time.samples:
            continue
        sites = sp.waits.of(time.role.name)
        waits: dict[str, float] = {}
        for w in sites:
            waits[key_of(w)] = waits.get(key_of(w), 0.0) + waiting_at(sp, w)
        for w in sites:
            if not waits[key_of(w)]:
                continue
            left = time.waits[key_of(w)].scaled(time.samples / waits[key_of(w)])
            reasons = list(every) if code[w.index].opcode in PRODUCTS or w.kind == "mbarrier" else WAITING
            for reason in reasons:
                column = code.stall.get(reason)
                if column is not None and (mine := total(column, w.members)):
                    gone[reason] = gone[reason].plus(left.rest_of(1.0).scaled(mine))
    # Warps without a role, and roles that have done their part, wait for the end: nobody waits for them.
    for reason in WAITING:
        if reason in gone:
            gone[reason] = gone[reason].plus(exactly(total(code.stall[reason], sp.roles.common - sp.before)))
    out = {}
    for reason, all_of_it in every.items():
        if all_of_it:
            kept = gone[reason].scaled(1 / all_of_it).rest_of(1.0)
            out[reason] = Share(min(1.0, kept.point), min(1.0, kept.low), min(1.0, kept.high))
    return out


def _arrives(ins: Instruction) -> bool:
    return ins.opcode == "WARPGROUP" and "ARRIVE" in ins.mods


def key_of(wait: Wait) -> str:
    """The group of waits that one share of coverage holds for."""
    return "data" if wait.unit == "memory" and wait.kind == "mbarrier" else wait.unit


def _sum(shares: Iterable[Share]) -> Share:
    out = NOTHING
    for s in shares:
        out = out.plus(s)
    return out
