"""What tiles of a product move: blocks, waves, L2 traffic, and the time with all of it. One block a tile: split-K and
stream-K, which fill SMs that have no tile, are not modelled."""

from __future__ import annotations

import math

from msgspec import Struct

from kscope.napkin.estimate import Estimate
from kscope.napkin.problem import Product

SHAPES = ((64, 64), (128, 64), (128, 128), (128, 256), (256, 128), (256, 256))


class Tile(Struct, frozen=True):
    """One output tile a block, one block an SM. waves: rounds of the SMs; used: share of the SM time that is not idle
    in the last wave, times the share of the tiles that lies inside the result. l2_bytes: what all blocks load;
    intensity: FLOP a byte of it; dram_bytes: what misses L2 where the blocks of a wave lie in a square; step_bytes:
    shared memory of one step of `k_step`. Times in us at attained rates; us: the longest."""

    m: int
    n: int
    blocks: int
    waves: float
    used: float
    l2_bytes: float
    intensity: float
    dram_bytes: float
    step_bytes: float
    k_step: int
    compute_us: float
    l2_us: float | None
    dram_us: float
    us: float
    limiter: str


def tiles(estimate: Estimate, shapes: tuple[tuple[int, int], ...] = SHAPES) -> tuple[Tile, ...]:
    """Empty where the problem is no product."""
    product = estimate.problem.product
    return () if product is None else tuple(_tile(estimate, product, m, n) for m, n in shapes)


def best(found: tuple[Tile, ...]) -> Tile | None:
    return min(found, key=lambda tile: tile.us, default=None)


def _tile(estimate: Estimate, p: Product, tm: int, tn: int) -> Tile:
    roofs, problem = estimate.roofs, estimate.problem
    rows, cols = math.ceil(p.m / tm), math.ceil(p.n / tn)
    blocks, sms = rows * cols * p.batch, roofs.chip.sms
    waves = blocks / sms
    inside = (p.m * p.n) / (rows * tm * cols * tn)
    used = inside * waves / math.ceil(waves)
    stored = p.batch * p.m * p.n * p.c
    loaded = p.batch * rows * cols * p.k * (tm * p.a + tn * p.b)
    moved = loaded + stored
    dram = max(problem.bytes, _by_waves(p, tm, tn, rows, cols, sms, roofs.warm_bytes) + stored)
    work = [level for level in estimate.levels if level.unit == "FLOP"]
    compute = max((level.attained_us for level in work), default=0.0) / used
    special = max((level.attained_us for level in estimate.levels if level.unit == "exp"), default=0.0)
    l2_us = 1e6 * moved / roofs.l2.attained if roofs.l2 is not None else None
    dram_us = 1e6 * dram / roofs.dram.attained
    times = [(compute, "compute"), (special, "special functions"), (l2_us or 0.0, "L2"), (dram_us, "device memory")]
    us, limiter = max(times)
    step = 64 if p.a <= 2 else 32
    return Tile(tm, tn, blocks, waves, used, moved, problem.flop / moved, dram, step * (tm * p.a + tn * p.b), step,
                compute, l2_us, dram_us, us, limiter)  # fmt: skip


def _by_waves(p: Product, tm: int, tn: int, rows: int, cols: int, sms: int, cache: float) -> float:
    """Bytes of A and B from device memory: each wave reads the strips that its tiles need, once, and L2 keeps nothing
    for the next one unless both operands fit."""
    whole = p.batch * p.k * (p.m * p.a + p.n * p.b)
    if whole <= cache:
        return whole
    high = min(rows, max(1, round(math.sqrt(sms * tn / tm))))
    wide = min(cols, math.ceil(sms / high))
    groups = math.ceil(rows / high) * math.ceil(cols / wide) * p.batch
    return groups * p.k * (min(high * tm, p.m) * p.a + min(wide * tn, p.n) * p.b)
