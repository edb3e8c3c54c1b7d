"""Identical launches folded into one entry: the launch of median time speaks for them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kscope.model.analysis import KernelAnalysis, Repeats


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
    return sorted(out, key=lambda k: -(k.repeats.total_us if k.repeats else k.duration_us or 0.0))
