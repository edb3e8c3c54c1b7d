"""Why the unit that a specialised kernel is for is not at its plateau all the time."""

from __future__ import annotations

from msgspec import Struct

from kscope.features.specialized.pipeline import Pipeline, key_of, waiting_at
from kscope.features.specialized.role_time import RoleTime

APART = 3.0  # bins a tile from which its bubbles show one by one


class Loss(Struct, frozen=True):
    """Why the unit is not at its plateau: shares of the kernel's time, by cause. `fill` and `drain` have half of the
    launch's own time each; `uneven`: SMs that got less work have left; `turnover`: one block leaves
    and the next one starts its own pipeline; `data`: its role waits for data;
    `epilogue`: it stores results; `loop`: it issues, signals and synchronises between products; `pipe`: products are
    in flight below the attainable rate; `bubbles`: how much of it the timeline shows as drops to count."""

    fill: float
    drain: float
    uneven: float
    turnover: float
    data: float
    epilogue: float
    loop: float
    pipe: float
    bubbles: float

    @property
    def steady(self) -> float:
        return self.turnover + self.data + self.epilogue + self.loop + self.pipe


def loss_of(sp: Pipeline, time: RoleTime | None) -> Loss | None:
    """time: of the main role. None without a timeline or without samples of that role."""
    ph = sp.phases
    duration = sp.code.kernel.duration_ns
    if ph is None or time is None or not time.samples or not duration:
        return None
    every, whole_time = max(ph.active, 1e-9), duration / 1000
    launching = max(0.0, whole_time - sp.span)
    scale = every / max(every, whole_time)
    whole = time.samples
    epilogue = sp.storing
    data = sum(waiting_at(sp, w) for w in sp.waits.of(time.role.name) if key_of(w) == "data")
    data = max(0.0, data / whole - (time.priming.point - time.prologue - time.set_up))
    flight = sum(waiting_at(sp, w) for w in sp.waits.of(time.role.name) if w.unit == "tensor") / whole
    loop = max(0.0, 1.0 - epilogue - data - flight - time.priming.point)
    missing = max(0.0, ph.steady - ph.busy * ph.level / max(ph.level, ph.attainable)) / every
    apart = ph.steady / max(1.0, sp.tiles * sp.generations) / ph.bin
    drops = min(ph.lost / every, missing) if apart >= APART else 0.0
    # Drops that the timeline shows one by one belong to the tiles' ends, as far as there is an epilogue to fill
    # them; what the level itself lacks is shared among what keeps the role from its next product.
    turnover = drops if sp.turns else 0.0
    at_ends = min(drops, max(epilogue, 0.0)) if sp.tiles > 1 else 0.0
    rest = missing - at_ends - turnover
    parts = {"data": data, "loop": loop, "epilogue": 0.0 if at_ends or turnover else epilogue}
    idle = sum(parts.values())
    spread = min(rest, idle)
    shares = {k: (v / idle * spread if idle else 0.0) for k, v in parts.items()}
    return Loss(
        fill=(ph.fill + launching / 2) / whole_time,
        drain=(ph.drain + launching / 2) / whole_time,
        uneven=max(0.0, sp.span - every) / whole_time,
        turnover=turnover * scale,
        data=shares["data"] * scale,
        epilogue=(shares["epilogue"] + at_ends) * scale,
        loop=shares["loop"] * scale,
        pipe=max(0.0, rest - spread) * scale,
        bubbles=drops * scale,
    )
