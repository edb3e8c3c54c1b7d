"""Each round of an outer loop loads what the round before it has loaded.

## What it does

Finds loads of global memory whose addresses follow from nothing that a loop around them changes, in a loop that writes
nothing there: an inner loop that runs over the same values in every round. Pairs of loaded values are left to MEM112,
rounds that differ in nothing (a loop that only repeats) aside.

## Why it costs time

The first round brings the values into L1 at best; every further round issues the same loads again, computes the same
addresses and waits for L1 or L2, though what it does with each value is an instruction or two.

## Evidence

Addresses followed backwards (def-use), rounds of the loop (executions), words that a lane loads in one, samples blamed
on these loads.

## Fix

Several rounds at a time (eight sums or counters a thread), so that each value feeds all of them; or the values in
registers before the loop, where there are few and their number is known when compiling.

Before:

    for (q...) { n = 0; for (j...) n += x[j] < level[q]; ... }         // x again for each q

After:

    for (q...; q += 8) { for (j...) { v = x[j]; for (e < 8) n[e] += v < level[q + e]; } ... }

## In SASS

Load and use, round for round; or one load and eight uses.

Before (capture levels.each):

    LDG.E.CONSTANT R21, desc[UR6][R14.64]
    ...
    LDG.E.CONSTANT R5, desc[UR6][R28.64]
    ...
    FSETP.GEU.AND P2, PT, R18, R8, PT
    ...
    FSETP.GEU.AND P3, PT, R19, R8, PT

After (capture levels.eight):

    LDG.E.CONSTANT R32, desc[UR8][R18.64]
    ...
    FSETP.GEU.AND P1, PT, R32, R22, PT
    FSETP.GEU.AND P2, PT, R32, R16, PT
    FSETP.GEU.AND P3, PT, R32, R17, PT
    FSETP.GEU.AND P4, PT, R32, R27, PT

## When it is wrong

Rounds that need the one before (an iteration until it converges) cannot be done together: there the rule speaks only if
the values fit in registers. An inner loop that ends where it finds something is a search: eight at a time took 2.6
times as long, one that goes on where the last one ended a third (a public kernel). Another block, or a thread of this
one, may write what is loaded meanwhile: a loop that shares data so needs the loads; what it stores itself through the
same pointer is seen, what others store is not.

## Source

Volkov and Demmel, SC 2008 (registers before shared memory); our own pair, levels.each: 5.0x.
"""

from __future__ import annotations

import math

from kscope.features.facts import SECTOR, Code, Facts, Repeated, total
from kscope.model.contract.analysis import Estimate, Remedy
from kscope.rules._shared.data_reuse import wasteful
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, percent

LEAST = 0.1  # of all samples, behind these loads
AT_ONCE = 8  # rounds that one loaded value feeds: as many sums more a thread
FED = AT_ONCE / 2  # uses of a loaded value from which several rounds are done at a time already (judged)
FEW = 32  # words that a thread keeps in registers through a loop (judged: an eighth of what it can have)
SEARCH = (
    "go on where the last round's search ended, if what is looked for grows from round to round; or what is searched "
    "(or its running sums) in shared memory once a block, then a binary search"
)
REGISTERS = 255  # a thread can have


class RepeatedLoads(ProfiledRule):
    code = "MEM118"
    slug = "repeated-loads"
    title = "Every round of a loop loads the same values again"
    regime = "memory"
    needs_samples = True
    moves_roof = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        paired = {i for lp in wasteful(facts, code) for i in lp.loads}
        left = [r for r in facts.patterns.repeated_loads if paired.isdisjoint(r.loads) and r.differs and r.uses < FED]
        able = [(r, kept) for r in left if (kept := self._kept(facts, r)) < 1]
        shares = [(code.blamed_share(r.loads), r, kept) for r, kept in able]
        share, worst, kept = max(shares, key=lambda s: s[0], default=(0.0, None, 1.0))
        if worst is None or share < LEAST:
            return PASSED
        in_registers = self._fits(facts, worst)
        if self._ends_early(facts, code, worst):
            return self._searching(facts, code, worst, share)
        together = f"{min(AT_ONCE, round(worst.rounds))} rounds at a time: each value then feeds all of them"
        registers = f"the {worst.words:.0f} words in registers before the loop, if their number is known when compiling"
        ways = [together] if worst.apart else []
        apart = Remedy(step="several rounds at a time", applies=False, why="each needs the one before")
        if in_registers:
            ways.append(registers)
        return self.finding(
            why=(
                f"a loop of {worst.rounds:.0f} rounds loads the same {worst.words:.0f} words a lane in each of them; "
                f"{percent(share)} of all samples wait for these loads."
            ),
            fix="; or ".join(ways),
            evidence=[
                derived("rounds of the loop", worst.rounds, "", "by executions"),
                derived("words a lane loads in each", worst.words, "word", "by executions"),
                derived("samples behind the loads", share, "", "share of warp samples, blamed by def-use"),
            ],
            locations=code.locations(worst.loads),
            estimate=self._estimate(facts, worst, share, kept),
            remedies=[] if worst.apart else [apart],
            pulls=["+registers"],
            confidence=0.7,
        )

    def _ends_early(self, facts: Facts, code: Code, found: Repeated) -> bool:
        """The loop around the loads, inside the one that repeats them, ends where its data say: a search."""
        inner = code.cfg.loop_of[code.hottest(list(found.loads))[0]]
        if inner is None or inner == found.loop:
            return False
        return facts.patterns.searches(inner) or any(code[i].opcode == "BRA" for i in facts.patterns.chained(inner))

    def _searching(self, facts: Facts, code: Code, found: Repeated, share: float) -> Outcome:
        """A binary search in place of one from the first element on, all of whose instructions become fewer."""
        inner = code.cfg.loop_of[code.hottest(list(found.loads))[0]]
        body = [i for i in code.cfg.loop_body(inner) if code.executed[i] > 0] if inner is not None else []
        looked = max(2.0, found.words / (sum(code.classes[i].bytes for i in found.loads) / len(found.loads) / 4))
        kept = min(1.0, math.log2(2 * looked) / looked)
        inside = total(code.samples, body) / max(1.0, total(code.samples))
        scale = facts.profile.demands_after(body, kept)
        return self.finding(
            title="Every round of a loop searches from the first element on",
            why=(
                f"a loop of {found.rounds:.0f} rounds looks at {looked:.0f} elements a lane in each of them, until one "
                f"is found; {percent(inside)} of all samples are in that search."
            ),
            fix=SEARCH,
            evidence=[
                derived("rounds of the loop", found.rounds, "", "by executions"),
                derived("elements looked at in each", looked, "element", "by executions"),
                derived("samples behind the loads", share, "", "share of warp samples, blamed by def-use"),
            ],
            locations=code.locations(found.loads),
            estimate=facts.estimate.relieve(
                inside, kept, scale, latency=facts.estimate.floor_without(body, kept)
            ),
            remedies=[Remedy(step="several rounds at a time", applies=False, why="each ends its search elsewhere")],
            confidence=0.7,
        )

    def _fits(self, facts: Facts, found: Repeated) -> bool:
        return found.words <= FEW and facts.kernel.launch.registers + found.words <= REGISTERS

    def _kept(self, facts: Facts, found: Repeated) -> float:
        """Share of the loads that the best way leaves, 1 where there is none."""
        ways = [1.0]
        if found.apart:
            ways.append(1 / min(AT_ONCE, found.rounds))
        if self._fits(facts, found):
            ways.append(1 / found.rounds)
        return min(ways)

    def _estimate(self, facts: Facts, found: Repeated, share: float, kept: float) -> Estimate:
        mine = facts.profile.sectors_share(found.loads)
        sectors = 1 - mine * (1 - kept)
        scale = facts.profile.demands_after(facts.patterns.addresses_of(found.loads), kept)
        scale |= {"l2_sectors": sectors, "l2_requests": sectors, "dram_bytes": self._from_memory(facts, found, kept)}
        return facts.estimate.relieve(share, kept, scale, latency=facts.estimate.floor_without(found.loads, kept))

    def _from_memory(self, facts: Facts, found: Repeated, kept: float) -> float:
        """Factor on the bytes of device memory: what they are more than one round of the loads needs goes with them."""
        traffic = facts.counters.traffic
        asked = facts.profile.sectors_share(found.loads) * traffic.global_load_sectors * SECTOR
        if not traffic.dram_bytes or not asked:
            return 1.0
        again = min(asked, traffic.dram_bytes) - asked / found.rounds
        return 1 - max(0.0, again) * (1 - kept) / traffic.dram_bytes
