"""What kernels of tiles are promised to bring: a model of their own time, against times on an H200."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kscope.arch.chips import chips
from kscope.fixes.tensor import products as by_warps
from kscope.fixes.tensor.worth import WITHIN, of_tiles
from kscope.fixes.warpgroup import products as by_groups

WIDE, NARROW = by_groups.TILES
SQUARE = by_warps.TILES[0]


def ran(us: float, chip: str = "h200", sms: int = 132) -> SimpleNamespace:
    return SimpleNamespace(us=us, sms=sms, code=SimpleNamespace(program=SimpleNamespace(sm=chips()[chip].cc)))


@pytest.mark.parametrize(
    ("rows", "depth", "batch", "tile", "took"),
    [
        (4096, 4096, 1, WIDE, 204.54), (4096, 4096, 1, WIDE, 203.81), (4096, 4096, 1, WIDE, 207.62),
        (4096, 4096, 1, WIDE, 204.83), (4096, 2048, 1, WIDE, 111.55), (2048, 2048, 1, WIDE, 34.08),
        (2048, 2048, 1, WIDE, 33.98), (2048, 2048, 1, WIDE, 33.86), (4096, 4096, 1, NARROW, 234.98),
        (4096, 4096, 1, SQUARE, 443.39), (4096, 4096, 1, SQUARE, 452.06), (2048, 2048, 1, SQUARE, 64.77),
        (2048, 2048, 1, SQUARE, 66.82), (2048, 2048, 1, SQUARE, 65.66),
    ],
)  # fmt: skip
def test_times_that_were_measured(rows: int, depth: int, batch: int, tile: object, took: float) -> None:
    """fixtures/fixes/measured.toml: changes of gemm_bf16, hgemm, hmm, bmm, mma_ring, as they were printed."""
    high = getattr(tile, "rows", 128)
    blocks = rows // high * (rows // tile.cols) * batch  # type: ignore[attr-defined]
    wave = by_groups.TILES[tile] if tile in by_groups.TILES else by_warps.WAVE_US[tile]  # type: ignore[index]
    found = of_tiles(ran(1000.0), blocks, tile.blocks, wave, depth)  # type: ignore[attr-defined, arg-type]
    assert found is not None and found.low < found.speedup < found.high
    assert 1000 / found.speedup == pytest.approx(took, rel=0.1)
    assert found.high / found.speedup == pytest.approx(WITHIN, rel=1e-2)


def test_another_chip_is_as_much_slower_as_its_products_are() -> None:
    here, there = chips()["h200"], chips()["a100"]
    took = [of_tiles(ran(1e5, c.key, c.sms), 10 * c.sms, 1, 49.0, 4096) for c in (here, there)]  # type: ignore[arg-type]
    assert took[0] is not None and took[1] is not None
    assert took[0].speedup == pytest.approx(1e5 / (8 + 10 * 49), rel=1e-3)
    slower = (here.attained["bf16"] / here.sms) / (there.attained["bf16"] / there.sms)
    assert took[1].speedup == pytest.approx(1e5 / (8 + 10 * 49 * slower), rel=1e-3) and slower > 2


@pytest.mark.parametrize(("us", "sms", "depth"), [(0.0, 132, 64), (10.0, 0, 64), (10.0, 132, 0)])
def test_nothing_is_promised_of_what_nobody_timed(us: float, sms: int, depth: int) -> None:
    assert of_tiles(ran(us, sms=sms), 100, 1, 49.0, depth) is None  # type: ignore[arg-type]
