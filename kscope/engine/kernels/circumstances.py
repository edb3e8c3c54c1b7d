"""What happened to the kernel while it was measured, where it changes the answer: clocks, caches, company."""

from __future__ import annotations

from kscope.engine.kernels.collecting import skipped
from kscope.engine.verdict.regimen import Regimen
from kscope.features.facts import Facts
from kscope.model.units import percent

SLOW = 0.9
"""Clock of the capture over the highest, below which times differ by more than the promises of most findings. The H200
captures, with free clocks, ran at 0.98 of it and more."""
COLD_MATTERS = ("dram_bandwidth", "memory_latency", "l2_bandwidth", "unknown")
FETCH = 0.2  # share of warp time in which instructions are fetched, from which a first launch may be to blame
BRIEF_US = 20.0  # time of a kernel, below which its first instructions are a part of it


def circumstances(facts: Facts, regimen: Regimen, before: int) -> list[str]:
    """Sentences for the reader. before: launches of the function that came earlier in the report."""
    notes = [_clocks(facts), _caches(facts, regimen), _company(facts), _first(facts, before), _borrowed(facts)]
    return [note for note in notes if note]


def _clocks(facts: Facts) -> str:
    m, how = facts.kernel.metrics, facts.kernel.recorded
    ran = m.first("gpc__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second")
    highest = m.get("device__attribute_clock_rate")
    if not ran or not highest or ran >= SLOW * 1e3 * highest:
        return ""
    share = f"{percent(ran / highest / 1e3)} of the highest clock ({highest / 1e6:.2f} GHz)"
    told = f"measured at {ran / 1e9:.2f} GHz, {share}"
    if how.get("clock-control") == "none":
        return f"{told} although the clocks were free: power or heat held them, or they had no time to rise"
    gain = 1e3 * highest / ran
    held = "ncu holds the base clock unless told --clock-control none"
    return f"{told}; {held}. Without it, what computes or waits takes up to {gain:.2f}x less; device memory does not"


def _caches(facts: Facts, regimen: Regimen) -> str:
    """Caches that were emptied before the kernel, whose data would have fitted in L2."""
    m, how = facts.kernel.metrics, facts.kernel.recorded
    roof, seconds = facts.counters.roofline, (facts.kernel.duration_ns or 0.0) / 1e9
    l2 = m.get("device__attribute_l2_cache_size")
    if not how or how.get("cache-control", "all") != "all" or roof is None or not l2 or not seconds:
        return ""
    moved = roof.bytes_per_s * seconds
    if regimen.limiter not in COLD_MATTERS or moved > l2 or regimen.regime == "overhead":
        return ""
    passes = m.get("profiler__replayer_passes")
    each = f"before each of {passes:.0f} passes" if passes else "before each pass"
    fits = f"the {moved / 1e6:.3g} MB that device memory moved fit in L2 ({l2 / 1e6:.3g} MB)"
    return (
        f"ncu emptied the caches {each}; {fits}: "
        "where a kernel before this one leaves them there, it takes less (--cache-control none measures that)"
    )


def _company(facts: Facts) -> str:
    m = facts.kernel.metrics
    if m.get("launch__uses_green_context"):
        return "it ran in a green context, on a part of the SMs: shares of a peak are of the whole GPU"
    if m.get("launch__uses_mps") or m.get("device__attribute_mps_enabled"):
        return "MPS was on: other processes may have used the GPU meanwhile"
    return ""


def _first(facts: Facts, before: int) -> str:
    """The first launch fetches its code from memory; later ones find it in L2, if nobody empties that."""
    fetching = facts.counters.stalls.of("no_instructions", "imc_miss")
    time = facts.counters.launch.duration_us
    if before or skipped(facts.kernel) or facts.kernel.index or not facts.kernel.recorded or fetching < FETCH:
        return ""
    if time is None or time > BRIEF_US:
        return ""
    return (
        f"the first launch of the program: {percent(fetching)} of warp time goes into fetching code and constants, "
        "which later launches find in caches (--launch-skip 1 measures one)"
    )


def _borrowed(facts: Facts) -> str:
    """Which numbers about the chip are not its own."""
    if not facts.chip.borrowed:
        return ""
    return f"not of sm_{facts.kernel.device.sm} itself (kscope arch): {', '.join(facts.chip.borrowed)}"
