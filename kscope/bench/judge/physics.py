"""The least time that bytes and FLOP take on the device: nothing honest is faster, and a slow baseline is far above."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from kscope.bench.judge.referee import Truth
from kscope.bench.task import expressions
from kscope.bench.task.spec import Task
from kscope.bench.values.cheats import finding
from kscope.bench.values.result import Finding, Timing

SLACK = 0.95  # of the floor: clocks and published peaks are known to a few percent. Judged
FAR = 20.0  # times the floor from which a baseline is named: below, an unfused chain of operators explains it. Judged
PRECISION = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "int8": "int8"}


class Rates(Struct, frozen=True):
    """bytes_per_s of memory; flop_per_s by data type, empty where unknown; what they are of."""

    bytes_per_s: float
    flop_per_s: dict[str, float]
    of: str


def rates(device: str, name: str) -> Rates | None:
    """Of a chip that the sheet has; of a processor, measured, as an upper bound. None where neither is known."""
    if device == "cpu":
        return _processor()
    from kscope.arch.chips import find
    from kscope.model.errors import KscopeError

    try:
        chip = find(name)
    except KscopeError:
        return None
    flops = {kind: max(chip.peak.get(short, 0.0), chip.peak.get("tf32", 0.0) if kind == "float32" else 0.0)
             for kind, short in PRECISION.items()}  # fmt: skip
    return Rates(chip.dram_bytes_per_s, {k: v for k, v in flops.items() if v}, f"{chip.name}'s published peak")


def floor_us(task: Task, timing: Timing, truth: Truth, found: Rates | None, *, dependent: bool) -> tuple[float, float]:
    """(microseconds, bytes): bytes where every input was seen to matter and caches were cold, FLOP where declared."""
    if found is None:
        return 0.0, 0.0
    size = float(needed(task, timing.dims, timing.dtype, truth)) if dependent and timing.cache == "cold" else 0.0
    times = [1e6 * size / found.bytes_per_s]
    if task.flop and found.flop_per_s.get(timing.dtype):
        times.append(1e6 * expressions.value(task.flop, timing.dims) / found.flop_per_s[timing.dtype])
    return max(times), size


def needed(task: Task, dims: Mapping[str, int], chosen: str, truth: Truth) -> int:
    """Bytes of all arrays, each once."""
    size = sum(
        int(np.prod(one.sizes(dims), dtype=np.int64)) * one.kind(chosen).size for one in task.inputs if not one.scalar
    )
    return size + sum(value.size * kind.size for value, kind in zip(truth.values, truth.kinds, strict=True))


def judge(timing: Timing, floor: float, size: float, of: str) -> Finding | None:
    """52 for the candidate; 50 for a baseline far above."""
    if not floor:
        return None
    if timing.candidate_us < SLACK * floor:
        what = f"{size / 2**20:.1f} MiB and the declared FLOP" if size else "the declared FLOP"
        return finding(52, f"{timing.candidate_us:.3g} us where {what} take {floor:.3g} us at {of}")
    if timing.baseline_us is not None and timing.baseline_us > FAR * floor and floor > 5.0 and "measured" not in of:
        return finding(
            50, f"the baseline takes {timing.baseline_us / floor:.0f} times the floor of {floor:.3g} us", "seen"
        )
    return None


def _processor() -> Rates:
    """Bytes a second of one copy, times the processors: more than they reach together."""
    import os

    source, target = np.ones(4 << 20), np.empty(4 << 20)
    best = float("inf")
    for _ in range(4):
        begun = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - begun)
    return Rates(
        2 * source.nbytes / best * (os.cpu_count() or 1) * 2, {}, "twice the measured rate of a copy by all processors"
    )
