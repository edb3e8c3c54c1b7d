"""Lanes of a warp touch more 32-byte sectors than their bytes need.

## What it does

Compares, for each global load and store, the sectors that the executed addresses touch with the fewest that could
hold the same bytes, and adds up the excess by instruction and source line.

## Why it costs time

A warp's access is served sector by sector. When 32 lanes touch 32 different sectors for 4 bytes each, 8 times the
needed data passes L1, often L2 and device memory too, and the load/store unit replays the instruction once a
wavefront.

## Evidence

`memory_l2_theoretical_sectors_global` against `memory_l2_theoretical_sectors_global_ideal` an instruction (exact,
counted by instrumentation), and the samples blamed on those instructions.

## Fix

Let neighbouring lanes read neighbouring addresses.

Before:

    for (int c = 0; c < cols; c++) s += a[row * cols + c];          // lane = row: stride of a whole row

After:

    for (int c = lane; c < cols; c += 32) s += a[row * cols + c];   // a warp walks one row together

Where the algorithm wants the other order, load tiles coalesced into shared memory and read them back transposed; turn
arrays of structs into structs of arrays. In SASS the load stays an `LDG.E`; only its address arithmetic changes.

## When it is wrong

Gathers with a random index have no better order; sorting the indices may cost more than it saves. cp.async (LDGSTS)
traffic is under-counted, so a quiet rule proves nothing there. When all the excess hits in L1 and L1 is idle, the
gain is small, which the estimate shows.

## Source

CUDA C++ Best Practices Guide, Coalesced Access to Global Memory; Kernel Profiling Guide, Source Counters.
"""

from __future__ import annotations

from kscope.features.columns import Column, total
from kscope.features.facts import Facts
from kscope.features.reach import chases, gathers
from kscope.rules.base import PASSED, Missing, Outcome, Rule, derived, percent

TOUCHED = "memory_l2_theoretical_sectors_global"
IDEAL = "memory_l2_theoretical_sectors_global_ideal"
EXCESS = 0.5  # excess over ideal below which an access is contiguous but misaligned (MEM108), not scattered
LITTLE = 0.1  # share of all sectors below which the excess does not matter
BEST_SECTORS = 4  # sectors that one request to L2 can carry


class UncoalescedGlobalAccess(Rule):
    code = "MEM101"
    slug = "uncoalesced-global-access"
    title = "Global accesses touch more sectors than they need"
    regime = "memory"
    needs_sass = True
    needs_samples = True
    collect = "--section SourceCounters"

    def check(self, facts: Facts) -> Outcome:
        code = facts.code
        assert code is not None
        touched, ideal = code.column(TOUCHED), code.column(IDEAL)
        if touched is None or ideal is None:
            return Missing(f"{TOUCHED} was not collected; profile with {self.collect}")
        bad = [i for i, x in enumerate(touched) if x > ideal[i] * (1 + EXCESS)]
        if not len(bad) or total(touched, bad) - total(ideal, bad) < LITTLE * total(touched):
            return PASSED
        share = code.blamed_share(bad)
        ratio = total(ideal, bad) / total(touched, bad)
        estimate = facts.bounds.relieve(share, ratio, self._scale(facts, touched, ideal, bad))
        worst = code.hottest(bad)[0]
        indirect = code.blamed_share([i for i in bad if gathers(code, i)]) > 0.5 * share
        lanes = touched[worst] / max(code.executed[worst], 1)
        best = ideal[worst] / max(code.executed[worst], 1)
        return self.finding(
            why=(
                f"{total(touched, bad):,.0f} sectors where {total(ideal, bad):,.0f} hold the same bytes; "
                f"{code[worst].name} touches {lanes:.1f} a request, {best:.1f} would do. "
                f"{percent(share)} of all samples wait for these accesses."
            ),
            fix=(
                "the addresses are loaded data: sort or bin the indices, make each element as wide as its sector"
                if indirect
                else "map neighbouring lanes to neighbouring addresses, struct of arrays, or stage in shared memory"
            ),
            evidence=[
                derived(TOUCHED, total(touched), "sector", "all global accesses"),
                derived(IDEAL, total(ideal), "sector", "the same bytes, coalesced"),
                derived("samples behind these accesses", share, "", "share of warp samples, blamed by def-use"),
            ],
            locations=code.locations(bad),
            estimate=estimate,
            confidence=0.1 if indirect and chases(code, worst) else 0.35 if indirect else 0.9,
        )

    def _scale(self, facts: Facts, touched: Column, ideal: Column, bad: list[int]) -> dict[str, float]:
        """What remains of each demand: L1 replays go with the excess; L2 and device memory give back only what L1
        did not already catch."""
        traffic, m = facts.traffic, facts.kernel.metrics
        every = m.get("l1tex__data_pipe_lsu_wavefronts.sum") or 0.0
        others = min(1.0, traffic.shared_wavefronts / every) if every else 0.0
        kept = (total(touched) - total(touched, bad) + total(ideal, bad)) / total(touched)
        needed = total(ideal)
        l2 = min(1.0, needed / traffic.l2_sectors) if traffic.l2_sectors else 1.0
        dram = min(1.0, needed * 32 / traffic.dram_bytes) if traffic.dram_bytes else 1.0
        requests = m.get("lts__t_requests_srcunit_tex.sum") or 0.0
        l2_requests = min(1.0, min(needed, traffic.l2_sectors) / BEST_SECTORS / requests) if requests else 1.0
        return {
            "l1_wavefronts": others + (1 - others) * kept,
            "l2_sectors": max(l2, kept),
            "dram_bytes": max(dram, kept),
            "l2_requests": max(l2_requests, kept),
            "l2_writes": max(l2_requests, kept),
        }
