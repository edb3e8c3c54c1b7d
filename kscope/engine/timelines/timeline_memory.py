"""What a device's memory held, as figures."""

from __future__ import annotations

from kscope.features.timeline.facts import TimelineView
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
