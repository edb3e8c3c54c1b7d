"""Device memory runs near the rate that real kernels attain.

## What it does

Says that the kernel is at the memory roof: its access pattern is not the problem, its bytes are. Below the roof too,
where loads take several times as long as on an idle device and device memory is the fullest unit: it has a queue, so it
gives no more for such a mix of reads, writes and places. A memory that is not full but works more than any other unit
is named as well, as a minor finding: it neither leads nor ends the work.

## Why it costs time

Time is bytes over bandwidth. At 90 % of the modelled peak no change of occupancy, width or instruction mix makes the
same bytes pass faster.

## Evidence

`gpu__dram_throughput` (or `dram__throughput`) against what streaming kernels attain on such a chip, bytes read and
written; what loads wait (samples, warps an SM holds) against their unloaded latency, by Little's law.

## Fix

Move fewer bytes: fuse the kernel with its producer or consumer, store in a smaller type, skip what is not needed,
keep the working set in L2 across launches.

Before:

    y = a * x + y;   z = relu(y);        // two kernels: y passes device memory three times

After:

    z = relu(a * x + y);                 // one kernel: y is read once

## In SASS

Sixteen bytes a lane, one FMA each: nothing here could be faster but fewer bytes.

From (capture dram_bound.triad):

    LDG.E.128 R8, desc[UR4][R2.64]
    ...
    LDG.E.128 R12, desc[UR4][R4.64]
    FFMA R11, R11, UR6, R15
    FFMA R10, R10, UR6, R14
    FFMA R9, R9, UR6, R13

## When it is wrong

When the bytes are redundant (MEM106) or wasted (MEM101), those come first: they make bytes disappear without
changing the algorithm.

## Source

Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009; attained rates: kscope/arch/units.toml.
"""

from __future__ import annotations

import msgspec

from kscope.features.facts import ELAPSED, Facts
from kscope.rules.base import PASSED, CounterRule, Outcome, derived, measured, percent

NEAR = 0.85  # of what is attainable
WHOLLY = 0.99  # of the waits that are its queue, from which this is all that it gives for such accesses
QUEUED = "Loads queue for device memory: it gives no more for such accesses"
USED = "Device memory is used more than any other unit: fewer bytes shorten the kernel"
WHOLE = "this long whatever else changes: half the bytes, half the time."
PART = " of the time at least, whatever else changes: fewer bytes lower that bound."
WAITS = " Loads wait several times as long as on an idle device: more in flight would only wait longer."


class DramBandwidthSaturated(CounterRule):
    code = "MEM107"
    slug = "dram-bandwidth-saturated"
    title = "Device memory is at its attainable rate: move fewer bytes"
    regime = "memory"
    needs = ("|".join(n + ELAPSED for n in ("gpu__dram_throughput", "dram__throughput", "dram__cycles_active")),)
    collect = "--section SpeedOfLight --section MemoryWorkloadAnalysis"

    def check(self, facts: Facts) -> Outcome:
        unit, point = facts.counters.units.get("dram"), facts.counters.roofline
        if unit is None:
            return PASSED
        full = unit.load >= NEAR or self._queue(facts) >= WHOLLY
        if not full and (unit.load < facts.constants.used_unit or not self._busiest(facts)):
            return PASSED
        rate = (
            f" ({point.bytes_per_s / 1e12:.2f} of {point.bandwidth / 1e12:.2f} TB/s)"
            if point and point.bandwidth
            else ""
        )
        total = facts.counters.traffic.dram_bytes or 0.0
        found = self.finding(
            title=None if unit.load >= NEAR else QUEUED if full else USED,
            why=(
                f"{percent(unit.busy)} of peak{rate}, {percent(unit.load)} of what kernels with "
                f"such reads and writes attain.{WAITS if full and unit.load < NEAR else ''} "
                f"The {total / 1e6:,.1f} MB moved take {WHOLE if full else percent(unit.load) + PART}"
            ),
            fix="fuse with the producer or consumer, store a smaller type, skip unneeded bytes, keep data in L2",
            evidence=[
                measured(facts, unit.parts[0].metric),
                measured(facts, "dram__bytes_read.sum"),
                measured(facts, "dram__bytes_write.sum"),
                derived("attainable share of peak", unit.attainable, "", "kscope/arch/units.toml, by its writes"),
            ],
            confidence=0.9 if unit.load >= NEAR else 0.7 if full else 0.5,
        )
        roof = {"severity": "major", "roof": "dram"} if full else {"severity": "minor"}
        return msgspec.structs.replace(found, **roof)

    def _busiest(self, facts: Facts) -> bool:
        """L2 that only hands on what device memory moves shows that memory's time, not its own."""
        fullest, shown = facts.counters.busiest, facts.counters.l2_passes or facts.counters.l2_shows_dram
        return fullest is not None and (fullest.name == "dram" or (fullest.name == "l2" and shown))

    def _queue(self, facts: Facts) -> float:
        """How far waits are the queue in front of device memory, where no other unit is as full."""
        unit = facts.estimate.memory
        return facts.estimate.queue if unit is not None and unit.name == "dram" else 0.0

