"""The verdict in words: one sentence of the regime, what is not the limit, and the next step."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.engine.regime import Regimen
from kscope.features.facts import Facts
from kscope.model.analysis import Finding, Limiter, Verdict
from kscope.model.units import percent

UNHEARD = 5  # rules without their inputs, from which silence says little
WORDS: dict[Limiter, str] = {
    "dram_bandwidth": "device-memory bandwidth",
    "l2_bandwidth": "L2 bandwidth",
    "l1_throughput": "L1 throughput",
    "shared_memory": "shared memory",
    "memory_latency": "memory latency",
    "atomics": "atomics",
    "tensor_pipe": "the tensor pipe",
    "fp32_pipe": "the FP32 pipe",
    "fp64_pipe": "the FP64 pipe",
    "integer_pipe": "the integer pipe",
    "special_function": "special functions",
    "instruction_issue": "instruction issue",
    "dependency_latency": "dependent instructions",
    "instruction_fetch": "instruction fetch",
    "divergence": "divergent warps",
    "launch": "its own launch",
    "small_grid": "a grid too small for the device",
    "tail": "a partial last wave",
    "imbalance": "uneven work across SMs",
    "barrier": "barriers",
    "pipeline_fill": "filling and draining its pipeline",
}


def verdict(facts: Facts, regimen: Regimen, findings: Sequence[Finding], unheard: int = 0) -> Verdict:
    """One sentence: the resource with its figures, the others for contrast, the next step with its gain. unheard:
    rules that could say nothing for want of a section."""
    parts = [f"{regimen.regime.capitalize()}-bound on {WORDS.get(regimen.limiter, regimen.limiter)}: {regimen.reason}"]
    contrast = _contrast(facts, regimen)
    if contrast:
        # A reason with a list of its own must not swallow the figures that follow it.
        parts[0] += f"{'; ' if ';' in regimen.reason else ', '}{contrast}"
    first = findings[0] if findings else None
    if first is not None and first.severity != "info" and first.estimate is not None:
        parts.append(
            f"next: {_lower(first.title)} ({first.code}), about {first.estimate.speedup:.2g}x, capped by "
            f"{first.estimate.capped_by}"
        )
    elif first is not None and first.severity != "info":
        parts.append(f"{_lower(first.title)} ({first.code})")
    elif unheard < UNHEARD:
        parts.append("no rule promises more than 3 %")
    if unheard >= UNHEARD:
        parts.append(f"{unheard} rules lack what this report does not hold (profile with --set full)")
    return Verdict(
        regime=regimen.regime,
        limiter=regimen.limiter,
        confidence=round(regimen.confidence, 2),
        sentence="; ".join(parts) + ".",
    )


def _lower(title: str) -> str:
    """A title inside a sentence: its first word in lower case, unless it is an opcode or an acronym."""
    return title if title[1:2].isupper() or title[:1].isdigit() else title[:1].lower() + title[1:]


def _contrast(facts: Facts, regimen: Regimen) -> str:
    """What is not the limit, for scale: device memory with its rate, then issue slots."""
    words = []
    roof, units = facts.counters.roofline, facts.counters.units
    if "dram" in units and regimen.limiter != "dram_bandwidth":
        text = f"device memory at {percent(units['dram'].busy)} of peak"
        if roof is not None and roof.bandwidth:
            text += f" ({roof.bytes_per_s / 1e12:.2f} of {roof.bandwidth / 1e12:.2f} TB/s)"
        words.append(text)
    if roof is not None and roof.main is not None and regimen.regime == "memory":
        words.append(f"{percent(roof.main.flops / roof.main.peak)} of {roof.main.precision.upper()} peak")
    elif "issue" in units and "issue slots" not in regimen.reason:
        words.append(f"issue slots {percent(units['issue'].busy)}")
    return ", ".join(words)
