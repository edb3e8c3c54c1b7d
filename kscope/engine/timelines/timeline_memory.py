"""What a device's memory held, and what its counters counted, as figures."""

from __future__ import annotations

from kscope.features.timeline.facts import TimelineView
from kscope.model.contract.timeline_analysis import CounterFigures
from kscope.model.contract.timeline_figures import MemoryFigures, MemoryHolder
from kscope.model.errors import one_line

HOLDERS = 12  # operators that are listed


def memory(view: TimelineView) -> list[MemoryFigures]:
    low = view.facts.window[0]
    return [
        MemoryFigures(
            device=one.device, peak_bytes=one.peak, peak_at_us=round((one.at - low) / 1e3, 3),
            reserved_bytes=one.reserved, holes_bytes=one.holes, levels_bytes=one.levels, growth_bytes=one.growth,
            holders=[MemoryHolder(name=one_line(name)[:200], bytes=size) for name, size in one.holders[:HOLDERS]],
            curve=[(round((at - low) / 1e3, 3), allocated, reserved) for at, allocated, reserved in one.curve],
        )
        for one in view.memory
    ]  # fmt: skip


def counters(view: TimelineView) -> list[CounterFigures]:
    return [
        CounterFigures(
            source=one.counter.source, device=one.counter.device if one.counter.device >= 0 else None,
            name=one.counter.name, unit=one.counter.unit, mean=round(one.mean, 4), max=round(one.most, 4),
            samples=one.samples,
        )
        for one in view.sampled
    ]  # fmt: skip
