"""Products of FP32 operands outside the tensor cores in a recording: their time, and what it would be in TF32.

They are known by the names that libraries give their kernels; what a product needs at least by the sizes of its
arguments, where these were recorded. Names: cuBLAS, cuDNN and CUTLASS as in arch/libraries.toml, and the public and own
recordings that this was written with.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kscope.arch.chips import Chip, of_device
from kscope.features.timeline.operations.intervals import covered
from kscope.features.timeline.operations.kernel_kinds import COMPUTE, kind_of
from kscope.features.timeline.operations.launches import Mask, TimelineFacts
from kscope.features.timeline.operations.operator_work import work
from kscope.features.timeline.operations.operators import Operators
from kscope.model.columns import Column, combined, distinct
from kscope.model.timeline import Op

MATMUL, CONVOLUTION = "matrix product", "convolution"
REACH, REACH_LEAST = 0.75, 0.35
"""A TF32 product's share of its roof (the larger of its FLOP and its bytes at the data sheet's rates) over that of FP32
products in the same program: 0.63 and 0.91 in public recordings of two programs on A100s with the sizes of their
arguments (2,000 TF32 products and 140 FP32 ones), and 0.36 for the slowest quarter of the TF32 ones."""
FULL = 0.74
"""Of the FP32 peak, what large products reach outside the tensor cores: 0.74 to 0.82 (an H100, public V100s). So a TF32
product at its very peak is faster by the ratio of the peaks over this."""
LAUNCH_NS = 2000.0  # the shortest kernels of the captures (napkin.estimate.LAUNCH_US)
_FP32 = re.compile(
    r"(?:maxwell|volta|turing|ampere|hopper)_(?:\w*_)?s(?:gemm|cudnn)|sm\d+_xmma_(?:\w*_)?f32f32_f32f32_"
    r"|cutlass_\d+_simt_sgemm|implicit_convolve_sgemm\s*<\s*float"
)
_NARROW = re.compile(
    r"tf32|tensorop|tensor\d+x\d+|[hs](?:884|1688|16816)|bf16|f16f16|_fp16_|hgemm|nvjet|wgmma|wmma|e4m3|e5m2", re.I
)
_CONVOLUTION = re.compile(r"scudnn|convolve|fprop|dgrad|wgrad|winograd|conv(?!ert)", re.I)
_ATTENTION = re.compile(r"flash|fmha|attn|attention", re.I)


class Single(Struct, frozen=True):
    """FP32 products in the window; times in ns, over all devices. ratio: of the chip's peaks, TF32 over FP32. likely,
    best, worst: what their time would be in TF32. sized: share of the time whose products' sizes are known. hidden:
    share before late launches, where being faster saves nothing. kernels: names, most time first."""

    chip: Chip
    ratio: float
    time: float = 0.0
    likely: float = 0.0
    best: float = 0.0
    worst: float = 0.0
    sized: float = 0.0
    hidden: float = 0.0
    count: int = 0
    what: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    narrow: tuple[str, ...] = ()
    """Kinds of products that mostly run in narrower types already; what is left of those in FP32 is not counted."""


@cache
def product_of(name: str) -> tuple[str, bool] | None:
    """(kind of product, whether it is FP32 outside the tensor cores) by a kernel's name; None for what is no product,
    or of a width that its name does not tell."""
    if (narrow := _NARROW.search(name)) is None and _FP32.search(name) is None:
        return None
    if narrow is not None and (kind_of(name).kind != COMPUTE or _ATTENTION.search(name)):
        return None
    return (CONVOLUTION if _CONVOLUTION.search(name) else MATMUL), narrow is None


def tf32_chip(names: Sequence[str]) -> tuple[Chip | None, float]:
    """(the chip that all these devices are, else None; peak of TF32 over that of FP32, 0 where it has no TF32)."""
    found = {chip.name: chip for name in names if (chip := of_device(name)) is not None}
    if len(found) != 1 or not all(map(of_device, names)):
        return None, 0.0
    (chip,) = found.values()
    wide, narrow = chip.peak.get("fp32") or chip.at_clock("fp32"), chip.peak.get("tf32")
    return chip, narrow / wide if narrow and wide else 0.0


def single_products(facts: TimelineFacts, operators: Operators, starved: Mask) -> Single | None:
    """None for a device without TF32, or one that is not in the table."""
    timeline = facts.timeline
    chip, ratio = tf32_chip(sorted(set(timeline.devices.values())))
    if chip is None or not ratio:
        return None
    ops, (low, high, _) = timeline.ops, facts.window
    known = [product_of(name) for name in timeline.names] or [None]
    inside = (ops.kind == Op.KERNEL) & (ops.end > low) & (ops.start < high)
    length = ops.end - ops.start
    wide = np.zeros(len(ops), dtype=bool)
    kinds, narrow = [], []
    for kind in (MATMUL, CONVOLUTION):
        mine, other = (inside & np.array([k == (kind, fp32) for k in known])[ops.name] for fp32 in (True, False))
        time, spent = int(length[mine].sum()), int(length[other].sum())
        if time and spent < time:
            kinds.append((time, kind))
            wide |= mine
        elif spent:
            narrow.append(kind)
    none = Single(chip, ratio, narrow=tuple(narrow))
    return _priced(none, facts, operators, np.flatnonzero(wide), starved, kinds) if kinds else none


def _priced(
    none: Single, facts: TimelineFacts, operators: Operators, rows: Column, starved: Mask,
    kinds: list[tuple[int, str]],
) -> Single:
    """rows: the operations that are FP32 products."""
    timeline, ops = facts.timeline, facts.timeline.ops
    time = (ops.end - ops.start)[rows].astype(float)
    # without sizes: from no gain at all to the ratio of the peaks, and between them what is as far from both
    most = none.ratio / FULL
    shortest = np.minimum(time, LAUNCH_NS)
    likely, best = np.maximum(shortest, time / most**0.5), np.maximum(shortest, time / most)
    parts = [_Left(time, likely, best, time, starved[rows])]
    calls = _calls(facts, operators, rows)
    if calls is not None:
        of, flop, moved = calls
        sized = of >= 0
        each = np.bincount(of[sized], weights=time[sized], minlength=len(flop)).astype(float)
        late = np.zeros(len(flop), dtype=bool)
        late[of[sized & starved[rows]]] = True
        parts = [parts[0].only(~sized), _sized(none, each, flop, moved, late)]
    total = max(float(time.sum()), 1.0)
    beside = _alone(facts, rows) / total  # what runs at the same time is not counted twice
    hidden = sum(float(p.time[p.hidden].sum()) for p in parts)
    spent = np.bincount(ops.name[rows], weights=time)
    top = np.argsort(-spent, kind="stable")[:3]
    return Single(
        none.chip, none.ratio, time=beside * total,
        likely=beside * sum(p.left(p.likely) for p in parts), best=beside * sum(p.left(p.best) for p in parts),
        worst=beside * sum(p.left(p.worst) for p in parts), sized=1 - float(parts[0].time.sum()) / total,
        hidden=hidden / total, count=len(rows), what=tuple(kind for _, kind in sorted(kinds, reverse=True)),
        kernels=tuple(timeline.names[i] for i in top.tolist() if spent[i]), narrow=none.narrow,
    )  # fmt: skip


class _Left(Struct, frozen=True):
    """Times of products now, and in TF32."""

    time: NDArray[np.float64]
    likely: NDArray[np.float64]
    best: NDArray[np.float64]
    worst: NDArray[np.float64]
    hidden: Mask

    def only(self, rows: Mask) -> _Left:
        return _Left(self.time[rows], self.likely[rows], self.best[rows], self.worst[rows], self.hidden[rows])

    def left(self, way: NDArray[np.float64]) -> float:
        """What of the time is left one of these ways."""
        return float(np.where(self.hidden, self.time, way).sum())


def _sized(
    none: Single, time: NDArray[np.float64], flop: NDArray[np.float64], moved: NDArray[np.float64], late: Mask
) -> _Left:
    """Calls whose sizes are known. What they move beyond L2 they move in any precision; that a bad FP32 kernel is
    replaced by a good one is not promised."""
    chip, ns = none.chip, 1e9
    narrow = flop / chip.peak["tf32"] * ns
    memory = moved / chip.dram_bytes_per_s * ns
    beyond = np.maximum(moved - (chip.l2_bytes or 0), 0) / chip.dram_bytes_per_s * ns
    roof = np.maximum(narrow, memory)
    reach = np.minimum(np.maximum(narrow * none.ratio, memory) / np.maximum(time, 1), 1)
    floor = np.maximum(np.maximum(narrow, beyond), np.maximum(time * FULL / none.ratio, LAUNCH_NS))
    likely, worst = (np.maximum(roof / np.maximum(reach * by, 1e-9), floor) for by in (REACH, REACH_LEAST))
    return _Left(time, np.minimum(likely, time), np.minimum(floor, time), np.minimum(worst, time), late)


def _calls(
    facts: TimelineFacts, operators: Operators, rows: Column
) -> tuple[Column, NDArray[np.float64], NDArray[np.float64]] | None:
    """(number of the operator call of each row or -1, FLOP and bytes of each of these); None without sizes."""
    timeline = facts.timeline
    if timeline.input is None or not len(operators.active):
        return None
    place = operators.of_op[rows]
    span = operators.active[np.maximum(place, 0)]
    given = np.where(place >= 0, timeline.input[span], 0)
    name = timeline.operators.name[span]
    index = distinct(combined(name, given))[1]
    example = np.unique(index, return_index=True)[1].tolist()
    needs = [work(timeline.names[int(name[i])], timeline.inputs[int(given[i]) - 1]) if given[i] else None
             for i in example]  # fmt: skip
    known = np.array([n is not None and n.precision == "fp32" for n in needs])
    sized = known[index]
    of = np.full(len(rows), -1, dtype=np.int64)
    found, of[sized] = np.unique(span[sized], return_inverse=True)
    which = np.zeros(len(found), dtype=np.int64)
    which[of[sized]] = index[sized]
    values = np.array([(n.flop, n.bytes) if n is not None else (0.0, 0.0) for n in needs]).reshape(-1, 2)
    return of, values[which, 0], values[which, 1]


def _alone(facts: TimelineFacts, rows: Column) -> float:
    """Time in which these run, over the devices."""
    ops, (low, high, _) = facts.timeline.ops, facts.window
    device = ops.device[rows]
    return float(sum(
        covered(ops.start[mine], ops.end[mine], low, high)
        for one in distinct(device)[0].tolist() if len(mine := rows[device == one])
    ))  # fmt: skip
