"""GRD404 of blocks whose rows are shorter than a line: L2 is full of requests, not of bytes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.features.facts import Facts, longer_rows
from kscope.features.sass.listing import Listing
from kscope.fixes.given.setting import Asked, Setting
from kscope.fixes.work.launch import rows
from kscope.model.contract.analysis import Finding
from kscope.model.kernel import Kernel
from kscope.rules._shared.blocks.narrow_rows import narrow_rows
from kscope.rules.grid.block_size import BlockSize
from tests.features.listings import program
from tests.support.edit import with_metrics

REQUESTS = "lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed"
CASE = "levels.eight"  # four-byte accesses side by side, no barrier


def shaped(kernel: Kernel, block: tuple[int, int, int], requests: float = 90.0) -> Facts:
    """The kernel as if launched in blocks of this shape, with L2 as busy with requests."""
    launch = msgspec.structs.replace(kernel.launch, block=block)
    return Facts(msgspec.structs.replace(with_metrics(kernel, {REQUESTS: requests}), launch=launch))


def test_rows_of_eight_threads_ask_four_times(kernel: Callable[[str], Kernel]) -> None:
    found = narrow_rows(shaped(kernel(CASE), (8, 8, 4)))
    assert found is not None
    assert "lies in 4 rows" in found.why and "asks L2 4 times for 32 bytes" in found.why and "  " not in found.why
    assert found.title == "Rows of 8 threads: L2 is asked for 32 bytes at a time"
    assert found.fix.startswith("blocks of 32 x 8 threads")
    assert found.estimate.speedup > 1.1 and found.estimate.relieves == ["l2"]


@pytest.mark.parametrize(
    ("case", "block", "requests"),
    [
        (CASE, (32, 8, 1), 90.0),  # a row a warp
        (CASE, (8, 1, 1), 90.0),  # no row beside it
        (CASE, (8, 8, 4), 20.0),  # memory is what is full
        ("softmax_rows.registers", (8, 8, 4), 90.0),  # threads meet at barriers
    ],
)
def test_silent(case: str, block: tuple[int, int, int], requests: float, kernel: Callable[[str], Kernel]) -> None:
    assert narrow_rows(shaped(kernel(case), block, requests)) is None


def test_silent_where_l1_answers_or_l2_was_not_counted(kernel: Callable[[str], Kernel]) -> None:
    facts = shaped(kernel(CASE), (8, 8, 4))
    hits = with_metrics(facts.kernel, {"l1tex__t_sector_hit_rate.pct": 60.0})
    assert narrow_rows(facts) is not None and narrow_rows(Facts(hits)) is None
    del facts.estimate.units["l2"]  # type: ignore[attr-defined]
    assert narrow_rows(facts) is None


@pytest.mark.parametrize(
    ("block", "times", "shape"),
    [
        ((8, 8, 8), 4, (32, 8, 2)), ((8, 8, 4), 4, (32, 8, 1)), ((16, 16, 1), 2, (32, 8, 1)),
        ((8, 8, 2), 4, (32, 4, 1)), ((4, 64, 1), 8, (32, 8, 1)), ((16, 4, 4), 2, (32, 4, 2)),
    ],
)  # fmt: skip
def test_blocks_keep_their_threads(block: tuple[int, int, int], times: int, shape: tuple[int, ...]) -> None:
    assert longer_rows(block, times) == shape


def test_the_launch_is_written_out_where_the_code_asks_for_its_shape(kernel: Callable[[str], Kernel]) -> None:
    """levels.eight counts on blocks of 256 threads: no other shape. Code whose threads ask for their numbers in the
    grid alone takes any."""
    facts = shaped(kernel(CASE), (8, 8, 4))
    found = BlockSize().check(facts)
    assert isinstance(found, Finding) and facts.code is not None
    assert rows(Asked(Setting(facts.code, lambda file: (), facts.kernel.launch), found)) == []
    lines = [
        line for n, axis in enumerate("XYZ") for line in (
            f"S2R R{4 * n}, SR_TID.{axis}", f"S2UR UR{4 + n}, SR_CTAID.{axis}",
            f"LDC R{4 * n + 1}, c[0x0][{4 * n:#x}]",
            f"IMAD R{4 * n + 2}, R{4 * n + 1}, UR{4 + n}, R{4 * n}",
        )
    ]  # fmt: skip
    text = program("\n".join(lines))
    launch = msgspec.structs.replace(facts.kernel.launch, grid=(32, 4, 10))
    (fix,) = rows(Asked(Setting(Listing(text), lambda file: (), launch), found))
    assert fix.code == "dim3 block(32, 8, 1), grid(8, 4, 40);" and fix.price == found.estimate
    assert [c.state for c in fix.conditions] == ["proved", "proved"]
    assert (fix.proof[0].before, fix.proof[0].after) == (4, 1)
    odd = msgspec.structs.replace(launch, grid=(33, 4, 10))
    (fix,) = rows(Asked(Setting(Listing(text), lambda file: (), odd), found))
    assert "grid(9, 4, 40)" in fix.code and fix.conditions[1].state != "proved"
