"""How much faster a kernel could be at most: the roofs over what it does now, and over what its repair leaves."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import structs

from kscope.features.counters.traffic import SECTOR
from kscope.features.estimate.gains import no_higher
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding, Headroom
from kscope.model.contract.next_step import WRITTEN
from kscope.rules.base import Rule
from kscope.rules.registry import rule

BANDWIDTH = "device-memory bandwidth"
REWRITTEN = ("issue", "alu", "xu")
"""Units whose work another way of writing the same arithmetic lowers: what they leave is a bound of this code alone."""


def headroom(facts: Facts, findings: Sequence[Finding]) -> Headroom | None:
    """The largest speed-up that the roofline allows: device memory and the pipes in use at what is attainable, for the
    bytes and operations of now. A finding that removes bytes or operations moves the roof: then it is the bound."""
    now = _roofs(facts)
    if now is None:
        return None
    best = max((f for f in findings if f.estimate), key=lambda f: f.estimate.high if f.estimate else 0.0, default=None)
    if best is not None and best.estimate is not None and best.estimate.speedup > now[0]:
        by = f"{best.estimate.capped_by} once {best.code} is fixed"
        return Headroom(speedup_bound=best.estimate.high, bounded_by=by)
    return Headroom(speedup_bound=round(now[0], 2), bounded_by=now[1])


def under_the_roof(facts: Facts, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, none of them with a range beyond what the roofline allows, unless the fix moves the roof."""
    return [_under(facts, finding) for finding in findings]


def _under(facts: Facts, finding: Finding) -> Finding:
    """The range cut at the nearest roof, which is no surer than what kernels attained: some went a little beyond. A
    unit that the fix asks less of is none: what is left of its load bounds the range already."""
    estimate = finding.estimate
    if estimate is None or (now := _roofs(facts, estimate.relieves or ())) is None:
        return finding
    roof, by = now
    if estimate.high <= roof or estimate.speedup > roof:
        return finding
    kind = rule(finding.code)
    if issubclass(kind, Rule) and (kind.moves_roof or (finding.code.startswith("CMP") and by.endswith(WRITTEN))):
        return finding
    # A way that leaves fewer bytes is expected beyond the roof of now: the range may reach what that one does.
    ways = finding.remedies if by.startswith("device-memory") else []
    beyond = (r.estimate.high for r in ways if r.applies and r.estimate and r.estimate.speedup > roof)
    highest = max(beyond, default=facts.constants.over * roof)
    return structs.replace(finding, estimate=no_higher(estimate, highest, facts.constants.noise))


def _roofs(facts: Facts, relieved: Collection[str] = ()) -> tuple[float, str] | None:
    """Speed-up at the nearest roof for the bytes and operations of now, and that roof's name. relieved: units whose
    load of now is no roof, for a fix lowers it."""
    pipeline = None
    if facts.specialized.pipeline is not None:
        from kscope.engine.kernels.specialized import bound

        pipeline = bound(facts)
    roof = facts.counters.roofline
    loads = [_memory_roof(facts)] if "dram" in facts.counters.units and "dram" not in relieved else []
    if roof is not None:
        loads += [(c.flops / c.peak / facts.constants.arithmetic, f"{c.precision} peak") for c in roof.ceilings]
    # Pipes that do the work itself; issue slots, ALU and load path depend on how it is written.
    counted = roof is not None and roof.ceilings
    work = ("fp64", "xu", "tensor") if counted else ("alu", "xu", "issue", "tensor", "fp64")
    for name in work:
        if name in facts.counters.units and name not in relieved:
            title = facts.counters.units[name].title
            loads.append((facts.counters.units[name].load, f"{title} {WRITTEN}" if name in REWRITTEN else title))
    load, by = max(loads, default=(0.0, ""))
    if load <= 0:
        return None
    now = 1 / min(1.0, max(load, 1e-4))
    return pipeline if pipeline is not None and pipeline[0] > now else (now, by)


def _memory_roof(facts: Facts) -> tuple[float, str]:
    """Load of device memory against what it attains. Where most bytes come over the bus, as if they lay in device
    memory: that they do not is a fault, and neither arithmetic nor an idle memory bounds its repair."""
    unit, roof, seconds = facts.counters.units["dram"], facts.counters.roofline, (facts.kernel.duration_ns or 0.0) / 1e9
    away = SECTOR * (facts.counters.traffic.sysmem_sectors + facts.counters.traffic.peer_sectors)
    if roof is None or not roof.bandwidth or not seconds or away / seconds <= roof.bytes_per_s:
        return unit.load, BANDWIDTH
    load = (away / seconds + roof.bytes_per_s) / (roof.bandwidth * unit.attainable)
    return load, "device-memory bandwidth once the data are there"
