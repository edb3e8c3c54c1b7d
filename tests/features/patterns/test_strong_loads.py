"""Strong loads of shared data: found where nobody can be meant, not where somebody may be waited for."""

from __future__ import annotations

import pytest

from kscope.features.patterns.strong_loads import latency_left, shared_by_blocks
from kscope.features.sass.listing import Listing
from kscope.model.kernel import Launch
from tests.support.sass import functions

ARCHS = ("sm_80", "sm_90a", "sm_120a")


def strong_loads(arch: str, kernel: str, blocks: int = 528) -> list[str]:
    code = Listing(functions("strong.cu", arch)[kernel])
    launch = Launch((blocks, 1, 1), (256, 1, 1), (1, 1, 1), 32, 0, 0, None)
    return [code[i].name for i in shared_by_blocks(code, launch)]


@pytest.mark.parametrize("arch", ARCHS)
def test_a_table_behind_volatile_is_found(arch: str) -> None:
    found = strong_loads(arch, "table_volatile")
    assert found and all("STRONG" in name for name in found)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kernel", ["table_plain", "flag_polled", "end_searched", "last_block_adds", "own_rows"])
def test_what_needs_to_be_strong_is_not(arch: str, kernel: str) -> None:
    assert strong_loads(arch, kernel) == []


def test_one_block_shares_with_nobody() -> None:
    assert strong_loads("sm_90a", "table_volatile", blocks=1) == []


def test_a_hit_in_l1_is_sooner_there() -> None:
    assert 0.05 < latency_left(Listing(functions("strong.cu", "sm_90a")["table_volatile"])) < 0.4
