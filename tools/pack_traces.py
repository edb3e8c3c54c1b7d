"""Pack the warps' records of fixtures/dials tighter, without loss: xz on the differences from some bytes before.

    python tools/pack_traces.py [FOLDER]

A warp writes the same records turn after turn, 16 bytes each, and only their clocks move on: the difference from the
byte a turn before is mostly zero. xz has that filter (`xz --delta=dist=32`), and whatever reads .xz knows it. DISTANCES
are tried, the smallest result is kept, if it is smaller than what is there.
"""

from __future__ import annotations

import lzma
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "dials"
DISTANCES = (16, 32, 48, 64, 80, 96, 128)


def packed(data: bytes, distance: int, preset: int) -> bytes:
    lzma2 = {"id": lzma.FILTER_LZMA2, "preset": preset, "lc": 0, "lp": 2, "pb": 2}  # 4-byte words
    filters = [{"id": lzma.FILTER_DELTA, "dist": distance}, lzma2]
    return lzma.compress(data, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, filters=filters)


def repack(path: Path) -> tuple[int, int]:
    """Bytes before and after."""
    before = path.read_bytes()
    data = lzma.decompress(before)
    distance = min(DISTANCES, key=lambda d: len(packed(data, d, 6)))
    after = min(before, packed(data, distance, 9 | lzma.PRESET_EXTREME), key=len)
    path.write_bytes(after)
    return len(before), len(after)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        sizes = list(pool.map(repack, sorted(folder.glob("*/trace.ktrace.xz"))))
    print(f"{sum(b for b, _ in sizes):,} -> {sum(a for _, a in sizes):,} bytes")


if __name__ == "__main__":
    main()
