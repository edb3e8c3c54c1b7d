"""Warps without work that wait at barriers of a kernel without shared memory; tiles that others wait for there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.fixes.tile.tiles import reach
from kscope.model.kernel import Kernel
from kscope.rules._shared import tile_rings
from kscope.rules._shared.blocks import trees
from tests.support.said import found

Known = Callable[[str], Kernel]


def test_nobody_waits_for_who_has_nothing_to_share(kernel: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = found("LAT304", Facts(kernel("barrier.slow")))
    monkeypatch.setattr(trees, "shared", lambda code: [])
    alone = found("LAT304", Facts(kernel("barrier.slow")))
    assert shared.estimate is not None and alone.estimate is not None
    assert alone.estimate.speedup < 1.1 < shared.estimate.speedup
    assert "smaller blocks pass more barriers" in alone.fix and alone.fix != shared.fix


def test_shared_memory_is_seen(kernel: Known) -> None:
    assert trees.shared(Facts(kernel("barrier.slow")).code)  # type: ignore[arg-type]
    assert not trees.shared(Facts(kernel("dram_bound.triad")).code)  # type: ignore[arg-type]


def test_a_tile_on_its_way_comes_before_the_barrier_behind_it(kernel: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = Facts(kernel("gemm_f32.shared"))
    assert facts.code is not None
    waiting = sum(tile_rings.awaited_tiles(facts.code).values()) / sum(facts.code.samples)
    assert waiting > 0
    monkeypatch.setattr(tile_rings, "EXPOSED", waiting * 0.9)
    assert tile_rings.before_barriers(facts.code, alone=False) == ["LAT307"]
    assert tile_rings.before_barriers(facts.code, alone=True) == []
    monkeypatch.setattr(tile_rings, "EXPOSED", waiting * 1.1)
    assert tile_rings.before_barriers(facts.code, alone=False) == []


@pytest.mark.parametrize(
    ("case", "block", "bytes_"),
    [
        ("occupancy_smem.slow", (128, 1, 1), 1024 + 512),  # an element a thread, whatever the guard says
        ("dram_bound.triad", (256, 1, 1), 0),
        ("local_array.fast", (128, 1, 1), None),  # data say where
        ("gemm_f32.shared", (32, 32, 1), 1024 + 2 * 4096),
    ],
)
def test_how_far_accesses_reach(kernel: Known, case: str, block: tuple[int, int, int], bytes_: int | None) -> None:
    code = Facts(kernel(case)).code
    assert code is not None
    assert reach(code, block) == bytes_
