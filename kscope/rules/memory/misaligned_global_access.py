"""Contiguous accesses start off a sector boundary and touch one sector more.

## What it does

Finds global loads and stores whose lanes are contiguous but whose requests touch a sector more than their bytes need:
a base address that is no multiple of 32 bytes.

Tiles with rows that are padded by 16 bytes against bank conflicts do it to `cp.async` from aligned addresses: the
halves of a sector land in different 32-byte pieces of shared memory, and each is fetched for itself.

## Why it costs time

A warp that reads 128 bytes from an address 4 bytes off a boundary touches five sectors instead of four: a quarter
more traffic through L1 and L2, and through device memory unless a neighbour uses the rest from a cache. The sectors of
one request travel together: what that costs is the queue in front of a busy unit that is asked for them, not a longer
round trip. A store that crosses a line is two requests to L2, which nobody waits for and all queue behind.

## Evidence

`memory_l2_theoretical_sectors_global` against its ideal an instruction, with an excess below half of the ideal.

## Fix

Align the base: pad rows to a multiple of 32 bytes (`cudaMallocPitch`), move headers out of the way, start the loop at
the aligned element and handle the head apart.

Before:

    const float* row = data + r * (cols + 1) + 1;                  // 4-byte header before each row

After:

    const float* row = data + r * pitch;                           // pitch a multiple of 8 floats

## In SASS

Nothing shows it but the base: the same `STG.E` takes two requests when its 128 bytes begin 4 bytes behind a line.

From (capture place_rows.header1):

    STG.E desc[UR4][R2.64+0x400], R5
    STG.E desc[UR4][R2.64+0x800], R6
    STG.E desc[UR4][R2.64+0xc00], R7
    STG.E desc[UR4][R2.64+0x1400], R9
    STG.E desc[UR4][R2.64], R13

## When it is wrong

A stencil reads its neighbours at offsets by design: only one of a[i - 1], a[i] and a[i + 1] can start on a boundary,
and no more is promised. Where the offset is in a register rather than in the instruction, that is not seen.

## Source

CUDA C++ Best Practices Guide, A Sequential but Misaligned Access Pattern.
"""

from __future__ import annotations

from kscope.features.facts import IDEAL_SECTORS, SECTORS, Code, Demand, Facts
from kscope.rules._shared.excess import SCATTERED, ExcessRule, compared
from kscope.rules._shared.stencils import alignable
from kscope.rules._shared.wide_waits import left_in_line
from kscope.rules.base import PASSED, Missing, Outcome, Passed, percent

LEAST = 0.05  # excess over ideal below which nothing is called misaligned
WRITES = "lts__t_requests_srcunit_tex_op_write.sum"
REQUESTS = "lts__t_requests_srcunit_tex.sum"


class MisalignedGlobalAccess(ExcessRule):
    code = "MEM108"
    slug = "misaligned-global-access"
    title = "Contiguous accesses start off a sector boundary"

    def check(self, facts: Facts, code: Code) -> Outcome:
        found = self.columns(code, SECTORS, IDEAL_SECTORS, lambda: facts.profile.only_bulk)
        if isinstance(found, (Passed, Missing)):
            return found
        touched, ideal = found[0], alignable(facts, code, *found, LEAST, SCATTERED)
        off = facts.profile.excess(touched, ideal, LEAST, SCATTERED, LEAST)
        if off is None:
            return PASSED
        stores = [i for i in off.members if code.classes[i].access == "store"]
        loads = [i for i in off.members if i not in set(stores)]
        wasted = sum(touched[i] - ideal[i] for i in loads)
        # L1 keeps what a load's neighbour wants of the extra sector; stores pass it.
        caught = (facts.counters.traffic.l1_hit or 0.0) if loads else 0.0
        # A sector that is fetched twice by one warp comes from device memory once.
        padded = facts.lanes.astride(off.worst)
        every = off.every + facts.counters.traffic.others
        beyond = 1 - (wasted * (1 - caught) + (off.actual - off.ideal - wasted)) / every
        requests, writes = self._requests(facts, code, stores)
        scale: dict[Demand, float] = {
            "l1_wavefronts": off.kept, "l2_sectors": beyond, "l2_requests": min(beyond, requests), "l2_writes": writes,
            "dram_bytes": 1.0 if padded else 1 - wasted * (1 - caught) / every,
        }  # fmt: skip
        catches = f"; L1 catches {percent(caught)} of them" if loads else ""
        split = f". Each store that crosses a line is two requests to L2: {percent(1 - requests)} of all" \
            if requests < 0.95 else ""  # fmt: skip
        if padded:
            split = (
                ". Rows of the tile are padded by half a sector: where its halves land in different 32-byte pieces of "
                "shared memory, cp.async fetches a sector for each"
            )
        return self.finding(
            title="Padded rows make cp.async fetch sectors twice" if padded else None,
            why=(
                f"{code[off.worst].name} touches {off.worst_actual:.1f} sectors a request where {off.worst_ideal:.1f} "
                f"hold its bytes{catches}{split}. {percent(off.share)} of all samples wait for these accesses."
            ),
            fix="swizzle the tile (chunk ^ row) instead of padding its rows by 16 bytes: conflict-free as well"
            if padded
            else "align the base to 32 bytes: pitched rows, headers elsewhere, an aligned main loop with a scalar head",
            evidence=compared(
                (SECTORS, off.actual, "the misaligned accesses"),
                (IDEAL_SECTORS, off.ideal, "the same bytes, aligned"), "sector", off.share,
            ),
            locations=code.locations(off.members),
            estimate=facts.estimate.relieve(
                off.share, left_in_line(facts, code, off.members, off.ratio, scale), scale, posted=off.stores
            ),
            confidence=0.8 if caught < 0.3 else 0.4,
        )

    def _requests(self, facts: Facts, code: Code, stores: list[int]) -> tuple[float, float]:
        """What is left of all requests to L2, and of those that write, when no store crosses a line."""
        m = facts.kernel.metrics
        ideal = code.column(IDEAL_SECTORS)
        every, now = m.get(REQUESTS), m.get(WRITES)
        if not stores or ideal is None or not every or not now:
            return 1.0, 1.0
        written = code.where(lambda ins, op: op.space == "global" and op.access == "store")
        needed = min(now, facts.profile.least_wavefronts(list(written), ideal))
        return 1 - (now - needed) / every, needed / now
