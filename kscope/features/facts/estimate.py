"""What a fix can gain: every bound of `kscope.features.estimate.bounds`, with the kernel's own latency floor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kscope.features.estimate import bounds
from kscope.features.estimate.bounds import REST, Bounds
from kscope.features.estimate.latency_floor import latency_path
from kscope.model.analysis import Estimate

if TYPE_CHECKING:
    from kscope.features.counters.traffic import Traffic
    from kscope.features.counters.units import Scale
    from kscope.features.profile.code import Code


class Estimates(Bounds, frozen=True):
    """`facts.estimate`: `relieve` (a fix removes work), `overlap` (it keeps more in flight), `balance` (idle SMs get
    work), `regain` (a specialised kernel's unit loses less), and what belongs to them."""

    traffic: Traffic
    code: Code | None

    def floor_without(self, members: Iterable[int], remaining: float = 0.0) -> float:
        """Share of one warp's unloaded path that is left when only `remaining` (0..1) of these instructions is: the
        factor that a fix has on the latency floor."""
        if self.code is None or self.latency_floor is None or not self.latency_floor.cycles:
            return 1.0
        after = latency_path(self.code, self.launch, self.traffic, frozenset(members))
        bare = min(1.0, after.cycles / self.latency_floor.cycles) if after is not None else 1.0
        return bare + remaining * (1 - bare)

    def regain(
        self, lost: float, *, sure: float, high: float | None = None, scale: Scale | None = None
    ) -> Estimate:
        """Speed-up when a share `lost` of a specialised kernel's time is removed: `sure` of it as the point, half of
        that as the low bound, all of `high`, and what a rewrite mends beside it (RISE), as the high one. Capped by what
        is left of any unit's load; the unit that the kernel is for may go up to the plateau that its timeline reaches,
        of which `lost` is a share. `scale`: demands that the fix lowers."""
        from kscope.features.specialized.phases import plateau_of

        load, name = self.next_limit(scale or {}, skip=("tensor",))
        tensor = self.units.get("tensor")
        if tensor is not None and tensor.busy / plateau_of("tensor") > load:
            load, name = tensor.busy / plateau_of("tensor"), tensor.title
        point = max(1 - sure * lost, min(load, 1.0))
        speedup = 1 / point
        most = max(speedup, 1 / max(1 - (high if high is not None else lost), 0.05))
        return Estimate(
            speedup=round(speedup, 3),
            low=round(min(speedup, 1 / (1 - 0.5 * sure * lost)), 3),
            high=round(most * min(bounds.RISE, speedup), 3),
            capped_by=name if load > 1 - sure * lost else REST,
            kind="modelled",
        )
