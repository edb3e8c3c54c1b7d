"""Accesses that would be one: nothing stands between them, or only stores of what they bring."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kscope.features.lanes.vectorizable import Merge, merges
from kscope.features.sass.listing import Listing
from tests.features.listings import program

START = """
0x0 S2R R0, SR_TID.X
0x10 LDC.64 R2, c[0x0][0x210]
0x20 LDC.64 R4, c[0x0][0x218]
0x30 IMAD.WIDE R2, R0, 0x8, R2
0x40 IMAD.WIDE R4, R0, 0x8, R4
"""
END = """
0x200 EXIT
0x210 BRA 0x210
"""


def found(lines: Sequence[str], *, crossing: bool) -> list[Merge]:
    """What is found in a block of these lines, behind five others."""
    text = "\n".join(f"{hex(0x50 + 16 * n)} {line}" for n, line in enumerate(lines))
    return merges(Listing(program(START + text + END), "test"), crossing=crossing)


def groups(*lines: str, crossing: bool) -> list[tuple[int, ...]]:
    return sorted(m.members for m in found(lines, crossing=crossing))


COPY = (
    "LDG.E R6, desc[UR4][R2.64]",
    "STG.E desc[UR4][R4.64], R6",
    "LDG.E R7, desc[UR4][R2.64+0x4]",
    "STG.E desc[UR4][R4.64+0x4], R7",
)
COMPUTED = (COPY[0], "FADD R8, R6, 1", "STG.E desc[UR4][R4.64], R8", *COPY[2:])


@pytest.mark.parametrize("lines", [COPY, COMPUTED])
def test_stores_of_what_is_loaded_may_stand_between(lines: tuple[str, ...]) -> None:
    last = 5 + len(lines)
    assert groups(*lines, crossing=False) == []
    assert groups(*lines, crossing=True) == [(5, last - 2), (last - 3, last - 1)]
    every = found(lines, crossing=True)
    assert all(m.crossing and m.sure and "elsewhere" in m.condition for m in every)


@pytest.mark.parametrize(
    "other",
    [
        "STG.E desc[UR4][R10.64], R11",  # of something else: may be what the second load reads
        "ATOMG.E.ADD.STRONG.GPU PT, R11, desc[UR4][R10.64], R6",
        "BAR.SYNC.DEFER_BLOCKING 0x0",
        "IMAD.WIDE R2, R0, 0x8, R12",  # another base
    ],
)
def test_nothing_else_may(other: str) -> None:
    assert (5, 8) not in groups(*COPY[:2], other, *COPY[2:], crossing=True)


def test_without_stores_it_makes_no_difference() -> None:
    loads = (COPY[0], COPY[2])
    assert groups(*loads, crossing=True) == groups(*loads, crossing=False) == [(5, 6)]


def test_what_was_stored_and_is_loaded_again_stays_in_order() -> None:
    """x[1] = x[0]; x[2] = x[1] hands one value on; x[0] += 1; x[1] += 1 does not."""
    handed = ("LDG.E R6, desc[UR4][R2.64]", "STG.E desc[UR4][R2.64+0x4], R6",
              "LDG.E R7, desc[UR4][R2.64+0x4]", "STG.E desc[UR4][R2.64+0x8], R7")  # fmt: skip
    assert groups(*handed, crossing=True) == []
    own = ("LDG.E R6, desc[UR4][R2.64]", "STG.E desc[UR4][R2.64], R6",
           "LDG.E R7, desc[UR4][R2.64+0x4]", "STG.E desc[UR4][R2.64+0x4], R7")  # fmt: skip
    assert groups(*own, crossing=True) == [(5, 7), (6, 8)]


@pytest.mark.parametrize(
    ("pitch", "together"),
    [("0x4", False), ("0x8", True), ("c[0x0][0x230]", True)],  # bytes a block: one element, two, a launch value
)
def test_the_next_block_has_to_be_aligned_too(pitch: str, together: bool) -> None:
    """start[blockIdx.x] and start[blockIdx.x + 1] lie in one piece for every other block alone."""
    text = f"""
0x0 S2R R0, SR_CTAID.X
0x10 LDC.64 R2, c[0x0][0x210]
0x20 IMAD.WIDE R2, R0, {pitch}, R2
0x30 LDG.E R6, desc[UR4][R2.64]
0x40 LDG.E R7, desc[UR4][R2.64+0x4]
"""
    assert [m.members for m in merges(Listing(program(text + END), "test"))] == ([(3, 4)] if together else [])
