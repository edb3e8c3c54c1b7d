"""The regime: compute, memory or overhead, and the unit or wait that limits; unknown where too little was collected.

In this order, because each step explains the time left by the one before:
1. most of the time no SM has work at all: the launch itself;
2. a unit is full over the whole kernel: that unit (the roofline's answer);
3. SMs stand idle, by a small grid, a partial last wave or uneven work: the launch shape, or where that was not measured
   what the number of blocks foretells;
4. a unit is well used but not full: that unit, with less confidence;
5. nothing is: what the warps wait for, memory latency counting as memory, dependencies and issue as compute,
   barriers as overhead (`waits`);
6. and where that was not collected either, what else is there (`leaning`).

How full, idle or long is in kscope/arch/estimates.toml.
"""

from __future__ import annotations

import msgspec

from kscope.engine.verdict.leaning import by_full_constants, by_what_is_there
from kscope.engine.verdict.regimen import UNSEEN, Regimen, empty_sms, lanes, shared_share
from kscope.engine.verdict.waits import by_waits
from kscope.features.counters.units import Unit
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Limiter
from kscope.model.units import counted, percent

__all__ = ["Regimen", "decide"]

WAVES = 2.0  # of what the last wave explains: SMs that differ by more have other work (judged: one kernel, 100 times)


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
    if not facts.counters.collected.units:
        known *= 0.85
    return known


def _decide(facts: Facts) -> Regimen:
    launch, unit = facts.counters.launch, _limiting(facts)
    if launch.cycles and launch.own > facts.constants.mostly_outside:
        reason = f"SMs have work in only {percent(launch.active_max)} of the kernel's {_us(facts)}"
        return Regimen("overhead", "launch", 0.9, reason)
    if launch.behind > facts.constants.mostly_outside:
        text = f"SMs have done after {percent(launch.active_max)} of the time, and one slice of L2 still adds up"
        return Regimen("memory", "atomics", 0.85, text)
    pipeline = _by_pipeline(facts)
    full = unit is not None and unit.load >= facts.constants.full_unit
    held = unit is not None and full and unit.name != "tensor" and facts.specialized.held_up(unit.name)
    if pipeline is not None and not held:
        return pipeline
    if unit is not None and full:
        return _by_unit(facts, unit, 0.95 if unit.named >= facts.constants.used_unit else 0.75)
    if launch.cycles and launch.active < facts.constants.idle_sms:
        shape = _by_shape(facts)
        if shape is not None:
            return shape
    if (empty := empty_sms(facts)) is not None:
        return empty
    return _by_used(facts, unit) or by_full_constants(facts) or by_waits(facts) or by_what_is_there(facts)


def _by_used(facts: Facts, unit: Unit | None) -> Regimen | None:
    """A unit that is well used, where nothing else explains the time."""
    if unit is None or unit.load < facts.constants.used_unit or _latency_leads(facts, unit):
        return None
    return _by_unit(facts, unit, 0.75 if facts.counters.collected.units else UNSEEN)


def _latency_leads(facts: Facts, unit: Unit) -> bool:
    """A pipe or the issue slots are well used, yet warps wait for memory longer than they run or stand in line for
    them: two limits close to each other, and the wait is the one that more warps or loads in flight move."""
    stalls = facts.counters.stalls
    if unit.regime != "compute" or not stalls.waiting():
        return False
    reason, share = stalls.waiting()[0]
    busy = stalls.of("selected", "not_selected", "math_pipe_throttle", "dispatch_stall")
    return reason in ("long_scoreboard", "lg_throttle") and share >= facts.constants.waits_lead and share > busy


def _by_pipeline(facts: Facts) -> Regimen | None:
    """A specialised kernel, from the timeline of the unit that it is for rather than from what its warps wait for: the
    plateau of the unit, and what keeps it from there. None where there is no such timeline, where it has too few bins
    for more than bounds, or memory is its unit and is full."""
    sp = facts.specialized.pipeline
    if sp is None or sp.loss is None or sp.phases is None:
        return None
    loss, ph = sp.loss, sp.phases
    fixed = loss.fill + loss.drain
    if not sp.resolved:
        return None
    name = {"tensor": "tensor pipe", "dram": "device memory", "l2": "L2"}[ph.unit]
    at = f"{name} {percent(ph.level)} busy while it runs"
    if fixed > facts.constants.primed and fixed > loss.steady:
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
    idle = ph.unit != "tensor" or ph.level < facts.constants.tensor_at_work * ph.attainable
    if idle and loss.data > loss.epilogue + loss.loop + loss.pipe:
        if sp.asks_late and sp.makes >= facts.constants.producer_makes:  # what is waited for is made, not fetched
            return Regimen("compute", "dependency_latency", 0.7, text)
        return Regimen("memory", "memory_latency", 0.85, text)
    if ph.unit != "tensor":
        return None
    return Regimen("compute", "tensor_pipe", 0.95 if ph.level >= 0.9 * ph.attainable else 0.8, text)


def _limiting(facts: Facts) -> Unit | None:
    """The fullest unit. L2 moves all that device memory delivers, so where both are about as full, or only L2's overall
    counter is fuller, device memory is the cause."""
    unit, dram, tensor = facts.counters.busiest, facts.counters.units.get("dram"), facts.counters.units.get("tensor")
    c = facts.constants
    if unit is not None and tensor is not None and unit.load < c.full_unit and tensor.load > c.as_full * unit.load:
        return tensor  # what feeds the products is about as busy as they are: they are the work
    if unit is not None and dram is not None and unit.name == "l2":
        shown = facts.counters.l2_shows_dram and dram.load >= c.used_unit
        return dram if shown or dram.load > c.as_full * unit.load else unit
    return unit


def _us(facts: Facts) -> str:
    return f"{facts.counters.launch.duration_us:.1f} us" if facts.counters.launch.duration_us is not None else "time"


def _by_unit(facts: Facts, unit: Unit, confidence: float) -> Regimen:
    limiter: Limiter = unit.limiter
    if unit.name in ("l1", "lsu") and (shared_share(facts) or 0.0) > 0.5:
        limiter = "shared_memory"
    if limiter == "fp32_pipe" and _integer_on_fma(facts):
        limiter = "integer_pipe"  # IMAD and its kind run on the heavy half of the FMA pipe
    if limiter in ("instruction_issue", "fp32_pipe", "integer_pipe") and lanes(facts) < 20:
        limiter = "divergence"
    if unit.parts[0].demand == "l2_slice" and facts.counters.hot_slice is not None:
        limiter = "atomics"
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
    if launch.waves > 1 and launch.tail_gain > 1.1 and launch.imbalance < WAVES * launch.shape:
        return Regimen("overhead", "tail", 0.85, f"{launch.waves:.2f} waves of blocks; {busy}")
    if launch.imbalance < facts.constants.even_work:
        text = f"blocks start and drain for {percent(1 - launch.active)} of the kernel's {_us(facts)}"
        return Regimen("overhead", "launch", 0.6, text)
    if launch.even:
        return None
    sure = 0.75 if launch.uneven is not None else UNSEEN
    return Regimen("overhead", "imbalance", sure, f"the busiest SM works {launch.imbalance:.1f}x the mean; {busy}")
