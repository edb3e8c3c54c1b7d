"""Lanes of a warp take different paths, and the warp executes them all.

## What it does

Compares, instruction by instruction, the lanes that were active with 32, and adds up the issue slots that fuller warps
would save, by branch.

## Why it costs time

A warp issues each side of a divergent branch for the lanes that took it. Eight ways through a switch cost eight
passes.

## Evidence

`thread_inst_executed` over `inst_executed` an instruction, divergent branch targets, samples in code with few lanes.

## Fix

Give lanes of one warp the same path: sort or bin the work by kind, assign kinds to warps instead of lanes, replace
short branches by predication or arithmetic, compact active lanes. Lanes that left their loop before the others are
missing in all rounds that are left: items sorted by length, lanes that take their next item within the loop, or rounds
that do more at once; a round that is predicated costs the same. Where few lanes walk mostly the way round of a
division or a math function, which special arguments take: the fast version first, which has none.

Before:

    int kind = i % 8;            switch (kind) { ... }             // 8 paths in each warp

After:

    int kind = (i / 32) % 8;     switch (kind) { ... }             // one path a warp

## In SASS

Both versions are this code: the data decides how many lanes take each branch.

From (capture divergence.slow):

    ISETP.GE.AND P0, PT, R2, UR4, PT
    ...
    ISETP.NE.AND P0, PT, RZ, UR4, PT
    BSSY B0, 0x6be0
    ...
    ISETP.GT.AND P0, PT, R7, 0x2, PT
    @P0   BRA 0x2880

## When it is wrong

Elected-lane code (one lane issues a copy or an atomic) is meant to be narrow: it costs little, and the rule weighs by
samples. A last partial warp is GRD404's. Where few lanes walk a long way and the others of their warp do nothing,
the warp makes one pass as it is: to gather them frees places and issue slots for other warps, and brings little where
all warps of the launch are there at once (a kernel whose 311 walking lanes were dealt to full warps became 0.88 times
as fast).

## Source

CUDA C++ Best Practices Guide, Branching and Divergence.
"""

from __future__ import annotations

from collections.abc import Sequence

from kscope.features.facts import SPIN, Code, Demand, Facts, total
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, measured, percent

LEFT = 0.05  # of the narrow instructions stay so: groups come out uneven, and grouping moves the data about
MOSTLY = 0.5  # of the narrow instructions: then slow paths are what the lanes part for
FUNCTIONS = ("CMP203", "CMP204", "CMP211")  # their fixes take the slow paths away, with all that is narrow there
SORTED = "same path for all lanes of a warp: sort or bin by kind, kinds to warps, predication"
ROUNDS = (
    "as many rounds for all lanes of a warp: items sorted by length, lanes that take their next item within the loop, "
    "or rounds that do more at once (a run of bits, a whole word); predicated, a round costs the same"
)
SPECIAL = "functions without a slow path (fast or float), or zeros and infinities kept out of them by a selection"
LEFT_EARLY = " Most of the lanes are missing because they left their loop rounds before the others."
SENT = " Most of it is what special arguments of math functions are sent through."
NAMED = 0.5  # measured: experts named it in 10 of 23 public kernels where it was among the first three
FEW = 24  # active lanes below which an instruction counts as divergent


class WarpDivergence(ProfiledRule):
    code = "LAT305"
    slug = "warp-divergence"
    title = "Warps execute with few active lanes"
    regime = "compute"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        executed, threads = code.executed, code.threads
        every = total(executed)
        if not every or not any(threads):
            return PASSED
        full = min(32.0, facts.kernel.launch.threads / facts.counters.launch.warps_per_block)
        narrow = self._narrow(facts, code, full)
        issue = code.issue_share(narrow)
        samples = (total(code.samples, narrow) - self._memory(facts, code, narrow)) / max(1.0, total(code.samples))
        if issue < 0.1 or samples < 0.1:
            return PASSED
        kept = total(threads, narrow) / (full * total(executed, narrow))
        full_warps, kept = kept, kept + (1 - kept) * LEFT
        # Warps that are all there at once end with the longest: fuller ones make its way no shorter.
        own = min(1.0, 1 / facts.counters.launch.waves) if facts.counters.launch.waves else 0.0
        own *= facts.profile.single_pass(narrow)
        left = kept + (1 - kept) * own
        scale: dict[Demand, float] = dict.fromkeys(
            ("instructions", "fma", "fmaheavy", "alu", "xu", "branches", "fp64"), 1 - issue * (1 - kept)
        )
        branches = code.where(lambda ins, op: "branch" in op.kind)
        split = code.column("smsp__branch_targets_threads_divergent")
        places = [i for i in branches if split is not None and split[i] > 0]
        places.sort(key=lambda i: -float(split[i]) if split is not None else 0.0)
        mean = total(threads) / every
        reason, fix, first = self._mended(facts, code, narrow, full)
        return self.finding(
            title=f"{mean:.1f} of 32 lanes are active on average",
            why=(
                f"{percent(issue)} of all instructions run with "
                f"{total(threads, narrow) / total(executed, narrow):.1f} lanes: full warps would need "
                f"{percent(full_warps)} of them. {percent(samples)} of all samples are there."
                + reason
            ),
            fix=fix,
            evidence=[
                measured(facts, "smsp__thread_inst_executed_per_inst_executed.ratio"),
                derived("instructions with few lanes", issue, "", f"share with fewer than {FEW * full / 32:.0f} lanes"),
                measured(facts, "smsp__sass_average_branch_targets_threads_uniform.pct"),
            ],
            locations=code.locations(places, 3, weight=split) + code.locations(narrow, 2),
            estimate=facts.estimate.relieve(
                max(samples, issue * facts.estimate.saturation(self._issuing(facts))), left, scale, latency=left
            ),
            confidence=NAMED,
            first=first,
        )

    def _narrow(self, facts: Facts, code: Code, full: float) -> list[int]:
        """What runs with few lanes, but for one elected lane that copies, signals or stores for its warp by design, or
        waits for another."""
        narrow = [i for i, n in enumerate(code.executed) if n > 0 and code.threads[i] / n < FEW * full / 32]
        sp, kinds = facts.specialized.pipeline, facts.patterns.loop_kinds
        spinning = {n for n, kind in kinds.items() if kind == SPIN}
        elected = frozenset[int]()
        if sp is not None:
            elected = elected.union(*(r.members for r in sp.roles.producers), *(w.members for w in sp.waits.sites))
        return [i for i in narrow if i not in elected and code.cfg.loop_of[i] not in spinning]

    def _mended(self, facts: Facts, code: Code, narrow: list[int], full: float) -> tuple[str, str, tuple[str, ...]]:
        """(what the lanes part for, where it is known; the fix; findings whose fix comes before)."""
        special = [i for i in narrow if i in facts.patterns.slow_paths]
        if total(code.executed, special) > MOSTLY * total(code.executed, narrow):
            return SENT, SPECIAL, FUNCTIONS
        if _left(code, narrow, full) > MOSTLY:
            return LEFT_EARLY, ROUNDS, ()
        return "", SORTED, ()

    def _issuing(self, facts: Facts) -> float:
        """Load of the issue slots: where they are not full, time is where warps stand."""
        return facts.counters.units["issue"].load if "issue" in facts.counters.units else 1.0

    def _memory(self, facts: Facts, code: Code, narrow: list[int]) -> float:
        """Samples there that memory keeps waiting: fuller warps ask for the same bytes, which take their time as far
        as memory is busy."""
        waits = sum(total(code.stall[r], narrow) for r in ("long_scoreboard", "lg_throttle") if r in code.stall)
        return waits * (facts.counters.memory_load or 0.0)


def _left(code: Code, narrow: Sequence[int], full: float) -> float:
    """Of the lanes that narrow instructions lack, the share that came to the loops around them and left them before."""
    cfg, lost, early = code.cfg, 0.0, 0.0
    stayed: dict[int, float] = {}
    for i in narrow:
        lacks = full * code.executed[i] - code.threads[i]
        gone = 0.0
        for loop in cfg.loops_around(i):
            if loop not in stayed:
                stayed[loop] = _stay(code, loop)
            gone += stayed[loop]
        lost += lacks
        early += min(lacks, gone * code.executed[i])
    return early / lost if lost else 0.0


def _stay(code: Code, number: int) -> float:
    """Lanes that a loop is entered with, less those that one of its rounds has."""
    loop, blocks = code.cfg.loops[number], code.cfg.blocks
    ends = [blocks[p].end - 1 for p in blocks[loop.header].predecessors if p not in loop.blocks]
    runs, head = total(code.executed, ends), blocks[loop.header].start
    if not runs or not code.executed[head]:
        return 0.0
    return max(0.0, total(code.threads, ends) / runs - code.threads[head] / code.executed[head])
