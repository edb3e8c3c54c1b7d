"""What one role does with its time: priming, issued, covered waits, exposed waits, drain, each with bounds.

A role's time is its blocks'. The sampler takes one warp an SM an interval, so samples are shares of time; those at wait
sites are waits, those behind a role's own code too (it waits for the others, until the unit has done its last work),
all others are issued. How much of the waits a busy unit covers: `kscope.features.specialized.coverage`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from kscope.features.sass.columns import total
from kscope.features.specialized.coverage import NOTHING, Share, covered, exactly
from kscope.features.specialized.pipeline import WAITING, Pipeline, key_of, only_waits, reaching, waiting_at
from kscope.features.specialized.roles import PRODUCTS, Role
from kscope.features.specialized.timed import sites
from kscope.features.specialized.wait_sites import Wait

if TYPE_CHECKING:
    from kscope.model.program import Instruction

AHEAD = 0.5  # share of its time that a producer waits for slots, from which its own work is not what the unit waits for
BY_CHANCE = 0.5  # of a producer's own work falls on its unit's idle time as if they had nothing to do with each other
OUT_OF_STEP = 4  # SMs whose samples count as independent


class RoleTime(Struct, frozen=True):
    """Shares of one role's time, which add up to 1; its time is its block's. `prologue`: the part of the priming before
    the role's own code; `set_up`: its own code before its first wait. `waits`: exposed share by the unit waited for;
    `retried`: exact count of try-waits that failed at once, by the unit waited for, with the waits made."""

    role: Role
    samples: float
    prologue: float
    set_up: float
    priming: Share
    issued: Share
    covered: Share
    exposed: Share
    drain: Share
    waits: Mapping[str, Share]
    retried: Mapping[str, tuple[float, float]]


def noise(sp: Pipeline, share: float, role: Role) -> float:
    """Two standard errors of a share of samples. SMs that run in step are sampled in the same moments, so their
    samples are not independent: what counts is the moments, and a few SMs out of step."""
    metrics, code, warps = sp.code.kernel.metrics, sp.code, _working(role)
    interval, cycles = metrics.get("smsp__pcsamp_interval_cycles"), metrics.get("sm__cycles_active.avg")
    every = max(1, code.kernel.launch.warps)
    independent = sum(sp.samples.all) * warps / every
    if interval and cycles:
        independent = min(independent, OUT_OF_STEP * cycles / interval * warps / every)
    return float(2 * (max(share * (1 - share), 0.01) / max(1.0, independent)) ** 0.5)


def role_time(sp: Pipeline, role: Role) -> RoleTime:
    whole, prologue = _whole(sp, role)
    if not whole:
        return RoleTime(role, 0.0, 0.0, 0.0, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, {}, {})
    sites = sp.waits.of(role.name)
    between = _between(sp)
    waiting = {id(w): waiting_at(sp, w) for w in sites}
    first = _first_wait(sp, role, sites, waiting, whole, prologue)
    blur = sp.phases.error / sp.phases.active if sp.phases is not None else 0.0
    priming = Share(prologue + first.point, prologue + first.low, prologue + first.high).scaled(1 / whole)
    # What is left of the block's life behind a role's own code: it waits for the others, then everything drains.
    behind = _behind(sp, role)
    drain = _drain(sp, role, behind)
    groups: dict[str, float] = {"tail": max(0.0, behind - drain.point)} if behind > drain.point else {}
    data = sum(waiting[id(w)] for w in sites if key_of(w) == "data")
    set_up = min(first.point, total(sp.samples.all, ahead_of_loops(sp, role)))  # priming, but no wait
    for w in sites:
        amount = waiting[id(w)]
        if key_of(w) == "data" and data and role is sp.main:
            amount -= (first.point - set_up) * amount / data  # the first wait is priming
        amount += total(sp.samples.all, between.get(w.index, ()))
        groups[key_of(w)] = groups.get(key_of(w), 0.0) + amount / whole
    if role is not sp.main and drain.point > behind and (waits := sum(groups.values())):
        # it has asked for the last data by then: what is left of its code waits
        kept = max(0.0, 1 - (drain.point - behind) / waits)
        groups = {k: kept * v for k, v in groups.items()}
    covers = _covers(sp, role, groups, max(0.0, 1.0 - priming.point - drain.point))
    exposed = {key: covers[key].rest_of(share) for key, share in groups.items()}
    cover, bare = _sum(covers.values()), _sum(exposed.values())
    issued = max(0.0, 1.0 - sum(groups.values()) - priming.point - drain.point)
    return RoleTime(
        role,
        whole,
        prologue / whole,
        set_up / whole,
        priming.widened(blur + noise(sp, priming.point, role)),
        exactly(issued).widened(blur + noise(sp, issued, role)),
        cover.widened(blur + noise(sp, cover.point, role)),
        bare.widened(blur + noise(sp, bare.point, role)),
        drain.widened(2 * blur),
        exposed,
        _retries(sites),
    )


def _working(role: Role) -> float:
    """Warps a block whose time is the role's."""
    return min(role.working or role.warps or 0.0, role.warps or 0.0)


def _whole(sp: Pipeline, role: Role) -> tuple[float, float]:
    """Samples of a role's time, and those of them in the common prologue."""
    code, warps = sp.code, _working(role)
    fewest, most = sp.life
    prologue = total(sp.samples.all, sp.before) / max(1, code.kernel.launch.warps) * warps
    return min(most * warps, max(fewest * warps, total(sp.samples.all, role.members) + prologue)), prologue


def _behind(sp: Pipeline, role: Role) -> float:
    """Share of a role's time behind its own code."""
    whole, prologue = _whole(sp, role)
    return max(0.0, 1.0 - (total(sp.samples.all, role.members) + prologue) / whole) if whole else 0.0


def _between(sp: Pipeline) -> dict[int, list[int]]:
    """By product that ends a group: from the group's WARPGROUP.ARRIVE up to it what is no product: descriptors and the
    like. An issue takes no longer than the pipe makes it."""
    code, out = sp.code, {}
    for block in code.cfg.blocks:
        products = [i for i in range(block.start, block.end) if code[i].opcode in PRODUCTS]
        first = next((i for i in range(block.start, block.end) if _arrives(code[i])), None)
        if products and first is not None and first < products[0]:
            out[products[-1]] = [i for i in range(first + 1, products[-1]) if i not in products]
    return out


def issued(sp: Pipeline, role: Role, at: Iterable[int]) -> float:
    """Samples of a role at some instructions that count as work, not as waiting."""
    left = {i: sp.samples.all[i] for i in at if i in role.members}
    beside = _between(sp)
    for wait in sp.waits.of(role.name):
        whole = sp.code[wait.index].opcode in PRODUCTS or wait.kind == "mbarrier"
        for i in wait.members | wait.beside if whole else wait.members:
            waits = left.get(i, 0.0) if whole else sum(sp.samples.stall[r][i] for r in WAITING if r in sp.samples.stall)
            if i in left:
                left[i] = max(0.0, left[i] - waits)
        for i in beside.get(wait.index, ()):
            left.pop(i, None)
    return sum(left.values())


def _first_wait(
    sp: Pipeline, role: Role, sites: Iterable[Wait], waiting: Mapping[int, float], whole: float, prologue: float
) -> Share:
    """Samples before the role's first work, behind the prologue: for the main role the fill of the timeline, once a
    block; nobody else waits for data first, so for them the code ahead of their loop."""
    if role is not sp.main:
        return exactly(total(sp.samples.all, ahead_of_loops(sp, role)))
    data = sum(waiting[id(w)] for w in sites if key_of(w) == "data")
    if not data:
        return NOTHING
    if sp.phases is None:
        return Share(0.0, 0.0, data)
    filling = sp.phases.filling * whole
    once = max(0.0, filling - prologue / sp.generations)
    point = min(data, once * sp.generations)
    if sp.turns:  # a first wait and an end in every block, and nothing else for which the unit idles
        end = _drain(sp, role, _behind(sp, role)).point
        point = min(point, max(0.0, (1 - sp.works(sp.unit) - end) * whole - prologue))
    return Share(point, min(data, once) * 0.5 if sp.resolved else 0.0, min(data, 2 * point) if sp.resolved else data)


def ahead_of_loops(sp: Pipeline, role: Role) -> frozenset[int]:
    """A role's own instructions ahead of the loop in which it works."""
    cfg = sp.code.cfg
    works = [w.index for w in sp.waits.of(role.name) if cfg.loop_of[w.index] is not None]
    if not works:
        return frozenset()
    waits = frozenset().union(*(w.members for w in sp.waits.of(role.name)))
    return frozenset(i for i in reaching(sp.code, works) & role.members - waits if cfg.loop_of[i] is None)


def _drain(sp: Pipeline, role: Role, behind: float) -> Share:
    """Share of a role's time behind the last work of the unit for its block. Without a timeline: between nothing and
    all that is left behind its own code."""
    if sp.turns and (main := sp.main) is not None:
        # Every block of one tile has an end of its own: the main role's stores, and what is behind them.
        last = sp.storing + _behind(sp, main)
        return exactly(last if role is main else min(behind, last))
    if sp.phases is None:
        return Share(0.0, 0.0, behind) if role is not sp.main else Share(behind, 0.0, behind)
    share = sp.phases.draining
    if role is not sp.main and role not in sp.roles.producers:
        share = min(share, behind)  # a producer has asked for the last data before the unit works on them
    if not sp.resolved:
        return Share(share, 0.0, min(1.0, 2 * share + behind))
    return Share(share, min(share, sp.storing / sp.tiles), share)  # at least the stores of the last tile


def _covers(sp: Pipeline, role: Role, groups: Mapping[str, float], steady: float) -> dict[str, Share]:
    """What is covered of each group of waits of a role, by what works between the role's own priming and drain."""
    works, waits = sp.works(sp.unit), sum(groups.values())
    most = max(sp.works(u) for u in (sp.unit, "dram", "l2"))
    idle = max(0.0, steady - works)
    points: dict[str, float | None] = dict.fromkeys(groups)
    if role is sp.main and sp.unit == "tensor":
        # Its products are in flight while it waits for them, and still when it issues behind that wait. While it
        # stores results the pipe idles, as far as nothing else keeps it busy. What else the pipe idles it waits, for
        # data most.
        idle -= min(idle, sp.storing, max(0.0, steady - waits))
        own = groups.get("tensor", 0.0)
        late = min(1.0, idle / (waits - own)) if waits > own else 0.0
        points = {k: share * (1 - late) for k, share in groups.items()}
        if "tensor" in points:
            points["tensor"] = own - max(0.0, idle - (waits - own))
    elif role in sp.roles.producers and groups.get("role", 0.0) > AHEAD:
        # A producer that waits most of its time waits when the unit idles (the ring is full, or all in flight) but for
        # the moments behind a slot's release: half way between always and by chance.
        idle *= 1 - BY_CHANCE * max(0.0, 1 - waits / max(steady, 1e-9))
        points = {k: share * (1 - min(1.0, idle / waits)) for k, share in groups.items()}
    out = {}
    for key, share in groups.items():
        if key == "unknown":
            out[key] = Share(share * min(1.0, works / max(steady, 1e-9)), 0.0, share)
        else:
            busy = most if key in ("data", "memory") else works
            out[key] = covered(share, busy, points[key], within=steady)
        if (known := _known(sp, role, key)) is not None:
            out[key] = known.scaled(share)
    return out


def _known(sp: Pipeline, role: Role, key: str) -> Share | None:
    """What of a group of waits is covered, as samples with time stamps tell."""
    if sp.timed is None or sp.activity is None:
        return None
    units = (sp.unit, "dram", "l2") if key in ("data", "memory") else (sp.unit,)
    lines = {u: sp.activity.lines[u].values for u in units if u in sp.activity.lines}
    unit = max(lines, key=sp.works, default=None)
    mine = [w for w in sp.waits.of(role.name) if key_of(w) == key]
    found = sites(((w.members | w.beside, only_waits(sp, w)) for w in mine), WAITING)
    return sp.timed.overlap(role.members, found, lines[unit], sp.works(unit)) if unit is not None else None


def _retries(sites: Iterable[Wait]) -> dict[str, tuple[float, float]]:
    out: dict[str, tuple[float, float]] = {}
    for w in sites:
        if w.failed is not None and w.executed:
            failed, made = out.get(w.unit, (0.0, 0.0))
            out[w.unit] = (failed + w.failed, made + w.executed)
    return out


def _arrives(ins: Instruction) -> bool:
    return ins.opcode == "WARPGROUP" and "ARRIVE" in ins.mods


def _sum(shares: Iterable[Share]) -> Share:
    out = NOTHING
    for s in shares:
        out = out.plus(s)
    return out
