"""The verdict in words: one sentence of the regime, what is not the limit, and the next step."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.engine.verdict import sentences
from kscope.engine.verdict.next_step import Blind
from kscope.engine.verdict.regime import Regimen
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding, NextStep, Verdict
from kscope.model.contract.limiters import of_kernel
from kscope.model.units import percent, precision, times


def verdict(
    facts: Facts, regimen: Regimen, findings: Sequence[Finding], blind: Blind, step: NextStep | None = None
) -> Verdict:
    """One sentence: the resource with its figures, the others for contrast, the next step with its gain. blind: the
    rules that could say nothing for want of a section; step: what to do, which stands in words of its own."""
    steps = []
    first = findings[0] if findings else None
    if step is not None and step.do == "measure":
        steps.append("next: read the code that the report holds" if blind.unread else "next: collect what lacks")
    elif first is not None and first.severity != "info" and first.estimate is not None:
        steps.append(
            f"next: {_lower(first.title)} ({first.code}), about {times(first.estimate.speedup)}, capped by "
            f"{first.estimate.capped_by}"
        )
    elif first is not None and first.severity != "info":
        steps.append(f"{_lower(first.title)} ({first.code})")
    elif not blind.much:
        steps.append("no rule promises more than 3 %")
    if blind.much:
        steps.append(blind.words)
    return sentences.verdict(
        regimen.regime, regimen.limiter, regimen.confidence, bound=f"on {of_kernel(regimen.limiter)}",
        reason=regimen.reason, contrast=_contrast(facts, regimen), next="; ".join(steps),
    )  # fmt: skip


def _lower(title: str) -> str:
    """A title inside a sentence: its first word in lower case, unless it is an opcode or an acronym."""
    return title if title[1:2].isupper() or title[:1].isdigit() else title[:1].lower() + title[1:]


def _contrast(facts: Facts, regimen: Regimen) -> str:
    """What is not the limit, for scale: device memory with its rate, then issue slots."""
    words = []
    roof, units = facts.counters.roofline, facts.counters.units
    if regimen.limiter == "dram_bandwidth" and "l2" in units and units["l2"].busy > units["dram"].busy:
        words.append(f"L2 {percent(units['l2'].busy)} busy handing the same bytes on")
    if "dram" in units and regimen.limiter != "dram_bandwidth":
        text = f"device memory at {percent(units['dram'].busy)} of peak"
        if roof is not None and roof.bandwidth:
            text += f" ({roof.bytes_per_s / 1e12:.2f} of {roof.bandwidth / 1e12:.2f} TB/s)"
        words.append(text)
    if roof is not None and roof.main is not None and regimen.regime == "memory":
        words.append(f"{percent(roof.main.flops / roof.main.peak)} of {precision(roof.main.precision)} peak")
    elif "issue" in units and "issue slots" not in regimen.reason:
        words.append(f"issue slots {percent(units['issue'].busy)}")
    return ", ".join(words)
