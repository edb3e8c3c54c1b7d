"""Queues in front of the units of one kernel: how far what its warps wait for is one, and what a fix leaves of it.

A wait is a round trip or a line. Where units are busy it is partly their line, by how full they are; where loads take
several times as long as on an idle device, and the memory is busy, it is the memory's, by Little's law. A line becomes
shorter by what its unit is asked less, a round trip does not; and warps that are freed of other work stand in line.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from kscope.arch.estimates import Constants
from kscope.features.counters.launch import Geometry
from kscope.features.counters.stalls import StallMix
from kscope.features.counters.units import Scale, Unit
from kscope.features.estimate.latency_floor import LatencyPath

EVERYBODYS = ("dram", "l2")
OWN = ("issue", "fma", "alu", "fp64", "xu", "tensor")  # what each of an SM's sub-partitions has for its own warps
PORT = "l1tex__m_"  # counters of an SM's L1 towards L2
PORT_DEMANDS = ("l2_requests", "l2_sectors")  # what goes out is a request, what comes back are sectors
MOSTLY = 0.5  # of the sectors at L2
ALIKE = 0.9  # of the fuller unit's load, from which two units are as full


class Queues(Struct, frozen=True):
    """What of one kernel's time is waiting in line. Loads and lengths of queues are shares, 0..1."""

    units: Mapping[str, Unit]
    stalls: StallMix
    launch: Geometry
    latency_floor: LatencyPath | None
    constants: Constants
    resident: float
    """Warps that an SM holds on average over those that it could."""
    strewn: float = 0.0
    """Share of the sectors at L2 that stores and reductions touch, each lane one of its own."""

    @property
    def working(self) -> float:
        """Mean share of the time in which an SM works while any does, of a grid that reaches all SMs: a unit is fuller
        meanwhile than over the whole kernel, in which some SMs have done."""
        launch = self.launch
        return launch.active / launch.active_max if launch.active_max and not launch.idle_sms else 1.0

    @property
    def reached(self) -> float:
        """Share of the SMs that can get a block, 0..1. What lies inside an SM is so much fuller there than the mean of
        all of them, which is what its counter says; L2 and device memory are everybody's."""
        launch = self.launch
        return 1 - launch.idle_sms / launch.sms if launch.sms and launch.idle_sms < launch.sms else 1.0

    def here(self, unit: Unit, load: float, *, alone: bool = False) -> float:
        """Load of a unit on the SMs that have work; alone: in the sub-partitions that have a warp, where the work stays
        with the warps that have it and these are fewer than an SM's sub-partitions."""
        if unit.name in EVERYBODYS:
            return load
        filled = min(1.0, self.launch.at_once / self.launch.partitions) if alone and unit.name in OWN else 1.0
        return min(1.0, load / self.reached / filled)

    @property
    def port(self) -> Unit | None:
        """An SM's own way to L2, which takes a request a cycle: the counters of its two directions lie with L2's. None
        where all SMs get work, for it is no fuller than L2 then, and where it was not counted."""
        l2 = self.units.get("l2")
        ways = [p for p in l2.parts if p.metric.startswith(PORT)] if l2 is not None and self.reached < 1 else []
        if l2 is None or not ways:
            return None
        parts = [msgspec.structs.replace(p, demand=PORT_DEMANDS[p.demand == "l2_sectors"]) for p in ways]
        parts.sort(key=lambda p: -p.busy)
        return msgspec.structs.replace(l2, name="port", title="the way from an SM to L2", parts=tuple(parts))

    @property
    def own(self) -> list[Unit]:
        """Units that an SM has for itself."""
        units = [u for n, u in self.units.items() if n not in EVERYBODYS]
        return [*units, port] if (port := self.port) is not None else units

    @property
    def inside(self) -> float:
        """Load of the fullest unit inside the SMs that have work."""
        return max((self.here(u, u.load) for u in self.own), default=0.0)

    @property
    def memory(self) -> Unit | None:
        """The fuller of device memory and L2, of which the overall counter leaves open what is busy."""
        found = [self.units[n] for n in ("dram", "l2") if n in self.units]
        return max(found, key=lambda u: u.named, default=None)

    @property
    def queue(self) -> float:
        """How far what warps wait for from memory is the queue in front of it, 0..1."""
        memory, path, c = self.memory, self.latency_floor, self.constants
        if memory is None or path is None or not path.share:
            return 0.0
        # A sector changed at random is a row of device memory opened twice: it is full long before its bus is.
        strewn = memory.name == "dram" and self.strewn >= MOSTLY
        if memory.named < (c.strewn if strewn else c.free):
            return 0.0
        times = self.stalls.of("long_scoreboard") * min(1.0, self.resident) / path.share
        return min(1.0, max(0.0, (times - c.calm) / (c.crowded - c.calm)))

    def in_line(self, *units: str) -> float:
        """How far accesses stand in line on their way through these units (l1, lsu, l2, dram), 0..1. What one of them
        asks less shortens that wait; the rest is a round trip, and takes as long for a sector as for many."""
        loads = [self.seen(self.units[n]) for n in units if n in self.units]
        full = self.saturation(min(1.0, max(loads, default=0.0) / self.working))
        return max(full, self.queue) if "dram" in units else full

    def left_in_line(self, scale: Scale, *units: str) -> float:
        """Share of the waits in line for these units that a fix leaves, 0..1: as much as it leaves of what the fullest
        of them does, or of those about as full the one that it relieves more. With a queue at the memory, of that."""
        if self.queue and "dram" in units and self.in_line(*units) <= self.queue:
            return self.left_there(scale)
        found = [self.units[n] for n in units if n in self.units and self.units[n].load]
        most = max(map(self.seen, found), default=0.0)
        return min((u.load_after(scale) / u.load for u in found if self.seen(u) >= ALIKE * most), default=1.0)

    def seen(self, unit: Unit) -> float:
        """Load of a unit that accesses can stand in line for. Where device memory is fuller than all ports of L2, its
        overall counter shows the time behind it, and no line in front of it. A memory with a queue is never idle."""
        memory = self.memory
        load = unit.named if unit.name == "l2" and memory is not unit else unit.load
        return max(load, self.queue) if unit is memory else load

    def behind(self, after: float, scale: Scale) -> float:
        """The time after a fix where memory has a queue: no shorter than what is left to do there."""
        queue = self.queue
        return max(after, queue * self.left_there(scale) + (1 - queue) * after) if queue else after

    def left_there(self, scale: Scale) -> float:
        """Share of the memory's work that a fix leaves, 0..1: where L2 is about as full as device memory, of the one
        that it relieves more, for either can have the queue."""
        found = [u for n in ("dram", "l2") if (u := self.units.get(n)) is not None and u.load]
        most = max((u.load for u in found), default=0.0)
        return min((u.load_after(scale) / u.load for u in found if u.load >= ALIKE * most), default=1.0)

    def saturation(self, load: float) -> float:
        """How far the waits of all warps are queueing for a unit with this load, 0..1."""
        return min(1.0, max(0.0, (load - self.constants.free) / (self.constants.full - self.constants.free)))

    def queued(self, scale: Scale) -> float:
        """How far waits are the queue of a unit that the fix leaves as full as it is, 0..1. A counter that leaves open
        what is busy (L2's overall one, where it hands on what device memory moves) shows no queue."""
        c = self.constants
        kept = [min(1.0, u.named) for u in self.units.values() if u.load_after(scale) >= c.relieved * u.load]
        near = min(1.0, max(0.0, (max(kept, default=0.0) - c.near) / (c.at - c.near)))
        return max(near, self.queue if self.left_there(scale) >= c.relieved else 0.0)
