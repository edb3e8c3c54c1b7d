"""What is particular to warp-specialised kernels, whose roles wait by design. Its modules are imported when a kernel
needs them: a dozen that most never do."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kscope.features.facts.counters import CounterFacts
    from kscope.features.profile.code import Code
    from kscope.features.specialized.specialization import Specialization
    from kscope.features.specialized.wait_sites import Wait, Waits
    from kscope.model.kernel import Kernel

BESIDE = frozenset({"wgmma", "tcgen05", "tma"})
"""Kinds of instructions that hand work to an asynchronous unit."""


class SpecializedFacts:
    """`facts.specialized`."""

    def __init__(self, kernel: Kernel, code: Code | None, counters: CounterFacts) -> None:
        self._kernel, self._code, self._counters = kernel, code, counters

    @cached_property
    def pipeline(self) -> Specialization | None:
        """Roles, waits and phases of a warp-specialised kernel; None for every other one."""
        if self._code is None or not self._code.asynchronous:
            return None
        from kscope.features.specialized.specialization import specialization

        return specialization(self._code, self._counters.units)

    @cached_property
    def asynchronous(self) -> bool:
        """Whether warps wait for units that work beside them (TMA, wgmma, tcgen05): by the code, without SASS by what
        the counters know of them. Such warps wait and are few by design."""
        if self._code is not None:
            return bool(self._code.where(lambda ins, op: not op.kind.isdisjoint(BESIDE)))
        counted = self._kernel.metrics.get("sm__pipe_tc_cycles_active.avg.pct_of_peak_sustained_active")
        return bool(counted or self._counters.traffic.tma_bytes or self._counters.stalls.of("warpgroup_arrive"))

    @cached_property
    def waits(self) -> Waits | None:
        """Wait sites of the asynchronous parts, whether or not warps have roles; None without SASS."""
        if self.pipeline is not None:
            return self.pipeline.waits
        if self._code is None:
            return None
        from kscope.features.specialized.wait_sites import find_waits

        return find_waits(self._code, None)

    def samples_at(self, wait: Wait) -> float:
        """Warp samples of a wait site, its retries included."""
        from kscope.features.specialized.wait_sites import samples_of

        return samples_of(self._code, wait) if self._code is not None else 0.0

    @cached_property
    def bulk_copies(self) -> list[int]:
        """Executed copies into shared memory by TMA and its like; cp.async of single lanes left aside."""
        from kscope.features.specialized.roles import copies

        if self._code is None:
            return []
        return self._code.ran(self._code.where(lambda ins, op: ins.opcode != "LDGSTS" and copies(ins)))

    def products(self, members: Iterable[int]) -> list[int]:
        """Those of the instructions that start a product on an asynchronous tensor pipe."""
        from kscope.features.specialized.roles import PRODUCTS

        code = self._code
        return [i for i in members if code[i].opcode in PRODUCTS] if code is not None else []

    def exposed(self, *reasons: str) -> float:
        """Share of warp time in some states; of a specialised kernel only what no busy unit covers, 0..1."""
        sp, share = self.pipeline, self._counters.stalls.share
        return sum(share.get(r, 0.0) if sp is None else sp.exposed(r, share.get(r, 0.0)) for r in reasons)

    def held_up(self, unit: str) -> bool:
        """Whether a full unit can be what holds a specialised kernel up: its main role would wait for data more than
        for anything else. True of every other kernel."""
        sp = self.pipeline
        if sp is None or sp.loss is None or sp.unit == unit:
            return True
        return sp.loss.data >= sp.loss.loop + sp.loss.epilogue
