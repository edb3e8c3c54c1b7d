"""Atomics that claim places (the slots of a hash table): nothing is added up, so nothing can be added up first."""

from __future__ import annotations

from kscope.features.facts import Code, Facts, total
from kscope.rules.base import PASSED, Outcome, Rule, derived, percent

MOSTLY = 0.5  # of the waits for atomics, from which claims are what they are (judged: one hash table)
FEW = 0.9  # of the atomics left, from which nothing is worth folding (judged)


def claims(facts: Facts, code: Code, index: int) -> bool:
    """An atomic that takes a place or looks at it: a swap, a compare-and-swap whose new value does not come from the
    old one, an addition of zero that polls."""
    ins = code[index]
    if "EXCH" in ins.mods:
        return True
    if "CAS" in ins.mods:
        return not facts.addresses.swaps_its_own(index)
    return {"ADD", "OR"} & set(ins.mods) != set() and ins.operands[-1].text == "RZ"


def claimed(rule: Rule, facts: Facts, code: Code, atomics: list[int], share: float) -> Outcome | None:
    """What is told where most of the waits are for such atomics: fewer of them a place, nothing where each place takes
    one alone. None elsewhere."""
    mine = [i for i in atomics if claims(facts, code, i)]
    if code.blamed_share(mine) <= MOSTLY * code.blamed_share(atomics):
        return None
    swaps = [i for i in mine if "CAS" in code[i].mods]
    spare = [i for i in mine if i not in swaps]
    kept = total(code.threads, swaps) / max(1.0, total(code.threads, mine))
    if not swaps or kept > FEW:
        return PASSED
    scale = facts.profile.demands_after(spare, 0.0) | {"atomics": kept}
    return rule.finding(
        title="Places are claimed with several atomics each",
        why=(
            f"{total(code.executed, mine):,.0f} atomic instructions claim places, write them or poll them, "
            f"{total(code.executed, swaps):,.0f} of them compare-and-swaps; {percent(share)} of all warp time waits "
            "for them, one after the other. Nothing is added up: there is nothing to add up first."
        ),
        fix=(
            "one compare-and-swap of 8 or 16 bytes for a whole entry (its key and who holds it), what belongs to it by "
            "a plain store behind; a poll by a load (ld.acquire), not by an addition of zero"
        ),
        evidence=[
            derived("atomics that claim or poll", total(code.executed, mine), "inst", "CAS, EXCH, ADD of zero"),
            derived("share of warp time at atomics", share, "", "blamed samples, retry loops and drain included"),
        ],
        locations=code.locations(mine),
        estimate=facts.estimate.relieve(share, kept, scale, latency=facts.estimate.floor_without(spare)),
        confidence=0.6,
    )
