"""Identical launches folded into one entry: the launch of median time speaks for them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kscope.model.contract.analysis import KernelAnalysis, Repeats
from kscope.model.contract.detail import KernelDetail

SLACK = 4  # times the kernels that are wanted, kept before the shorter ones are let go


class Longest:
    """The folded kernels of reports that come one after the other; with `top`, no more are kept than are needed."""

    def __init__(self, top: int | None, *, draws: bool) -> None:
        """draws: whether details are wanted, and come too."""
        self._top, self._draws, self.any = top, draws, False
        self._kernels: list[KernelAnalysis] = []
        self._details: list[KernelDetail] = []

    def add(self, kernels: Sequence[KernelAnalysis], details: Sequence[Sequence[KernelDetail]]) -> None:
        """All launches of one report, in its order."""
        found = fold(kernels)
        self.any = self.any or bool(found)
        self._kernels += found
        if self._draws:
            shown = {k.id for k in found}
            self._details += [d for some in details for d in some if d.id in shown]
        if self._top and len(self._kernels) > SLACK * self._top:
            self.longest()

    def longest(self) -> list[KernelAnalysis]:
        """Longest total time first; those of equal time in the order in which they came."""
        self._kernels.sort(key=_total)
        if self._top and len(self._kernels) > self._top:
            del self._kernels[self._top :]
        return self._kernels

    def details(self) -> list[KernelDetail]:
        """Of those that `longest` gave."""
        shown = {k.id for k in self._kernels}
        return [d for d in self._details if d.id in shown]


def _total(kernel: KernelAnalysis) -> float:
    """Minus the time of all launches of an entry, us."""
    return -(kernel.repeats.total_us if kernel.repeats else kernel.duration_us or 0.0)


def fold(kernels: Sequence[KernelAnalysis]) -> list[KernelAnalysis]:
    """One entry for all launches of one input with the same name, launch and NVTX path; longest total time first."""
    groups: dict[object, list[KernelAnalysis]] = {}
    for k in kernels:
        key = (
            k.input,
            k.demangled,
            k.name,
            k.workload,
            k.device.name,
            tuple(k.nvtx),
            *msgspec.structs.astuple(k.launch),
        )
        groups.setdefault(key, []).append(k)
    out = []
    for members in groups.values():
        members.sort(key=lambda k: k.duration_us or 0.0)
        median = members[len(members) // 2]
        times = [k.duration_us or 0.0 for k in members]
        if len(members) > 1:
            spread = Repeats(
                count=len(members), min_us=times[0], median_us=median.duration_us or 0.0, max_us=times[-1],
                total_us=sum(times),
            )  # fmt: skip
            median = msgspec.structs.replace(median, repeats=spread)
        out.append(median)
    return sorted(out, key=_total)
