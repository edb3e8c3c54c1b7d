"""Each lane asks for its own bulk copy, and the copies are issued one lane after the other.

## What it does

Finds bulk copies (`UBLKCP`, `UTMALDG` and their kind) inside a loop that the compiler put around them because their
operands differ between the lanes of a warp, or may do so for all that it could prove. On machine code alone each such
loop is named: how many lanes come round is not known there.

## Why it costs time

A bulk copy takes its addresses from uniform registers: a warp can ask for one at a time. Where every lane asks, the
compiler elects a lane, moves its addresses over (`ELECT`, `R2UR`), copies, and goes round up to 32 times. Six
instructions for 16 bytes, where one copy could carry the whole tile.

## Evidence

Executions of the copy over those of the code before its loop, samples in the loop, the loop's branch
(`BRA.U.ANY`) or `ELECT`.

## Fix

One elected thread asks for the whole row or tile. For small pieces of memory use `cp.async` (`LDGSTS`), which every
lane can issue at once: `__pipeline_memcpy_async` of 16 bytes.

Before:

    cuda::memcpy_async(&s[t], &g[t], cuda::aligned_size_t<16>(16), bar);   // by every thread

After:

    if (threadIdx.x == 0) cuda::memcpy_async(s, g, cuda::aligned_size_t<16>(16 * n), bar);

## In SASS

Elect a lane, move its addresses to uniform registers, copy 16 bytes, go round; or one copy of the tile.

Before (capture tile_sum.lanes):

    @P0   ELECT P3, URZ, PT
    @P3   R2UR UR14, R10
    @P3   R2UR UR15, R11
    @P3   R2UR UR16, R6
    @P3   PLOP3.LUT P0, PT, P3, PT, PT, 0x8, 0x0

After (capture tile_sum.elected):

    UBLKCP.S.G [UR8], [UR4], UR7
    ...
    UBLKCP.S.G [UR16], [UR18], UR7
    ...
    UBLKCP.S.G [UR8], [UR4], UR7
    ...
    UBLKCP.S.G [UR10], [UR8], UR5

## When it is wrong

A loop over a few long copies that one thread issues is no fault: with a profile the rule asks for several rounds a
warp. Without one it cannot tell; where `threadIdx.x == 0` guards the copy the loop runs once and costs some twenty
cycles, which elect.sync saves.

## Source

CUDA C++ Programming Guide, Asynchronous Data Copies (bulk copies are issued by one thread); PTX ISA, elect.sync;
measured: fixtures/h200/tile_sum.lanes and tile_sum.elected.
"""

from __future__ import annotations

from kscope.features.facts import Code, Facts, Loop, total
from kscope.isa.families import family
from kscope.model.contract.analysis import Estimate
from kscope.rules.base import PASSED, Outcome, ProfiledRule, derived, percent

COPIES = family("bulk_copy")
ROUNDS = 4.0  # copies a warp asks for one after the other, from which the lanes are the loop
LANES = 32


class LaneSerialBulkCopy(ProfiledRule):
    code = "LAT310"
    slug = "lane-serial-bulk-copy"
    title = "Bulk copies are issued lane by lane"
    regime = "overhead"
    needs_samples = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        copies = [i for i in code.ran(code.where(lambda ins, op: ins.opcode in COPIES)) if _by_lane(code, i)]
        loops = {n for i in copies if (n := code.cfg.loop_of[i]) is not None}
        if not loops:
            return PASSED
        issued = total(code.executed, copies)
        rounds = issued / max(1.0, sum(_entries(code, code.cfg.loops[n]) for n in loops))
        members = sorted({i for n in loops for i in code.cfg.loops[n].instructions})
        share = min(1.0, code.blamed_share(members))
        if rounds < ROUNDS or share < 0.05:
            return PASSED
        kept = 1 / LANES
        return self.finding(
            title=f"{code[copies[0]].opcode} is issued lane by lane, {rounds:.0f} times a warp",
            why=(
                f"{issued:,.0f} bulk copies go round a loop that serves one lane at a time; {percent(share)} of all "
                f"samples and {percent(code.issue_share(members))} of all instructions are in it. What waits for the "
                "data waits for the last lane."
            ),
            fix="one elected thread copies the whole row or tile; small pieces by cp.async (LDGSTS), all lanes at once",
            evidence=[
                derived("bulk copies", issued, "inst", "executions"),
                derived("rounds of the loop", rounds, "", "copies over entries into the loop"),
                derived("samples in the loop", share, "", "blamed by def-use"),
            ],
            locations=code.locations(members),
            estimate=self._estimate(facts, code, members, share, kept),
            confidence=0.85,
        )

    def _estimate(self, facts: Facts, code: Code, members: list[int], share: float, kept: float) -> Estimate:
        """The loop goes, and with it the waits for the copies that it delays."""
        waits = facts.counters.stalls.of("long_scoreboard", "barrier")
        scale = facts.profile.demands_after(members, kept)
        copies = total(code.executed, [i for i in members if code[i].opcode in COPIES])
        if facts.counters.traffic.tma_bytes and copies:
            # A copy of less than a sector still asks L2 for one.
            each = facts.counters.traffic.tma_bytes / copies
            scale |= {"l2_sectors": min(1.0, each / 32), "l2_requests": min(1.0, each / 128)}
        return facts.estimate.relieve(min(1.0, share + waits), kept, scale, latency=1 - share)


def _by_lane(code: Code, index: int) -> bool:
    """The copy stands in a loop that ends in a vote of the lanes left, or elects one of them each time."""
    n = code.cfg.loop_of[index]
    if n is None:
        return False
    return any(
        code[i].opcode == "ELECT" or (code[i].opcode == "BRA" and "ANY" in code[i].mods)
        for i in code.cfg.loops[n].instructions
    )


def _entries(code: Code, loop: Loop) -> float:
    """How often the loop is entered: executions of what runs before it."""
    before = (code.cfg.blocks[b] for b in code.cfg.blocks[loop.header].predecessors if b not in loop.blocks)
    return sum(float(code.executed[b.end - 1]) for b in before)
