"""The tile of a matrix product on tensor cores, from what it asks of L2: operations a byte tell its size.

A block that computes m x n results loads m + n values for m * n products a step along k, so operations over bytes are
2 m n / ((m + n) * bytes of a value): the harmonic mean of its sides, whatever the code looks like.
"""

from __future__ import annotations

from msgspec import Struct

from kscope.features.counters.roofline import RooflinePoint
from kscope.features.counters.traffic import SECTOR, Traffic

WIDTHS = {"bf16": 2, "fp16": 2, "tf32": 4, "fp8": 1, "int8": 1, "fp64": 8}  # bytes of a value
SQUARE = 128.0  # side of a tile of 128 x 128
WIDEST = 2 * 128 * 256 / (128 + 256)  # the same of 128 x 256, the most that two warpgroups' registers hold


class Tile(Struct, frozen=True):
    """`side`: of the square tile that asks for as many bytes; `intensity`: operations a byte asked for."""

    side: float
    intensity: float

    @property
    def better(self) -> float:
        """Side of the next larger tile that fits a block; its own where there is none."""
        return SQUARE if self.side < 0.8 * SQUARE else max(self.side, WIDEST)

    @property
    def kept(self) -> float:
        """Bytes that the next larger tile asks for, over those of now: 0..1."""
        return self.side / self.better


def tile(point: RooflinePoint | None, traffic: Traffic, duration_ns: float | None) -> Tile | None:
    """None where the kernel's main work is not on tensor cores, of a known width, or nothing was counted."""
    seconds = (duration_ns or 0.0) / 1e9
    main = point.main if point is not None else None
    if main is None or not main.precision.startswith("tensor ") or not seconds:
        return None
    width = WIDTHS.get(main.precision.removeprefix("tensor "))
    asked = max(traffic.tma_bytes, SECTOR * traffic.l2_sectors)
    if width is None or not asked:
        return None
    intensity = main.flops * seconds / asked
    return Tile(intensity * width, intensity)
