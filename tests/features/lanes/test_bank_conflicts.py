"""Bank conflicts derived from the code against the wavefronts that the hardware counted, on real captures."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.features.lanes.bank_conflicts import conflicts, shared_accesses, wavefronts

SHARED = (
    "bank_conflict.slow", "bank_conflict.fast", "sgemm.blocktile2d", "sgemm.tiled", "mm.vec4", "local_array.fast",
    "layernorm_bf16.vec8", "groupby_f64.shared", "bitonic1024.barriers",
)  # fmt: skip


@pytest.mark.parametrize("case", SHARED)
def test_derived_wavefronts_are_the_measured_ones(case: str, facts: Callable[[str], Facts]) -> None:
    code = facts(case).code
    assert code is not None
    counted = code.column("memory_l1_wavefronts_shared")
    known = conflicts(code, facts(case).kernel.launch.block)
    assert counted is not None and known
    for i, conflict in known.items():
        if code.threads[i] == 32 * code.executed[i] > 0 and code[i].guard is None:
            assert counted[i] / code.executed[i] == pytest.approx(conflict.wavefronts, rel=0.1), code[i].text


def test_most_of_the_captured_accesses_are_derived(facts: Callable[[str], Facts]) -> None:
    """A derivation that gave up everywhere would pass the test above."""
    known = every = 0
    for case in SHARED:
        code = facts(case).code
        assert code is not None
        known += len(conflicts(code, facts(case).kernel.launch.block))
        every += len(shared_accesses(code))
    assert known >= 0.8 * every > 100


@pytest.mark.parametrize(
    ("addresses", "width", "expected"),
    [
        ([4 * n for n in range(32)], 4, (1, 1)),
        ([128 * n for n in range(32)], 4, (32, 1)),
        ([132 * n for n in range(32)], 4, (1, 1)),
        ([8 * n for n in range(32)], 4, (2, 1)),
        ([0] * 32, 4, (1, 1)),
        ([8 * n for n in range(32)], 8, (2, 2)),
        ([16 * n for n in range(32)], 16, (4, 4)),
        ([0] * 32, 16, (2, 2)),
        ([128 * n for n in range(32)], 16, (32, 4)),
        (list(range(32)), 1, (1, 1)),
    ],
)
def test_wavefronts(addresses: list[int], width: int, expected: tuple[int, int]) -> None:
    assert wavefronts(addresses, width, [1] * 32) == expected


@pytest.mark.parametrize("word", [1, 3, 31, 32, 1000])
@pytest.mark.parametrize("width", [1, 4, 8, 16])
def test_other_banks_for_all_lanes_change_no_conflict(word: int, width: int) -> None:
    """What lets one pattern of addresses stand for every access that repeats it elsewhere."""
    generator = random.Random(word)
    for _ in range(50):
        addresses = [width * generator.randrange(200) for _ in range(32)]
        active = [generator.randrange(4) > 0 for _ in range(32)]
        moved = [a + 4 * word for a in addresses]
        assert wavefronts(addresses, width, active) == wavefronts(moved, width, active)
