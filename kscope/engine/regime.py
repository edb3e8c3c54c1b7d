"""The regime: compute, memory or overhead, always one, and the unit or wait that limits.

In this order, because each step explains the time left by the one before:
1. most of the time no SM has work at all: the launch itself;
2. a unit is full over the whole kernel: that unit (the roofline's answer);
3. SMs stand idle, by a small grid, a partial last wave or uneven work: the launch shape;
4. a unit is well used but not full: that unit, with less confidence;
5. nothing is: what the warps wait for, memory latency counting as memory, dependencies and issue as compute,
   barriers as overhead.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from kscope.features.counters.units import Unit
from kscope.features.facts import Facts
from kscope.features.sass.columns import total
from kscope.model.analysis import Limiter, Regime
from kscope.model.units import counted, percent

FULL = 0.80  # load of a unit (share of what is attainable) from which it is the limit
USED = 0.60  # load from which it is the likely limit when nothing else explains the time
EVEN = 1.2  # busiest SM over the mean, below which the work is even and the idle time is start and drain
AT_LEAST = 0.2  # the same where the timeline has too few bins and only bounds are known
PRIMED = 0.3  # share of the time in fill and drain, from which they are what a specialised kernel spends it on
WAITED = 0.1  # share of the time that its unit waits for data, from which that names the regime
AT_WORK = 0.7  # of what the tensor pipe attains, from which it names the regime whatever its consumers wait for.
# Between a fused attention kernel at 0.76, 13 % of its time waiting, and our own rings of two and three stages at 0.66
TOLD = 0.01  # share of warp time, below which the second wait is noise
FLOATS = frozenset({"fp32", "fp32_fma", "fp16", "fp64"})
MAKES = 0.2  # of a producer's instructions; producers that only copy have 0.00 to 0.01 (ws_gemm, ws_proj, tma_scale)
IDLE = 0.80  # mean share of the time an SM has work, below which the launch shape is the limit


class Regimen(Struct, frozen=True):
    """Regime, limiter, confidence (0..1) and the measured reason in words."""

    regime: Regime
    limiter: Limiter
    confidence: float
    reason: str


def decide(facts: Facts) -> Regimen:
    """The regime, less sure where the report lacks what would confirm it."""
    found = _decide(facts)
    return msgspec.structs.replace(found, confidence=found.confidence * _known(facts))


def _known(facts: Facts) -> float:
    """Confidence that the collected sections allow: what warps wait for and where confirms what units say; without
    the memory units a full pipe may only look like the fullest."""
    known = 1.0
    if not facts.counters.stalls.share:
        known *= 0.85
    elif not facts.counters.stalls.samples:
        known *= 0.95
    if not {"dram", "l2", "l1"} <= set(facts.counters.units) or not {"issue", "fma"} <= set(facts.counters.units):
        known *= 0.85
    return known


def _decide(facts: Facts) -> Regimen:
    launch, unit = facts.counters.launch, _limiting(facts)
    if launch.cycles and launch.outside > 0.5:
        reason = f"SMs have work in only {percent(launch.active_max)} of the kernel's {_us(facts)}"
        return Regimen("overhead", "launch", 0.9, reason)
    pipeline = _by_pipeline(facts)
    full = unit is not None and unit.load >= FULL
    held = unit is not None and full and unit.name != "tensor" and facts.specialized.held_up(unit.name)
    if pipeline is not None and not held:
        return pipeline
    if unit is not None and full:
        return _by_unit(facts, unit, 0.95 if unit.named >= USED else 0.75)
    if launch.cycles and launch.active < IDLE:
        shape = _by_shape(facts)
        if shape is not None:
            return shape
    if unit is not None and unit.load >= USED:
        return _by_unit(facts, unit, 0.75)
    return _by_waits(facts)


def _by_pipeline(facts: Facts) -> Regimen | None:
    """A specialised kernel, from the timeline of the unit that it is for rather than from what its warps wait for: the
    plateau of the unit, and what keeps it from there. None where there is no such timeline, or memory is its unit and
    is full."""
    sp = facts.specialized.pipeline
    if sp is None or sp.loss is None or sp.phases is None:
        return None
    loss, ph = sp.loss, sp.phases
    fixed = loss.fill + loss.drain
    if not sp.resolved and sp.fixed_at_least < AT_LEAST:
        return None
    name = {"tensor": "tensor pipe", "dram": "device memory", "l2": "L2"}[ph.unit]
    at = f"{name} {percent(ph.level)} busy while it runs"
    if fixed > PRIMED and (fixed > loss.steady or not sp.resolved):
        text = f"{at}, after {ph.fill:.1f} us of fill and before {ph.drain:.1f} us of drain"
        return Regimen("overhead", "pipeline_fill", 0.85, text)
    rest = [f"fill and drain {percent(fixed)}"] if fixed > 0.01 else []
    if loss.turnover > 0.01:
        rest.append(f"{percent(loss.turnover)} between blocks")
    if loss.epilogue > 0.01:
        drops = f" in {len(ph.bubbles)} bubbles" if loss.bubbles > 0.5 * loss.epilogue else ""
        rest.append(f"{percent(loss.epilogue)} between tiles{drops}")
    if loss.data > 0.01:
        rest.append(f"{percent(loss.data)} waiting for data")
    if loss.loop + loss.pipe > 0.01:
        rest.append(f"{percent(loss.loop + loss.pipe)} between products")
    if loss.uneven > 0.01:
        rest.append(f"{percent(loss.uneven)} to uneven work of the SMs")
    lost = fixed + loss.steady + loss.uneven
    text = f"{at}; {percent(lost)} of the time is lost" + (f": {', '.join(rest)}" if rest else "")
    return _by_unit_at_work(facts, text)


def _by_unit_at_work(facts: Facts, text: str) -> Regimen | None:
    """Neither fill nor drain decide: the unit, or what keeps it waiting where it is not at work."""
    sp = facts.specialized.pipeline
    if sp is None or sp.loss is None or sp.phases is None:
        return None
    loss, ph = sp.loss, sp.phases
    idle = ph.unit != "tensor" or ph.level < AT_WORK * ph.attainable
    if idle and loss.data > WAITED and loss.data > loss.epilogue + loss.loop + loss.pipe:
        if _producer_computes(facts):  # what is waited for is made, not fetched
            return Regimen("compute", "dependency_latency", 0.7, text)
        return Regimen("memory", "memory_latency", 0.85, text)
    if ph.unit != "tensor":
        return None
    return Regimen("compute", "tensor_pipe", 0.95 if ph.level >= 0.9 * ph.attainable else 0.8, text)


def _producer_computes(facts: Facts) -> bool:
    """Floating-point arithmetic is a good part of what the producing warps execute: they convert, scale, exponentiate
    what the others then multiply."""
    sp, code = facts.specialized.pipeline, facts.code
    if sp is None or code is None:
        return False
    members = {i for role in sp.roles.producers for i in role.members}
    made = [i for i in members if code.classes[i].kind & FLOATS]
    return bool(members) and total(code.executed, made) >= MAKES * total(code.executed, members)


def _limiting(facts: Facts) -> Unit | None:
    """The fullest unit. L2 moves all that device memory delivers, so where both are about as full, device memory is
    the cause."""
    unit, dram, tensor = facts.counters.busiest, facts.counters.units.get("dram"), facts.counters.units.get("tensor")
    if unit is not None and tensor is not None and unit.load < FULL and tensor.load > 0.9 * unit.load:
        return tensor  # what feeds the products is about as busy as they are: they are the work
    if unit is not None and dram is not None and unit.name == "l2" and dram.load > 0.9 * unit.load:
        return dram
    return unit


def _us(facts: Facts) -> str:
    return f"{facts.counters.launch.duration_us:.1f} us" if facts.counters.launch.duration_us is not None else "time"


def _by_unit(facts: Facts, unit: Unit, confidence: float) -> Regimen:
    limiter: Limiter = unit.limiter
    if unit.name in ("l1", "lsu") and _shared_share(facts) > 0.5:
        limiter = "shared_memory"
    if limiter == "fp32_pipe" and _integer_on_fma(facts):
        limiter = "integer_pipe"  # IMAD and its kind run on the heavy half of the FMA pipe
    if limiter in ("instruction_issue", "fp32_pipe", "integer_pipe") and _lanes(facts) < 20:
        limiter = "divergence"
    point = facts.counters.roofline
    rate = ""
    if unit.name == "dram" and point is not None and point.bandwidth:
        rate = f" ({point.bytes_per_s / 1e12:.2f} of {point.bandwidth / 1e12:.2f} TB/s)"
    return Regimen(unit.regime, limiter, confidence, f"{unit.title} {percent(unit.busy)} busy{rate}")


def _integer_on_fma(facts: Facts) -> bool:
    """Most of what the FMA pipe executes is integer multiply-add."""
    opcodes = facts.kernel.opcodes
    integer = sum(v for k, v in opcodes.items() if k.startswith(("IMAD", "IDP", "XMAD")))
    real = sum(v for k, v in opcodes.items() if k.startswith(("FFMA", "FMUL", "FADD")))
    return integer > real


def _by_shape(facts: Facts) -> Regimen | None:
    """What the shape of the launch leaves idle; None where all SMs have the same work and some take longer for it."""
    launch = facts.counters.launch
    busy = f"SMs have work in {percent(launch.active)} of the time on average"
    if launch.idle_sms:
        text = (
            f"{counted(launch.blocks, 'block')} {'leaves' if launch.blocks == 1 else 'leave'} {launch.idle_sms} of "
            f"{launch.sms} SMs empty; {busy}"
        )
        return Regimen("overhead", "small_grid", 0.9, text)
    if launch.waves > 1 and launch.tail_gain > 1.1:
        return Regimen("overhead", "tail", 0.85, f"{launch.waves:.2f} waves of blocks; {busy}")
    if launch.imbalance < EVEN:
        text = f"blocks start and drain for {percent(1 - launch.active)} of the kernel's {_us(facts)}"
        return Regimen("overhead", "launch", 0.6, text)
    if launch.even:
        return None
    return Regimen("overhead", "imbalance", 0.75, f"the busiest SM works {launch.imbalance:.1f}x the mean; {busy}")


def _by_waits(facts: Facts) -> Regimen:
    """Nothing is saturated: the group of waits with the largest share of warp time names the regime."""
    stalls = facts.counters.stalls
    memory_mio = _shared_share(facts)
    mio = stalls.of("short_scoreboard", "mio_throttle")
    memory = stalls.of("long_scoreboard", "lg_throttle", "tex_throttle", "drain", "membar", "imc_miss")
    memory += mio * memory_mio
    compute = stalls.of("wait", "math_pipe_throttle", "dispatch_stall", "branch_resolving", "no_instructions")
    compute += stalls.of("selected", "not_selected") + mio * (1 - memory_mio)
    # The sampler counts the wait for wgmma results as barrier; it is the tensor pipe's latency, not a barrier.
    products = _wgmma_waits(facts)
    overhead = max(0.0, stalls.of("barrier", "sleeping") - products)
    compute += products
    total = memory + compute + overhead
    if not total:
        return Regimen("overhead", "launch", 0.2, "no unit utilisation and no warp states were collected")
    share, regime = max((memory, "memory"), (compute, "compute"), (overhead, "overhead"))
    confidence = min(0.9, 0.4 + 0.5 * share / total)
    if products and not stalls.samples:  # whether a busy pipe covers them, counters do not say
        confidence = min(confidence, 0.5)
    waits = stalls.waiting()[:2]
    told = [f"{r.replace('_', ' ')} ({percent(s)})" for i, (r, s) in enumerate(waits) if not i or s >= TOLD]
    reason = f"no unit is full; warps stall on {' and '.join(told)}"
    if regime == "memory":
        return Regimen("memory", _memory_wait(facts, mio * memory_mio), confidence, reason)
    if regime == "overhead":
        return Regimen("overhead", "barrier", confidence, reason)
    return Regimen("compute", _compute_wait(facts), confidence, reason)


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
        if code.blamed_share(atomics) > 0.3:
            return "atomics"
    if shared > stalls.of("long_scoreboard", "lg_throttle"):
        return "shared_memory"
    return "l1_throughput" if stalls.of("lg_throttle") > stalls.of("long_scoreboard") else "memory_latency"


def _compute_wait(facts: Facts) -> Limiter:
    stalls = facts.counters.stalls
    if _lanes(facts) < 16:
        return "divergence"
    if _wgmma_waits(facts) > 0.3:
        return "tensor_pipe"
    if stalls.of("no_instructions") > stalls.of("wait", "math_pipe_throttle"):
        return "instruction_fetch"
    if stalls.of("not_selected", "math_pipe_throttle", "dispatch_stall") > stalls.of("wait", "short_scoreboard"):
        return "instruction_issue"
    return "dependency_latency"


def _lanes(facts: Facts) -> float:
    """Active lanes an executed instruction, 0..32."""
    return facts.kernel.metrics.get("smsp__thread_inst_executed_per_inst_executed.ratio") or 32.0


def _shared_share(facts: Facts) -> float:
    """Share of the memory-instruction queue's work that is shared memory, by wavefronts: 0..1."""
    shared = facts.counters.traffic.shared_wavefronts
    every = facts.counters.traffic.l1_wavefronts
    if every is None and facts.code is not None:
        code = facts.code
        mio = code.where(lambda ins, op: op.scoreboard == "short" or op.space == "shared")
        lds = [i for i in mio if code.classes[i].space == "shared"]
        all_mio = total(code.executed, mio)
        return total(code.executed, lds) / all_mio if all_mio else 0.0
    return min(1.0, shared / every) if every else float(shared > 0)
