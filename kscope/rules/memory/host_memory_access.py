"""The kernel reads or writes host memory across the bus.

## What it does

Looks at L2 traffic to system memory (pinned, mapped or managed host memory) and to peer devices.

## Why it costs time

PCIe moves tens of gigabytes a second, device memory thousands, and a load that crosses the bus takes microseconds.

## Evidence

Sectors that L2 fetched from the system or peer aperture, against all that it fetched. A report of few sections (`ncu`
without options) holds L2's fills from system memory as a share of their peak: that counts them as well.

## Fix

Copy the data to the device first (`cudaMemcpyAsync`, overlapped with other work), prefetch managed memory
(`cudaMemPrefetchAsync`), keep flags and counters on the device.

Before:

    cudaHostAlloc(&x, ...); k<<<...>>>(x);                         // each load crosses the bus

After:

    cudaMemcpyAsync(d, x, bytes, ...); k<<<...>>>(d);

## In SASS

The instruction cannot tell: the pointer decides, and the load waits for the bus.

From (capture scale_add.host_input):

    LDG.E.128.CONSTANT R8, desc[UR4][R2.64]
    ...
    FFMA R11, R11, R0, 1
    FFMA R10, R10, R0, 1
    FFMA R9, R9, R0, 1
    FFMA R8, R8, R0, 1

## When it is wrong

Data that is read once, and a little of it, can be cheaper to read in place than to copy.

## Source

CUDA C++ Best Practices Guide, Zero Copy; Kernel Profiling Guide, L2 apertures.
"""

from __future__ import annotations

from kscope.features.facts import SECTOR, Demand, Facts
from kscope.rules.base import PASSED, CounterRule, Outcome, derived, percent

INTERNAL = "gpu__compute_memory_access_throughput_internal_activity"
FILLS = "lts__d_sectors_fill_sysmem.avg.pct_of_peak_sustained_elapsed"
TAGS = "lts__t_tag_requests"
MISS = "lts__t_sectors_srcunit_tex_aperture_{}_lookup_miss.sum"


class HostMemoryAccess(CounterRule):
    code = "MEM110"
    slug = "host-memory-access"
    title = "The kernel works on memory across the bus"
    regime = "memory"
    moves_roof = True
    needs = (f"{MISS.format('sysmem')}|{FILLS}|sys{FILLS}",)
    collect = "--section MemoryWorkloadAnalysis_Tables"

    def check(self, facts: Facts) -> Outcome:
        m, code = facts.kernel.metrics, facts.code
        away = facts.counters.traffic.sysmem_sectors + facts.counters.traffic.peer_sectors
        device = m.get(MISS.format("device"))
        every = away + (device if device is not None else self._device_fills(facts))
        duration = facts.counters.launch.duration_us or 0.0
        if away < 1024 or away < 0.02 * every or not duration:
            return PASSED
        # What crosses the bus is waited for: all of the global-memory waiting is its.
        share = max(facts.counters.stalls.of("long_scoreboard", "lg_throttle", "drain"), away / every)
        rate = away * 32 / duration / 1e3
        waits = f" {percent(share)} of warp time waits for memory." if facts.counters.stalls.share else ""
        loads = code.where(lambda ins, op: op.space in ("global", "generic") and op.access is not None) if code else []
        return self.finding(
            why=(
                f"{away * 32 / 1e6:,.1f} MB cross the bus at {rate:.1f} GB/s, {percent(away / every)} of all that L2 "
                f"fetches.{waits}"
            ),
            fix="copy or prefetch to the device first (cudaMemcpyAsync, cudaMemPrefetchAsync)",
            evidence=[
                derived("sectors over the bus", away, "sector", "L2 misses to the system and peer apertures"),
                derived("share of L2 misses", away / every, "", ""),
            ],
            locations=code.locations(loads) if code else [],
            estimate=facts.estimate.relieve(
                share, 0.02, self._bus(facts), latency=0.3, brings=self._brings(facts, away)
            ),
            confidence=0.9,
        )

    def _device_fills(self, facts: Facts) -> float:
        """Sectors from device memory where their misses were not counted."""
        roof, duration = facts.counters.roofline, facts.counters.launch.duration_us or 0.0
        return roof.bytes_per_s * duration / 1e6 / SECTOR if roof is not None else 0.0

    def _bus(self, facts: Facts) -> dict[Demand, float]:
        """L2's internal activity counts the transfers over the bus too: elsewhere it equals the tag requests, what is
        above them goes with the bus."""
        m = facts.kernel.metrics
        busy = (m.get(f"{name}.avg.pct_of_peak_sustained_elapsed") for name in (INTERNAL, TAGS))
        internal, tags = (value or 0.0 for value in busy)
        left = min(1.0, tags / internal) if internal else 1.0
        return {"bus_bytes": 0.0, **({"l2_requests": left, "l2_sectors": left} if left < 0.5 else {})}

    def _brings(self, facts: Facts, away: float) -> tuple[float, str]:
        """Load of device memory that the bytes from across the bus become, as a share of the present time."""
        roof, unit = facts.counters.roofline, facts.counters.units.get("dram")
        seconds = (facts.counters.launch.duration_us or 0.0) / 1e6
        if roof is None or unit is None or not roof.bandwidth or not seconds:
            return 0.0, ""
        moved = away * SECTOR / seconds + roof.bytes_per_s
        return moved / (roof.bandwidth * unit.attainable), unit.title
