"""What the GPU spent its busy time on: kernels by name and shape, copies by direction."""

from __future__ import annotations

import numpy as np

from kscope.features.timeline.operations.intervals import covered, union
from kscope.features.timeline.operations.kernel_kinds import kind_of
from kscope.features.timeline.operations.launches import Mask, TimelineFacts
from kscope.features.timeline.operations.medians import median, quantile
from kscope.features.timeline.operations.torch_compile import fused
from kscope.model.columns import blocks, distinct
from kscope.model.contract.timeline_figures import CopyFigures, KernelSpread, TopKernel
from kscope.model.timeline import Copy, Op

SPREAD = 12
"""Kernels of the table whose spread is computed."""
OUTLIER = 3  # times the median

_DIRECTIONS: dict[int, str] = {Copy.HTOD: "host to device", Copy.DTOH: "device to host", Copy.DTOD: "device to device",
                               Copy.HTOH: "host to host", Copy.PTOP: "peer to peer"}  # fmt: skip


def top_kernels(facts: TimelineFacts, starved: Mask) -> list[TopKernel]:
    """Kernels of the window by name and launch shape, most time first. starved: operations before a late launch."""
    timeline = facts.timeline
    ops = timeline.ops
    low, high, _ = facts.window
    size = int(facts.shapes.max(initial=-1)) + 1
    examples, counts = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    total, hidden = np.zeros(size), np.zeros(size)  # whole numbers, which doubles hold
    for part in reversed(list(blocks(len(ops), size))):
        start, end = ops.start[part], ops.end[part]
        rows = np.flatnonzero((ops.kind[part] == Op.KERNEL) & (end > low) & (start < high))
        shape, length = facts.shapes[part][rows], (end - start)[rows].astype(float)
        examples[shape[::-1]] = rows[::-1] + part.start  # the first launch of each
        counts += np.bincount(shape, minlength=size)
        total += np.bincount(shape, weights=length, minlength=size)
        hidden += np.bincount(shape, weights=length * starved[part][rows], minlength=size)
    groups = np.column_stack([c[examples] for c in (ops.name, *ops.grid, *ops.block)])
    whole = max(float(total.sum()), 1.0)
    out: list[TopKernel] = []
    for i in np.argsort(-total, kind="stable").tolist():
        if not counts[i]:
            continue
        time = float(total[i])
        name, gx, gy, gz, bx, by, bz = (int(v) for v in groups[i])
        title = timeline.names[name]
        out.append(
            TopKernel(
                name=title, count=int(counts[i]), total_us=round(time / 1e3, 3),
                mean_us=round(time / 1e3 / int(counts[i]), 3), share=round(min(time / whole, 1.0), 6),
                kind=kind_of(title).kind, kind_said_by=kind_of(title).said_by, grid=(gx, gy, gz), block=(bx, by, bz),
                operators=fused(title), source=timeline.sources.get(name, ""),
                hidden=round(min(float(hidden[i]) / time, 1.0), 4) if time else 0.0,
                spread=_spread(facts, i) if len(out) < SPREAD else None,
            )
        )  # fmt: skip
    return out


def _spread(facts: TimelineFacts, shape: int) -> KernelSpread | None:
    """How the launches of one name and shape in the window differ."""
    ops, (low, high, _) = facts.timeline.ops, facts.window
    rows = np.flatnonzero(facts.shapes == shape)
    rows = rows[(ops.end[rows] > low) & (ops.start[rows] < high)]
    if len(rows) < 2:
        return None
    length = (ops.end[rows] - ops.start[rows]) / 1e3
    middle = median(length)
    far = length >= OUTLIER * middle
    return KernelSpread(
        min_us=round(float(length.min()), 3), median_us=round(middle, 3),
        p95_us=round(quantile(length, 0.95), 3), max_us=round(float(length.max()), 3),
        outliers=int(far.sum()) if middle else 0,
        outliers_share=round(float(length[far].sum() / max(length.sum(), 1e-9)), 4) if middle else 0.0,
    )  # fmt: skip


def copies(facts: TimelineFacts) -> list[CopyFigures]:
    """Copies of the window by direction, most time first."""
    ops = facts.timeline.ops
    low, high, _ = facts.window
    works = {d: facts.chosen(d, Op.KERNEL, Op.GRAPH) for d in distinct(ops.device)[0].tolist()}
    worked = {d: covered(ops.start, ops.end, low, high, work) for d, work in works.items()}
    out = []
    for direction in distinct(ops.copy[ops.kind == Op.MEMCPY])[0].tolist():
        rows = np.flatnonzero((ops.kind == Op.MEMCPY) & (ops.copy == direction) & (ops.end > low) & (ops.start < high))
        if not len(rows):
            continue
        length = int((ops.end[rows] - ops.start[rows]).sum())
        size = int(ops.bytes[rows].sum())
        pageable = int((ops.bytes[rows] * ops.pageable[rows]).sum())
        overlapped = 0
        for device in distinct(ops.device[rows])[0].tolist():
            mine = rows[ops.device[rows] == device]
            moved = union(ops.start[mine], ops.end[mine], low, high).length
            either = works[device].copy()
            either[mine] = True
            overlapped += worked[device] + moved - covered(ops.start, ops.end, low, high, either)
        out.append(
            CopyFigures(
                direction=_DIRECTIONS.get(direction, "unknown"),
                count=len(rows), bytes=size, us=round(length / 1e3, 3), gb_per_s=round(size / max(length, 1), 3),
                pageable_pct=round(100 * pageable / size, 2) if size else 0.0,
                overlapped_pct=round(min(100 * overlapped / max(length, 1), 100.0), 2),
            )
        )  # fmt: skip
    return sorted(out, key=lambda c: -c.us)
