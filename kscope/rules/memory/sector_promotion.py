"""L2 fetches more of device memory than the kernel asks for.

## What it does

Compares what device memory delivered with everything that the SMs asked of L2, in sectors of 32 bytes. It fires where
device memory delivered a quarter more, and is busy enough for that to count.

## Why it costs time

A miss does not fetch the sector that was asked for alone: L2 promotes it to 64 bytes, or to what
`cudaLimitMaxL2FetchGranularity` says. Neighbours read in order find their sector already there. Records of 32 bytes at
random places do not: half of what device memory moves is thrown away, and it passes L2 on its way.

## Evidence

`dram__bytes_read` against the sectors of `lts__t_sectors_srcunit_tex`: loads, stores and atomics, hits and misses
alike. On 214 captures the two agree within a few percent wherever memory is read in order.

## Fix

Let what is fetched be used: records of 64 bytes on 64-byte boundaries, fields that are read together beside each other,
indices sorted so that neighbours meet while the sector is in L2. Then try
`cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, 32)`: it is a hint, which a driver or a chip may pass over.

Before:

    float4 a = pos[id], b = vel[elsewhere[id]];        // two sectors, each fetched with a neighbour

After:

    struct alignas(64) Body { float4 pos, vel, m, n; };
    Body x = body[id];                                 // one fetch, all of it used

## In SASS

The instruction cannot tell: loads whose address comes from loaded data are the candidates.

From (capture gather.records):

    LDG.E.CONSTANT R2, desc[UR4][R2.64]
    ...
    LDG.E.128.CONSTANT R4, desc[UR4][R12.64]
    LDG.E.128.CONSTANT R8, desc[UR4][R12.64+0x10]

## When it is wrong

Memory that checks itself inside its own bytes (ECC on GDDR) reads some for that; so do other programs on the device
while the profiler counts. No gain is promised: no pair of versions was measured, and one report of somebody who set the
limit to 32 bytes saw no change.

## Source

CUDA Runtime API, cudaLimitMaxL2FetchGranularity ("a performance hint"); captures gather.records (1.6 sectors delivered
for one asked), list_walk.four (1.7). The report: NVIDIA developer forum, 286508.
"""

from __future__ import annotations

from kscope.features.facts import SECTOR, SECTORS, Facts
from kscope.rules.base import PASSED, CounterRule, Outcome, derived, measured, percent

READ = "dram__bytes_read.sum"
ASKED = "lts__t_sectors_srcunit_tex.sum"
MORE = 1.25
"""Delivered over asked. Of 214 captures two programs have 1.6 to 1.7; of the others that fill device memory by half
none is above 1.01 (gather_rows.header4: rows of 128 bytes, gathered and off their boundaries)."""
BUSY = 0.5  # load of device memory, below which its bytes are not what the kernel waits for (judged: list_walk.serial)
APART = 0.5  # sectors a lane, from which lanes read places of their own (judged)


class SectorPromotion(CounterRule):
    code = "MEM115"
    slug = "sector-promotion"
    title = "L2 fetches more of device memory than is asked for"
    regime = "memory"
    needs = (READ, ASKED)

    def check(self, facts: Facts) -> Outcome:
        m, memory = facts.kernel.metrics, facts.counters.units.get("dram")
        read, asked = (m.get(READ) or 0.0) / SECTOR, m.get(ASKED) or 0.0
        if memory is None or memory.load < BUSY or read < MORE * asked:
            return PASSED
        code = facts.code
        return self.finding(
            why=(
                f"device memory is {percent(memory.busy)} busy and delivers {read / asked:.1f} sectors for each that "
                "the SMs ask of L2: misses fetch 64 bytes or more, and the rest of them is not used."
            ),
            fix="make records 64 bytes long and aligned, or sort the indices, so that what is fetched is used; "
            "cudaLimitMaxL2FetchGranularity = 32 is worth a try, and only a hint",
            evidence=[
                measured(facts, READ), measured(facts, ASKED, "of 32 bytes, hits and misses"),
                derived("sectors delivered for one asked", read / asked, "x", "1 where memory is read in order"),
            ],
            locations=code.locations(self._apart(facts)) if code is not None else None,
            severity="minor",
            confidence=0.6,
        )  # fmt: skip

    def _apart(self, facts: Facts) -> list[int]:
        """Global loads whose lanes read places of their own."""
        code = facts.code
        sectors = code.column(SECTORS) if code is not None else None
        if code is None or sectors is None:
            return []
        loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
        return [i for i in loads if sectors[i] >= APART * code.threads[i]]
