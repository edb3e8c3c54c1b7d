"""The regime of a kernel that saturates nothing: by what its warps wait for."""

from __future__ import annotations

from kscope.engine.verdict.regimen import UNSEEN, Regimen, empty_sms, lanes, shared_share, unknown
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Limiter, Regime
from kscope.model.units import percent

TOLD = 0.01  # share of warp time, below which the second wait is not worth a word
MANY = 8  # waves, from which the last one is no reason for empty slots: an eighth of the time at most
WORKING = 0.95  # of the time in which SMs have work, so that uneven work is no reason either
EMPTY = 0.6
"""Warps held over those that fit, below which slots stand empty. Judged: of all captures on an H200 only blocks of one
warp (triton_gather.block32) hold less, 0.29; a store a thread on a T4 holds 0.45; long threads hold 0.9 and more."""


def by_waits(facts: Facts) -> Regimen | None:
    """The group of waits with the largest share of warp time names the regime; None where none were collected."""
    known = facts.counters.collected
    memory, compute, overhead, mio = _groups(facts)
    total = memory + compute + overhead + (mio or 0.0)
    if not total:
        return None
    if (few := empty_sms(facts)) is not None:
        return few
    if facts.chip.elder:
        return unknown(facts.chip.elder)
    hot = facts.counters.hot_slice
    if hot is not None and facts.counters.nothing_busy:
        text = f"no unit is full but one slice of L2, which has {hot:.0f} times the work of the average one"
        return Regimen("memory", "atomics", 0.85, text)
    reason = _reason(facts)
    shares: list[tuple[float, Regime]] = [(memory, "memory"), (compute, "compute"), (overhead, "overhead")]
    (share, regime), (second, _) = sorted(shares, reverse=True)[:2]
    if mio and (abs(memory - compute) < mio or mio > share):  # shared memory, or special functions: it would decide
        return unknown(f"{reason}, and whether that is shared memory was not collected")
    if not known.units and share - second < facts.constants.waits_clear * total:
        return unknown(f"{reason}: no group of waits leads")
    confidence = min(0.9, 0.4 + 0.5 * share / total)
    if not known.units or _may_be_covered(facts):
        confidence = min(confidence, UNSEEN)
    if regime == "memory":
        return Regimen("memory", _memory_wait(facts, _mio(facts) * (shared_share(facts) or 0.0)), confidence, reason)
    if regime == "overhead":
        return Regimen("overhead", "barrier", confidence, reason)
    return _empty_slots(facts) or Regimen("compute", _compute_wait(facts), confidence, reason)


def _empty_slots(facts: Facts) -> Regimen | None:
    """Blocks end as fast as they start: all SMs work all the time, the launch has blocks enough, and yet warp slots
    stand empty. What the few warps wait for is not what holds the kernel up then (Little's law: more of them would)."""
    launch, slots = facts.counters.launch, facts.counters.occupancy
    if slots is None or slots.achieved is None or launch.waves < MANY or launch.active < WORKING:
        return None
    held = slots.achieved / slots.theoretical
    if held > EMPTY:
        return None
    text = f"SMs hold {percent(held)} of the warps that fit, for blocks end as fast as they start"
    return Regimen("overhead", "launch", UNSEEN, text)


def _reason(facts: Facts) -> str:
    """The two largest waits, behind what is known of the units."""
    waits = facts.counters.stalls.waiting()[:2]
    told = [f"{r.replace('_', ' ')} ({percent(s)})" for i, (r, s) in enumerate(waits) if not i or s >= TOLD]
    seen = "no unit is full" if facts.counters.collected.units else "how full the units are was not collected"
    return f"{seen}; warps stall on {' and '.join(told)}"


def _may_be_covered(facts: Facts) -> bool:
    """Waits for asynchronous products, and nothing that says whether a busy pipe covers them."""
    blind = facts.code is None or not facts.counters.stalls.samples or facts.kernel.timelines is None
    return blind and _wgmma_waits(facts) > 0


def _groups(facts: Facts) -> tuple[float, float, float, float | None]:
    """Shares of warp time: memory, compute, overhead, and what is memory or compute, where the report does not say."""
    stalls, shared = facts.counters.stalls, shared_share(facts)
    mio = _mio(facts)
    memory = stalls.of("long_scoreboard", "lg_throttle", "tex_throttle", "drain", "membar", "imc_miss")
    compute = stalls.of("wait", "math_pipe_throttle", "dispatch_stall", "branch_resolving", "no_instructions")
    compute += stalls.of("selected", "not_selected")
    # The sampler counts the wait for wgmma results as barrier; it is the tensor pipe's latency, not a barrier.
    products = _wgmma_waits(facts)
    overhead = max(0.0, stalls.of("barrier", "sleeping") - products)
    compute += products
    if shared is None:
        return memory, compute, overhead, mio
    tables = min(_constants(facts), mio * (1 - shared))
    return memory + mio * shared + tables, compute + mio * (1 - shared) - tables, overhead, None


def _constants(facts: Facts) -> float:
    """Share of warp time that waits for constants which lanes index: these pass the queue of shared memory and special
    functions, and are memory."""
    code = facts.code
    if code is None or not len(code.indexed_constants):
        return 0.0
    return code.blamed_share(code.indexed_constants, "short_scoreboard", "mio_throttle")


def _mio(facts: Facts) -> float:
    return facts.counters.stalls.of("short_scoreboard", "mio_throttle")


def _wgmma_waits(facts: Facts) -> float:
    """Share of warp time at the waits for asynchronous products. Counters alone say barrier for them; that there are
    any shows in a state that only wgmma knows."""
    code = facts.code
    stalls = facts.counters.stalls
    if code is None or not stalls.samples:
        return stalls.of("barrier", "warpgroup_arrive") if stalls.of("warpgroup_arrive") else 0.0
    if not any("wgmma" in op.kind for op in code.classes):
        return 0.0
    return code.blamed_share(code.where(lambda ins, op: "wgmma_wait" in op.kind), "barrier", "warpgroup_arrive")


def _memory_wait(facts: Facts, shared: float) -> Limiter:
    stalls, code = facts.counters.stalls, facts.code
    if code is not None and any(code.samples):
        atomics = code.where(lambda ins, op: op.access in ("atomic", "reduction"))
        if code.blamed_share(atomics) > facts.constants.waits_name:
            return "atomics"
    if shared > stalls.of("long_scoreboard", "lg_throttle"):
        return "shared_memory"
    if _constants(facts) > stalls.of("long_scoreboard", "lg_throttle"):
        return "l1_throughput"  # as where the path of constants is full (leaning.by_full_constants)
    return "l1_throughput" if stalls.of("lg_throttle") > stalls.of("long_scoreboard") else "memory_latency"


def _compute_wait(facts: Facts) -> Limiter:
    stalls = facts.counters.stalls
    if lanes(facts) < 16:
        return "divergence"
    if _wgmma_waits(facts) > facts.constants.waits_name:
        return "tensor_pipe"
    if stalls.of("no_instructions") > stalls.of("wait", "math_pipe_throttle"):
        return "instruction_fetch"
    if stalls.of("not_selected", "math_pipe_throttle", "dispatch_stall") > stalls.of("wait", "short_scoreboard"):
        return "instruction_issue"
    return "dependency_latency"
