"""Atomics that go to many places: a table far larger than L2, or more sectors than an SM's shared memory holds."""

from __future__ import annotations

from kscope.features.facts import SECTOR, SECTORS, Code, Facts, total
from kscope.rules._shared.atomics import beside, sectors_share, spaces
from kscope.rules.base import PASSED, Outcome, Rule, derived, percent

MEET = 0.5  # sectors a lane, below which adding up across the warp may take half of the atomics away (judged)
SPREAD = (
    "fewer of them: several results of a thread added up before their atomic, each result gathered by one thread "
    "instead of scattered by many, or neighbouring words by one vector atomic (float2, float4: sm_90)"
)


def folding(rule: Rule, facts: Facts, code: Code, atomics: list[int], share: float) -> Outcome:
    """Atomics that meet nobody wait for device memory, not for each other: all that can go are those beside another
    one on the next word."""
    spare = beside(facts, code, atomics)
    sectors = code.column(SECTORS)
    if not spare or sectors is None:
        return PASSED
    kept = 1 - total(sectors, spare) / total(sectors, atomics)
    left = 1 - sectors_share(facts, atomics) * (1 - kept)
    scale = facts.profile.demands_after(spare, 0.0)
    scale |= dict.fromkeys(("l2_sectors", "l2_requests", "l2_writes"), left)
    scale["atomics"] = kept
    executed = total(code.executed, spare)
    return rule.finding(
        title="Two atomics where one of twice the width would do",
        why=(
            f"{executed:,.0f} of {total(code.executed, atomics):,.0f} atomic instructions go to a word beside one "
            f"that another one has just changed; {percent(share)} of all warp time waits for them. Each lane has "
            "a sector of its own, which comes from device memory: adding up first would bring nothing."
        ),
        fix="one atomic of 8 or 16 bytes on both words (a key and its value)",
        evidence=[
            derived("atomic instructions beside another", executed, "inst", "same base, next offset"),
            derived("share of warp time at atomics", share, "", "blamed samples, retry loops and drain included"),
        ],
        locations=code.locations(spare),
        estimate=facts.estimate.relieve(share, kept, scale, latency=facts.estimate.floor_without(spare)),
        confidence=0.85 if share > 0.3 else 0.6,
    )


def scattered(rule: Rule, facts: Facts, code: Code, atomics: list[int], share: float) -> Outcome | None:
    """What is told where L2's slices are loaded so evenly that the atomics go to more sectors than shared memory holds,
    and where a warp's lanes hardly meet: a block has nothing to add up first. None elsewhere."""
    places, sectors = facts.counters.atomic_places, code.column(SECTORS)
    outside, inside = spaces(code, atomics)
    if places is None or places * SECTOR <= facts.chip.shared_bytes or inside or sectors is None:
        return None
    alone = total(sectors, outside) / max(1.0, total(code.threads, outside))
    if alone < MEET:
        return None
    return rule.finding(
        title="Atomics go to more places than a block could add up in shared memory",
        why=(
            f"{total(code.threads, outside):,.0f} atomics of lanes, {percent(share)} of all warp time waits for them. "
            f"Slices of L2 are so evenly loaded that they go to about {places:,.0f} sectors or more, and "
            f"{percent(alone)} of a warp's lanes have one of their own: adding up first in a warp or a block takes "
            "hardly any away."
        ),
        fix=SPREAD,
        evidence=[
            derived("sectors that atomics go to, about", places, "", "how even the slices of L2 are"),
            derived("sectors a lane", alone, "", "of the atomics on global memory"),
            derived("share of warp time at atomics", share, "", "blamed samples and drain included"),
        ],
        locations=code.locations(outside),
        severity="major",
        confidence=0.7,
    )
