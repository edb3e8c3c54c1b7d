"""What a fix can gain: every bound of `kscope.features.estimate.bounds`, with the kernel's own latency floor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kscope.features.estimate.bounds import Bounds
from kscope.features.estimate.latency_floor import latency_path

if TYPE_CHECKING:
    from kscope.features.counters.traffic import Traffic
    from kscope.features.counters.units import Scale
    from kscope.features.profile.code import Code
    from kscope.model.contract.analysis import Estimate


class Estimates(Bounds, frozen=True, kw_only=True):
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

        return self.removed(lost, sure=sure, high=high, scale=scale, plateau=plateau_of("tensor"))
