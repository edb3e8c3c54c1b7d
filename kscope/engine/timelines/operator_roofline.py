"""How near operators come to what their device can do, where the recording has their sizes: what they need at least
(FLOP, compulsory bytes) at the device's peak, over the GPU time that they took.

Bytes that fit into L2 need not come from memory: of each call only those beyond its size are counted against memory,
all of them against L2. A product of
floats is taken for TF32 unless its kernels' names say that it is not: that is the higher peak.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from kscope.arch.chips import of_device
from kscope.features.timeline.facts import TimelineView
from kscope.features.timeline.operations.operator_work import Work, work
from kscope.model.columns import Column, combined, distinct
from kscope.model.contract.timeline_figures import OperatorRoofline
from kscope.napkin.estimate import LAUNCH_US
from kscope.napkin.roofs import Roof, Roofs, roofs

MOST = 1.03
"""Of the peak: beyond, what was counted is not what ran (a library that skips work, a fused operator), and nothing is
said. Room for clocks above the published ones."""
_SIMT = re.compile(r"sgemm|scudnn|f32f32_f32f32|_ffma|simt|gemv|sss_", re.IGNORECASE)
_TF32 = re.compile(r"tf32|tensorop|s1688|xmma_.*tf32", re.IGNORECASE)


class _Sums(Struct):
    time: float = 0.0  # ns
    flop: float = 0.0
    bytes: float = 0.0
    peak: float = 0.0  # seconds at the peak, of what bounds each call
    good: float = 0.0  # seconds as good kernels take
    compute: float = 0.0  # of `peak`, bounded by arithmetic


def rooflines(view: TimelineView) -> dict[int, OperatorRoofline]:
    """By the index of an operator's name. Empty without sizes, or for a device that is not in the table."""
    timeline, found = view.timeline, view.operators
    devices = sorted(set(timeline.devices.values()))
    chip = of_device(devices[0]) if len(devices) == 1 else None
    if timeline.input is None or chip is None:
        return {}
    roof = roofs(chip)
    names, given = timeline.operators.name[found.active], timeline.input[found.active]
    rows = np.flatnonzero((found.own > 0) & (given > 0))
    if not len(rows):
        return {}
    key, index = distinct(combined(names[rows], given[rows]))
    counts = np.bincount(index, minlength=len(key)).tolist()
    times = np.bincount(index, weights=found.own[rows], minlength=len(key)).tolist()
    examples = rows[np.unique(index, return_index=True)[1]].tolist()
    sums: dict[int, _Sums] = {}
    how: dict[int, str] = {}
    for row, count, time in zip(examples, counts, times, strict=True):
        name = int(names[row])
        needs = work(timeline.names[name], timeline.inputs[int(given[row]) - 1])
        if needs is None:
            continue
        if name not in how:
            how[name] = _single(view, name)
        _add(sums.setdefault(name, _Sums()), needs, count, time, roof, how[name])
        how[name] = how[name] if needs.precision == "fp32" or not needs.precision else needs.precision
    whole = _own(view)
    made = {name: _figures(one, whole[name], how[name], roof) for name, one in sums.items()}
    return {name: one for name, one in made.items() if one is not None}


def single_precision(view: TimelineView) -> float | None:
    """Share of the GPU's time in matrix products of FP32 operands, which half the width (autocast) would run faster:
    by the operators' arguments; None where these are not recorded."""
    timeline, found = view.timeline, view.operators
    if timeline.input is None or not found.own.any():
        return None
    given = timeline.input[found.active]
    rows = np.flatnonzero((found.own > 0) & (given > 0))
    key, index = distinct(combined(timeline.operators.name[found.active][rows], given[rows]))
    times = np.bincount(index, weights=found.own[rows], minlength=len(key)).tolist()
    whole = int(found.own.sum()) + sum(time for _, time in found.without.values())
    wide = 0.0
    for at, time in zip(rows[np.unique(index, return_index=True)[1]].tolist(), times, strict=True):
        name = timeline.names[int(timeline.operators.name[found.active[at]])]
        needs = work(name, timeline.inputs[int(given[at]) - 1])
        wide += time if needs is not None and needs.precision == "fp32" else 0.0
    return min(wide / whole, 1.0)


def _own(view: TimelineView) -> Mapping[int, float]:
    names, index = distinct(view.timeline.operators.name[view.operators.active])
    time = np.bincount(index, weights=view.operators.own, minlength=len(names))
    return dict(zip(names.tolist(), time.tolist(), strict=True))


def _single(view: TimelineView, name: int) -> str:
    """The units that products of floats ran on, by the names of the kernels: fp32, else tf32."""
    timeline, of = view.timeline, view.operators.of_op
    mine = np.flatnonzero(of >= 0)
    mine = mine[timeline.operators.name[view.operators.active[of[mine]]] == name]
    time: dict[bool, int] = {True: 0, False: 0}
    kernels, index = distinct(timeline.ops.name[mine])
    spent: Column = np.bincount(index, weights=(timeline.ops.end - timeline.ops.start)[mine], minlength=len(kernels))
    for kernel, ns in zip(kernels.tolist(), spent.tolist(), strict=True):
        title = timeline.names[kernel]
        time[bool(_SIMT.search(title)) and not _TF32.search(title)] += ns
    return "fp32" if time[True] > time[False] else "tf32"


def _rate(roof: Roofs, precision: str, single: str) -> Roof | None:
    if precision == "fp32":
        precision = single
    return roof.compute.get(precision) or (roof.compute.get("fp32") if precision == "tf32" else None)


def _add(sums: _Sums, needs: Work, count: int, time: float, roof: Roofs, single: str) -> None:
    rate = _rate(roof, needs.precision, single) if needs.flop else None
    if needs.flop and rate is None:
        return
    moved = max(needs.bytes - roof.warm_bytes, 0.0)
    math = (needs.flop / rate.peak, needs.flop / rate.attained) if rate is not None else (0.0, 0.0)
    memory = moved / roof.dram.peak, moved / roof.dram.attained
    if roof.l2 is not None:  # through which all of it goes
        memory = max(memory[0], needs.bytes / roof.l2.peak), max(memory[1], needs.bytes / roof.l2.attained)
    sums.time += time
    sums.flop += count * needs.flop
    sums.bytes += count * needs.bytes
    sums.peak += count * max(math[0], memory[0])
    sums.good += count * max(math[1], memory[1], LAUNCH_US / 1e6)
    sums.compute += count * math[0] if math[0] >= memory[0] else 0.0


def _figures(sums: _Sums, whole: float, precision: str, roof: Roofs) -> OperatorRoofline | None:
    seconds = sums.time / 1e9
    if not seconds or not sums.peak or sums.peak > MOST * seconds:
        return None
    by_math = 2 * sums.compute >= sums.peak
    rate = _rate(roof, precision, precision)
    lower = roof.compute.get("tf32") if precision == "fp32" and by_math else None
    return OperatorRoofline(
        known=round(min(sums.time / max(whole, 1.0), 1.0), 4), flop=sums.flop, bytes=sums.bytes,
        flops_per_s=sums.flop / seconds, bytes_per_s=sums.bytes / seconds, precision=precision if sums.flop else "",
        peak_flops_per_s=rate.peak if sums.flop and rate is not None else None, peak_bytes_per_s=roof.dram.peak,
        pct_of_roof=round(100 * sums.peak / seconds, 2), bounded_by=precision if by_math else "memory",
        headroom=round(max(seconds / sums.good, 1.0), 2),
        tf32_speedup=round(lower.attained / rate.attained, 2) if lower is not None and rate is not None else None,
    )  # fmt: skip
