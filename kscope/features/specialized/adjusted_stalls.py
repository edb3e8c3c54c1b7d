"""Stall reasons less what is no loss: covered waits, priming, drain, and warps that have done their part."""

from __future__ import annotations

from collections.abc import Iterable

from kscope.features.sass.columns import total
from kscope.features.specialized.coverage import NOTHING, Share, exactly
from kscope.features.specialized.pipeline import WAITING, Pipeline, key_of, waiting_at
from kscope.features.specialized.role_time import RoleTime
from kscope.features.specialized.roles import PRODUCTS


def adjusted_stalls(sp: Pipeline, times: Iterable[RoleTime]) -> dict[str, Share]:
    """By reason: the factor on its raw share that is left when priming, drain and covered waits are taken away."""
    code = sp.code
    every = {reason: total(column) for reason, column in sp.samples.stall.items()}
    gone = dict.fromkeys(every, NOTHING)
    for time in times:
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
                column = sp.samples.stall.get(reason)
                if column is not None and (mine := total(column, w.members | w.beside)):
                    gone[reason] = gone[reason].plus(left.rest_of(1.0).scaled(mine))
    # Warps without a role, and roles that have done their part, wait for the end: nobody waits for them.
    for reason in WAITING:
        if reason in gone:
            gone[reason] = gone[reason].plus(exactly(total(sp.samples.stall[reason], sp.roles.common - sp.before)))
    out = {}
    for reason, all_of_it in every.items():
        if all_of_it:
            kept = gone[reason].scaled(1 / all_of_it).rest_of(1.0)
            out[reason] = Share(min(1.0, kept.point), min(1.0, kept.low), min(1.0, kept.high))
    return out
