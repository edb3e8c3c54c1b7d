"""What of a thread's work other threads can share, against loops whose answer is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.features.patterns.loop_parallelism import Pieces, pieces, shareable
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
IADD3 R2, R2, 0x200, RZ
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


def test_elements_of_a_round_that_is_written_out() -> None:
    """Loads of one array in a pass: one, or as many as the compiler has written rounds out."""
    assert of(BODIES["sum"]).each == 1
    more = "\n".join(f"LDG.E R{12 + i}, desc[UR4][R2.64+{hex(4 * i)}]\nFADD R10, R10, R{12 + i}" for i in range(1, 8))
    written = of(f"{BODIES['sum']}\n{more}")
    assert written.each == 8 and not written.serial


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


WHILE = """
S2R R0, SR_TID.X
LDC.64 R2, c[0x0][0x210]
LDC.64 R8, c[0x0][0x218]
CS2R R10, SRZ
IMAD.WIDE R2, R0, 0x4, R2
LDG.E R6, desc[UR4][R2.64]
IADD3 R2, R2, 0x80, RZ
{body}
@!P0 BRA 0x50
STG.E desc[UR4][R8.64], R10
EXIT
"""


@pytest.mark.parametrize(
    ("body", "serial"),
    [
        ("FADD R10, R10, R6\nISETP.GE.AND P0, PT, R2, 0x8000, PT", False),  # rounds are counted
        ("FADD R10, R10, R6\nISETP.EQ.AND P0, PT, R6, RZ, PT", True),  # ends at a zero in the data
        ("FADD R10, R10, R6\nFSETP.GT.AND P0, PT, R10, 0.5, PT", False),  # a running sum: a scan finds the round
    ],
)
def test_a_loop_that_ends_where_its_data_say_is_one_chain(body: str, serial: bool) -> None:
    listed = program(WHILE.format(body=body))
    code = Listing(listed, "test")
    walk = unloaded_cycles(listed, build_cfg(listed), code.executed, 1.0, lambda i: 500.0)
    assert bool(pieces(code, walk).serial) == serial


def test_a_walk_over_a_tree_is_shared_only_by_its_outer_loop() -> None:
    """Depth goes up where loaded data says; the loop around it ends at depth zero; threads share the bodies."""
    listed = program("""
        S2R R0, SR_TID.X
        LDC.64 R2, c[0x0][0x210]
        LDC.64 R8, c[0x0][0x218]
        CS2R R10, SRZ
        MOV R12, 0x1
        IMAD.WIDE R4, R12, 0x4, R2
        LDG.E R6, desc[UR4][R4.64]
        ISETP.GE.AND P1, PT, R6, RZ, PT
        @P1 IADD3 R12, R12, 0x1, RZ
        @P1 BRA 0x50
        IADD3 R12, R12, -0x1, RZ
        ISETP.GE.AND P0, PT, R12, 0x1, PT
        @P0 BRA 0x50
        IADD3 R0, R0, 0x80, RZ
        ISETP.GE.AND P2, PT, R0, 0x8000, PT
        @!P2 BRA 0x40
        STG.E desc[UR4][R8.64], R10
        EXIT
    """)
    code = Listing(listed, "test")
    depths = {code.cfg.loops[n].depth: n for n in range(len(code.cfg.loops))}
    assert shareable(code, depths[1])
    assert all(not shareable(code, n) for depth, n in depths.items() if depth > 1)


@pytest.mark.parametrize(("second", "items"), [("desc[UR4][R8.64]", 8.0), ("desc[UR4][R2.64+0x4000]", 16.0)])
def test_loads_of_one_array_are_items_of_an_unrolled_loop_those_of_several_are_one(second: str, items: float) -> None:
    """A loop without counts is taken to run eight times."""
    listed = program(LOOP.format(body=f"LDG.E R7, {second}\nFFMA R10, R6, R7, R10"))
    code = Listing(listed, "test")
    walk = unloaded_cycles(listed, build_cfg(listed), code.executed, 1.0, lambda i: 500.0)
    assert max(can for _, can in pieces(code, walk).parts) == items


def test_rows_of_a_small_grid_leave_work_for_a_hundred_times_the_threads(facts: Callable[[str], Facts]) -> None:
    known = facts("small_grid.slow")
    assert known.code is not None and known.estimate.latency_floor is not None
    assert pieces(known.code, known.estimate.latency_floor.walk).most > 100


# while (next < n) { y[next * 64 + t] = 2 * x[...]; if (!t) next = atomicAdd(head, 1); __syncthreads(); }  nvcc 13.0,
# sm_90a, without the first draw
DRAWN = """
LDC.64 R6, c[0x0][0x210]
ULDC UR8, c[0x0][0x228]
LDC.64 R8, c[0x0][0x218]
S2R R13, SR_TID.X
IMAD R5, R0, 0x40, R13
IMAD.WIDE.U32 R2, R5, 0x4, R6
LDG.E R2, desc[UR6][R2.64]
IMAD.WIDE.U32 R4, R5, 0x4, R8
FADD R11, R2, R2
STG.E desc[UR6][R4.64], R11
@P0 BRA 0x120
{counter}
HFMA2.MMA R5, -RZ, RZ, 0, 5.9604644775390625e-08
ATOMG.E.ADD.STRONG.GPU PT, R2, desc[UR6][R2.64], R5
UMOV UR4, 0x400
IMAD.U32 R15, RZ, RZ, UR4
STS [R15], R2
BSYNC B0
BAR.SYNC.DEFER_BLOCKING 0x0
LDS R0, [R15]
ISETP.GE.AND P1, PT, R0, UR8, PT
@!P1 BRA 0x40
EXIT
"""


@pytest.mark.parametrize(
    ("counter", "all_share"),
    [("LDC.64 R2, c[0x0][0x220]", True), ("IMAD.WIDE.U32 R2, R13, 0x4, R8", False)],
)
def test_pieces_drawn_from_one_counter_are_dealt(counter: str, all_share: bool) -> None:
    """However many blocks there are, each takes the next piece; a counter of one's own tells nobody else."""
    code = Listing(program(DRAWN.format(counter=counter)), "test")
    assert len(code.cfg.loops) == 1
    assert shareable(code, 0) == all_share
