"""GRD404 of blocks whose rows are shorter than a line: L2 is full of requests, not of bytes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.model.kernel import Kernel
from kscope.rules._shared.blocks.narrow_rows import _shape, narrow_rows
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
    assert "lies in 4 rows" in found.why and "asks L2 4 times for 32 bytes" in found.why
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


@pytest.mark.parametrize(
    ("block", "times", "shape"),
    [
        ((8, 8, 8), 4, (32, 8, 2)), ((8, 8, 4), 4, (32, 8)), ((16, 16, 1), 2, (32, 8)), ((8, 8, 2), 4, (32, 4)),
        ((4, 64, 1), 8, (32, 8)), ((16, 4, 4), 2, (32, 4, 2)),
    ],
)  # fmt: skip
def test_blocks_keep_their_threads(block: tuple[int, int, int], times: int, shape: tuple[int, ...]) -> None:
    assert _shape(block, times) == shape
