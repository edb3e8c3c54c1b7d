"""A problem on a chip: the time of each level were it the only limit, the regime, the floor.

Two times a level. `peak_us` is at the highest clock and published bandwidth: no kernel that starts with cold caches is
faster. `attained_us` is at what the best kernels were seen to reach: what to hope for. After Williams, Waterman,
Patterson, CACM 52(4), 2009: the floor is the longest of the levels.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from kscope.napkin.problem import Problem
from kscope.napkin.roofs import Roof, Roofs

LAUNCH_US = 2.0
"""Time below which a launch of its own is mostly launch: an empty kernel takes 4.5 us between events on an H200
(launch_bound.tiny in fixtures/h200/times.txt), about half of it on the GPU. Judged."""


class Level(Struct, frozen=True):
    """One limit as if it were the only one. amount: FLOP, bytes or exponentials; unit: which."""

    name: str
    amount: float
    unit: Literal["FLOP", "B", "exp"]
    peak_per_s: float
    attained_per_s: float
    peak_us: float
    attained_us: float
    source: str


class Estimate(Struct, frozen=True):
    """floor_us: nothing is faster (the longest peak_us); attained_us: what good kernels reach. intensity and ridge in
    FLOP a byte; warm_us: floor where all operands already lie in L2, None where they do not fit."""

    problem: Problem
    roofs: Roofs
    levels: tuple[Level, ...]
    regime: Literal["compute", "memory", "overhead"]
    limiter: str
    floor_us: float
    attained_us: float
    intensity: float | None
    ridge: float | None
    warm_us: float | None
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def estimate(problem: Problem, roofs: Roofs) -> Estimate:
    """Precisions that the chip has no peak for are named in `missing` and run at the next wider one that it has."""
    levels, missing = [], []
    for precision, amount in problem.work.items():
        if not amount:
            continue
        roof, at = _rate(roofs, precision)
        if at != precision:
            missing.append(precision)
        if roof is not None:
            levels.append(_level(_name(at), amount, "FLOP", roof))
    if problem.special and roofs.special is not None:
        levels.append(_level("special functions", problem.special, "exp", roofs.special))
    if problem.bytes and roofs.dram.peak:  # a chip that is not in the table may not say its bandwidth
        half = problem.written_bytes >= 0.49 * problem.bytes  # a little is read besides: gamma, beta
        levels.append(_level("device memory", problem.bytes, "B", roofs.mixed if half else roofs.dram))
    limit = max(levels, key=lambda level: level.attained_us, default=None)
    floor = max((level.peak_us for level in levels), default=0.0)
    attained = limit.attained_us if limit is not None else 0.0
    memory = limit is not None and limit.unit == "B"
    regime: Literal["compute", "memory", "overhead"] = "memory" if memory else "compute"
    name = limit.name if limit is not None else "launch"
    if attained < LAUNCH_US:
        regime, name = "overhead", "launch"
    products = [level for level in levels if level.unit == "FLOP"]
    ridge = products[0].peak_per_s / roofs.dram.peak if products and roofs.dram.peak else None
    warm = _warm(problem, roofs, levels)
    return Estimate(problem, roofs, tuple(levels), regime, name, floor, attained, problem.intensity, ridge, warm,
                    tuple(missing), _notes(problem, roofs, tuple(missing), warm))  # fmt: skip


WIDER = {
    "fp4": "fp8", "fp8": "fp16", "int8": "fp16", "bf16": "fp32", "fp16": "fp32", "tf32": "fp32",
    "fp64_tensor": "fp64",
}  # fmt: skip
"""What a precision is computed at where the chip lacks it: bf16 as fp32 on Volta, fp8 as fp16 on Ampere."""


def _rate(roofs: Roofs, precision: str) -> tuple[Roof | None, str]:
    at: str | None = precision
    while at is not None:
        if at in roofs.compute:
            return roofs.compute[at], at
        at = WIDER.get(at)
    return None, precision


def _name(precision: str) -> str:
    return f"{precision} CUDA cores" if precision in ("fp32", "fp64") else f"{precision.split('_')[0]} tensor cores"


def _level(name: str, amount: float, unit: Literal["FLOP", "B", "exp"], roof: Roof) -> Level:
    peak, attained = 1e6 * amount / roof.peak, 1e6 * amount / roof.attained
    return Level(name, amount, unit, roof.peak, roof.attained, peak, attained, roof.source)


def _warm(problem: Problem, roofs: Roofs, levels: list[Level]) -> float | None:
    if not problem.bytes or problem.bytes > roofs.warm_bytes or roofs.l2 is None:
        return None
    compute = max((level.peak_us for level in levels if level.unit != "B"), default=0.0)
    return max(compute, 1e6 * problem.bytes / roofs.l2.peak)


def _notes(problem: Problem, roofs: Roofs, missing: tuple[str, ...], warm: float | None) -> tuple[str, ...]:
    notes = list(problem.notes)
    for precision in missing:
        at = _rate(roofs, precision)[1]
        known = f"counted at the {_name(at)}" if at != precision else "not counted"
        notes.append(f"{roofs.chip.name} has no peak for {precision} in the table: {known}")
    if warm is not None:
        notes.append(
            f"all operands fit into L2 ({roofs.warm_bytes / 2**20:.0f} MiB): runs that find them there can take "
            f"{warm:.3g} us"
        )
    if roofs.measured:
        notes.append(f"attained rates are {roofs.measured}")
    return tuple(notes)
