"""What of a thread's work other threads can share, against loops whose answer is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.features.patterns.loop_parallelism import Pieces, pieces
from kscope.features.sass.cfg import build_cfg
from kscope.features.sass.listing import Listing
from kscope.features.sass.warp_simulation import unloaded_cycles
from tests.features.listings import program

LOOP = """
S2R R0, SR_TID.X
LDC.64 R2, c[0x0][0x210]
LDC.64 R8, c[0x0][0x218]
CS2R R10, SRZ
IMAD.WIDE R2, R0, 0x4, R2
LDG.E R6, desc[UR4][R2.64]
IADD3 R0, R0, 0x80, RZ
{body}
ISETP.GE.AND P0, PT, R0, 0x8000, PT
@!P0 BRA 0x50
STG.E desc[UR4][R8.64], R10
EXIT
"""
BODIES = {  # the round of a loop that has loaded R6; what is carried is in R10
    "sum": "FADD R10, R10, R6",
    "sum of products": "FFMA R10, R6, R6, R10",
    "smallest": "FMNMX R10, R10, R6, PT",
    "index of the best": "FSETP.GT.AND P1, PT, R6, R10, PT\nSEL R11, R0, R11, P1\nFSEL R10, R6, R10, P1",
    "recurrence": "FFMA R10, R6, R10, R6",
    "stored recurrence": "FFMA R10, R6, R10, R6\nSTG.E desc[UR4][R8.64], R10",
    "square": "FFMA R10, R10, R10, R6",
    "longest path": "FADD R10, R10, R6\nFMNMX R10, R10, RZ, !PT",
    "neighbour": "SHFL.UP PT, R10, R10, 0x1, RZ\nFADD R10, R10, R6",
    "chased pointer": "IMAD.WIDE R2, R6, 0x4, R2\nFADD R10, R10, R6",
    "guarded": "@P1 IADD3 R13, R6, 0x1, RZ\n@P1 LOP3.LUT R12, R13, R6, RZ, 0x3c, !PT\n@P1 IADD3 R10, R10, R12, RZ",
}
SERIAL = {"square", "longest path", "neighbour", "chased pointer"}


def of(body: str) -> Pieces:
    listed = program(LOOP.format(body=body))
    code = Listing(listed, "test")
    walk = unloaded_cycles(listed, build_cfg(listed), code.executed, 1.0, lambda i: 500.0)
    return pieces(code, walk)


@pytest.mark.parametrize("name", BODIES)
def test_what_a_loop_carries_decides_whether_it_can_be_shared(name: str) -> None:
    found = of(BODIES[name])
    assert bool(found.serial) == (name in SERIAL)
    assert found.twice == (name == "stored recurrence")
    assert sum(share for share, _ in found.parts) == pytest.approx(1.0)
    assert found.left(1.0) == pytest.approx(1.0)
    assert found.left(8.0) > 0.9 if name in SERIAL else found.left(8.0) < 0.5


@pytest.mark.parametrize("case", ["small_grid.slow", "mandelbrot.bands", "triton_deep.tiles16"])
def test_rows_pixels_and_sums_can_be_shared(case: str, facts: Callable[[str], Facts]) -> None:
    known = facts(case)
    assert known.code is not None and known.estimate.latency_floor is not None
    found = pieces(known.code, known.estimate.latency_floor.walk)
    assert found.left(2.0) < 0.6
    assert bool(found.serial) == (case == "mandelbrot.bands"), "z = z^2 + c is one chain; its pixels are not"


def test_a_list_is_walked_by_one_thread(facts: Callable[[str], Facts]) -> None:
    known = facts("list_walk.four")
    assert known.code is not None and known.estimate.latency_floor is not None
    found = pieces(known.code, known.estimate.latency_floor.walk)
    assert found.left(16.0) > 0.95 and any(known.code[i].opcode == "LDG" for i in found.serial)


def test_a_recurrence_that_is_stored_reads_its_inputs_twice(facts: Callable[[str], Facts]) -> None:
    known = facts("gated.serial")
    assert known.code is not None and known.estimate.latency_floor is not None
    assert pieces(known.code, known.estimate.latency_floor.walk).twice
