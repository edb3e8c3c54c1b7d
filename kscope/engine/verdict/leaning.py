"""The regime of a kernel that saturates nothing and whose warp states were not collected: what `ncu` without options
leaves most people with. What is there says it in three cases, none of them surely; else the limit is unknown.

Judged on tools/partial.py (set `basic`): what is told here is right in 39 of 41 captures, what is called unknown would
have been a guess.
"""

from __future__ import annotations

from kscope.engine.verdict.regimen import Regimen, empty_sms, unknown
from kscope.features.facts import SECTOR, Facts
from kscope.model.contract.analysis import Limiter
from kscope.model.units import percent

SURE = 0.5  # confidence at most: nothing confirms it
LEANS = 0.45
APART = 2.5  # load of one side over that of the other, from which it is the likelier one
BUSY = 0.2  # load below which a side that is ahead says nothing: everything may wait
CONSTANTS = 0.95  # load of the constant path, of which short threads cost up to 0.93 (bitonic1024.barriers)
IDLE = 0.2  # load of the issue slots, below which threads are not short: they would issue what they fetch
UNEVEN = 2.0  # busiest slice of L2 over the mean, from which one address is everybody's
CROWDED = 60.0  # percent of the warps an SM holds, from which waiting warps are there in numbers
MEMORY, COMPUTE = ("dram", "l2", "l1", "lsu"), ("issue", "fma", "alu", "fp64", "xu", "tensor")
ACTIVE = "lts__cycles_active.{}"
MEANT = 32768.0  # bytes over the bus that a kernel of a few flags does not reach (as MEM110 asks for: 1024 sectors)
WHOLE = ("gpu__compute_memory_access_throughput", "gpu__compute_memory_request_throughput")
FULL = 0.8
ELAPSED = ".avg.pct_of_peak_sustained_elapsed"


def by_what_is_there(facts: Facts) -> Regimen:
    """In this order: an empty chip, what comes over the bus, a path that is full and rarely is, slices of L2 that
    differ, one side busier than the other."""
    steps = (empty_sms, _bus, _memory_system, by_full_constants, _slices, _side)
    return next((found for step in steps if (found := step(facts)) is not None), None) or unknown(_nothing(facts))


def _bus(facts: Facts) -> Regimen | None:
    """More bytes from system memory than from device memory, while nothing on the chip is full."""
    roof, seconds = facts.counters.roofline, (facts.kernel.duration_ns or 0.0) / 1e9
    away = SECTOR * facts.counters.traffic.sysmem_sectors
    if roof is None or not seconds or away < MEANT or away / seconds <= roof.bytes_per_s:
        return None
    text = f"{away / 1e6:,.1f} MB cross the bus at {away / seconds / 1e9:.1f} GB/s, more than device memory delivers"
    return Regimen("memory", "memory_latency", SURE, text)


def _memory_system(facts: Facts) -> Regimen | None:
    """NVIDIA's own maximum over L1 and L2, where their parts were not collected."""
    if {"l1", "l2"} <= set(facts.counters.units):
        return None
    values = [v for name in WHOLE if (v := facts.kernel.metrics.get(name + ELAPSED)) is not None]
    if not values or max(values) < 100 * FULL:
        return None
    return Regimen(
        "memory", "l1_throughput", SURE, f"the fullest part of L1 and L2 is {percent(max(values) / 100)} busy"
    )


def by_full_constants(facts: Facts) -> Regimen | None:
    """Lanes that read different constants, where no code shows it; with code, CounterFacts.busiest asks for it."""
    units = facts.counters.units
    if facts.code is not None or "constant" not in units or "issue" not in units:
        return None
    if units["constant"].load < CONSTANTS or units["issue"].load > IDLE:
        return None
    text = f"the constant path is {percent(units['constant'].busy)} busy, issue slots {percent(units['issue'].busy)}"
    return Regimen("memory", "l1_throughput", SURE, text)


def _slices(facts: Facts) -> Regimen | None:
    """Full SMs, units that stand still, and slices of L2 that work unlike each other."""
    m, l2 = facts.kernel.metrics, facts.counters.units.get("l2")
    most, mean = m.get(ACTIVE.format("max")), m.get(ACTIVE.format("avg"))
    warps = m.get("sm__warps_active.avg.pct_of_peak_sustained_active")
    if l2 is None or not most or not mean or warps is None or warps < CROWDED or most < UNEVEN * mean:
        return None
    busiest = max(u.load for u in facts.counters.units.values())
    if busiest > BUSY:
        return None
    text = f"the busiest slice of L2 works {most / mean:.1f}x the mean, no unit more than {percent(busiest)}"
    return Regimen("memory", "atomics", SURE, f"{text}, with {percent(warps / 100)} of the warps there")


def _side(facts: Facts) -> Regimen | None:
    """Memory or computing, where one is well ahead of the other and neither full."""
    units = facts.counters.units
    if not facts.counters.collected.units:
        return None
    memory = max((units[u].load for u in MEMORY if u in units), default=0.0)
    compute = max((units[u].load for u in COMPUTE if u in units), default=0.0)
    apart = f"{_fullest(facts)}; what warps wait for was not collected"
    if memory >= BUSY and memory > APART * compute:
        limiter: Limiter = "memory_latency"
        return Regimen("memory", limiter, LEANS, f"no unit is full, and what is busy is memory: {apart}")
    if compute >= BUSY and compute > APART * memory:
        return Regimen("compute", "dependency_latency", LEANS, f"no unit is full, and what is busy computes: {apart}")
    return None


def _fullest(facts: Facts) -> str:
    unit = max(facts.counters.units.values(), key=lambda u: u.load)
    return f"the fullest unit is {unit.title} at {percent(unit.busy)}"


def _nothing(facts: Facts) -> str:
    """Why nothing can be said: what is there, then what is not."""
    known, units = facts.counters.collected, facts.counters.units
    if known.units:
        return f"no unit is full ({_fullest(facts)}), and what warps wait for was not collected"
    lacks = ["warp states"] if "warp states" in known.missing else []
    lacks = [part for part in ("memory units", "compute units", *lacks) if part in known.missing]
    words = {"memory units": "how full memory is", "compute units": "how full the pipes are",
             "warp states": "what warps wait for"}  # fmt: skip
    text = " and ".join(words[p] for p in lacks) if len(lacks) < 3 else "how full units are and what warps wait for"
    have = f"{_fullest(facts)}; " if units else ""
    return f"{have}{text} {'was' if len(lacks) == 1 else 'were'} not collected"
