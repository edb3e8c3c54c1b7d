"""What a loop carries from round to round, against loops whose answer is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.features.patterns.carried_values import carried
from kscope.features.patterns.loop_parallelism import pieces
from kscope.features.sass.listing import Listing
from kscope.features.sass.warp_simulation import unloaded_cycles
from tests.features.listings import program


class Counted(Listing):
    """A listing whose executions are known: by instruction."""

    counted = True

    def __init__(self, text: str, executed: list[float]) -> None:
        super().__init__(program(text), "test")
        self.__dict__["executed"] = executed + [0.0] * (len(self) - len(executed))


SEARCH = """
S2R R0, SR_TID.X
LDC.64 R2, c[0x0][0x210]
LDC.64 R8, c[0x0][0x218]
IMAD.WIDE R2, R0, 0x4, R2
LDG.E R6, desc[UR4][R2.64]
{between}
ISETP.EQ.AND P0, PT, R6, RZ, PT
@P0 BRA 0xc0
IADD3 R2, R2, 0x200, RZ
IADD3 R0, R0, 0x80, RZ
ISETP.GE.AND P1, PT, R0, 0x8000, PT
@!P1 BRA 0x40
STG.E desc[UR4][R8.64], R0
EXIT
"""


@pytest.mark.parametrize(
    ("found", "between", "one_chain"),
    [
        (0.0, "FADD R7, R6, R6", False),
        (2.0, "FADD R7, R6, R6", False),
        (9.0, "FADD R7, R6, R6", True),  # most find something: rounds behind it would be in vain
        (0.0, "STG.E desc[UR4][R8.64], R6", True),  # a later round may read that: nobody knows it is a search
    ],
)
def test_a_search_that_seldom_finds_is_dealt_out(found: float, between: str, one_chain: bool) -> None:
    """Ten warps, a hundred rounds each where they find nothing."""
    ran = [10.0] * 4 + [1000.0] * 4 + [1000.0 - found] * 4 + [10.0] * 2
    code = Counted(SEARCH.format(between=between), ran)
    what = carried(code, 0)
    assert bool(what.serial) == one_chain and what.searches != one_chain


def test_without_counts_nobody_knows_how_often_a_search_finds() -> None:
    assert carried(Listing(program(SEARCH.format(between="NOP")), "test"), 0).serial


STEPS = """
S2R R0, SR_TID.X
LDC.64 R2, c[0x0][0x210]
LDC.64 R8, c[0x0][0x218]
CS2R R10, SRZ
IMAD.WIDE R2, R0, 0x4, R2
LDG.E R6, desc[UR4][R2.64]
FFMA R10, R10, 0.9, R6
{use}
IADD3 R2, R2, {stride}, RZ
IADD3 R0, R0, 0x1, RZ
ISETP.GE.AND P1, PT, R0, 0x8000, PT
@!P1 BRA {back}
STG.E desc[UR4][R8.64], R10
EXIT
"""
ROOT = "MUFU.RSQ R12, R10\nFADD R11, R11, R12"


@pytest.mark.parametrize(
    ("use", "back", "serial"),
    [
        (ROOT, "0x60", True),  # a state: each round takes its root, and no round brings anything new
        (ROOT, "0x50", False),  # a filter over data: a scan joins its pieces
        ("FADD R11, R11, R6", "0x60", False),  # only its end is wanted: a polynomial, a power
    ],
)
def test_a_state_in_time_is_no_scan_over_data(use: str, back: str, serial: bool) -> None:
    code = Listing(program(STEPS.format(use=use, back=back, stride="0x200")), "test")
    what = carried(code, 0)
    assert bool(what.serial) == serial
    assert serial or "recurrence" in what.joined


KEPT = """
S2R R0, SR_TID.X
LDC.64 R2, c[0x0][0x210]
LDC.64 R8, c[0x0][0x218]
IMAD.WIDE R2, R0, 0x4, R2
IMAD.WIDE R8, R0, 0x4, R8
{fresh}
LDG.E R6, desc[UR4][R2.64]
LDG.E R10, desc[UR4][R8.64]
{step}
STG.E desc[UR4][R8.64], R10
IADD3 R2, R2, 0x200, RZ
IADD3 R0, R0, 0x1, RZ
ISETP.GE.AND P1, PT, R0, 0x8000, PT
@!P1 BRA 0x50
EXIT
"""
SQUARE = "FFMA R10, R10, R10, R6"


@pytest.mark.parametrize(
    ("fresh", "step", "serial"),
    [
        ("NOP", SQUARE, True),
        ("NOP", "FADD R10, R10, R6", False),
        ("STG.E desc[UR4][R8.64], RZ", SQUARE, False),  # each round starts it anew
    ],
)
def test_what_is_kept_in_memory_is_carried(fresh: str, step: str, serial: bool) -> None:
    code = Listing(program(KEPT.format(fresh=fresh, step=step)), "test")
    assert bool(carried(code, 0).serial) == serial


CALLS = """
S2R R0, SR_TID.X
CS2R R10, SRZ
MOV R4, R0
CALL.REL.NOINC 0x90
FADD R10, R10, R6
IADD3 R0, R0, 0x1, RZ
ISETP.GE.AND P1, PT, R0, 0x8000, PT
@!P1 BRA 0x20
EXIT
MUFU.RCP R6, R4
FMUL R6, R6, R6
RET.REL.NODEC R20 0x0
"""


def test_a_called_function_belongs_to_the_loop_that_calls_it() -> None:
    code = Counted(CALLS, [10.0] * 2 + [1000.0] * 6 + [10.0] + [1000.0] * 3)
    found = pieces(code, unloaded_cycles(code.program, code.cfg, code.executed, 10.0, lambda i: 500.0))
    assert code.cfg.loop_of[9] is None
    assert max(share for share, can in found.parts if can == 100.0) > 0.95
    assert found.loops == (0,)


def test_sums_of_a_small_grid_are_told_from_choices(facts: Callable[[str], Facts]) -> None:
    known = facts("small_grid.slow")
    assert known.code is not None
    kinds = [carried(known.code, n).joined for n in range(len(known.code.cfg.loops))]
    assert frozenset({"sum"}) in kinds and not any("choice" in k for k in kinds)


MET = """
S2R R0, SR_TID.X
LDC.64 R2, c[0x0][0x210]
LDC.64 R8, c[0x0][0x218]
IMAD.SHL.U32 R4, R0, 0x4, RZ
CS2R R10, SRZ
{begin}
{work}
STS [R4], R12
BAR.SYNC.DEFER_BLOCKING 0x0
LDS R14, [RZ]
IADD3 R5, R5, 0x1, RZ
ISETP.GE.AND P1, PT, R5, 0x400, PT
MOV R10, R14
@!P1 BRA 0x50
STG.E desc[UR4][R8.64], R10
EXIT
"""


@pytest.mark.parametrize(
    ("begin", "work", "one_chain"),
    [
        # The farthest point so far is where the next round measures from.
        ("IMAD.WIDE R16, R10, 0x4, R2\nLDG.E R18, desc[UR4][R16.64]", "FADD R12, R18, -R0", True),
        # A scan's carry: a piece of the rounds can do without, and add it behind.
        ("IMAD.WIDE R16, R5, 0x4, R2\nLDG.E R18, desc[UR4][R16.64]", "FADD R12, R18, R10", False),
        # What the block found goes to nobody's next round.
        ("IMAD.WIDE R16, R5, 0x4, R2\nLDG.E R18, desc[UR4][R16.64]", "FADD R12, R18, -R0", False),
    ],
)  # fmt: skip
def test_rounds_that_begin_with_what_the_block_found_are_one_chain(begin: str, work: str, one_chain: bool) -> None:
    code = Counted(MET.format(begin=begin, work=work), [10.0] * 5 + [1000.0] * 10 + [10.0] * 2)
    assert code[14].opcode == "BRA" and len(code.cfg.loops) == 1
    serial = carried(code, 0).serial
    assert bool(serial) == one_chain
    assert not serial or code[serial[0]].opcode == "LDS"


FINDS = """
S2R R0, SR_TID.X
LDC.64 R2, c[0x0][0x210]
LDC.64 R8, c[0x0][0x218]
CS2R R10, SRZ
IMAD.WIDE R4, R12, 0x4, R2
LDG.E R6, desc[UR4][R4.64]
FSETP.GEU.AND P0, PT, R6, R7, PT
@P0 BRA 0xb0
IMAD.WIDE R14, R10, 0x4, R8
STG.E desc[UR4][R14.64], R12
IADD3 R10, R10, 0x1, RZ
IADD3 R12, R12, 0x1, RZ
ISETP.GE.AND P1, PT, R12, 0x8000, PT
@!P1 BRA 0x40
EXIT
"""


@pytest.mark.parametrize(("found", "joined"), [(50.0, {"count"}), (1000.0, set())])
def test_a_count_of_what_few_rounds_find_says_where_the_next_is_stored(found: float, joined: set[str]) -> None:
    """Where every round stores one it is the counter of the rounds, as good as their number."""
    code = Counted(FINDS, [10.0] * 4 + [1000.0] * 4 + [found] * 3 + [1000.0] * 3 + [10.0])
    what = carried(code, 0)
    assert (what.serial, what.joined) == ((), joined)


ROWS = """
S2R R0, SR_TID.X
LDC.64 R8, c[0x0][0x218]
IMAD.SHL.U32 R2, R0, 0x4, RZ
IMAD.WIDE R8, R0, 0x4, R8
{fresh}
LDS R4, [R2]
LDS R5, [R2+0x4]
{joined}
BAR.SYNC.DEFER_BLOCKING 0x0
STS [R2+0x4], R6
BAR.SYNC.DEFER_BLOCKING 0x0
IADD3 R8, P1, R8, 0x200, RZ
IADD3 R10, R10, 0x1, RZ
ISETP.NE.AND P0, PT, R10, 0x40, PT
@P0 BRA 0x40
EXIT
"""


@pytest.mark.parametrize(
    ("fresh", "joined", "one_chain"),
    [
        ("NOP", "FMNMX R6, R4, R5, !PT", True),  # the rows of an alignment: each is made of the one before
        ("IMAD.MOV.U32 R7, RZ, RZ, 0x7f800000", "FMUL R6, R4, R5", True),
        ("LDG.E R7, desc[UR4][R8.64]", "FMNMX3 R6, R4, R5, R7, PT", True),  # new data join the state
        ("NOP", "FADD R6, R4, R5", False),  # sums: pieces can do without the ones before
    ],
)
def test_a_state_of_the_block_in_shared_memory(fresh: str, joined: str, one_chain: bool) -> None:
    text = ROWS.format(fresh=fresh, joined=joined)
    code = Counted(text, [10.0] * 4 + [640.0] * 11 + [10.0])
    assert bool(carried(code, 0).serial) == one_chain


@pytest.mark.parametrize(
    ("stored", "one_chain"),
    [
        ("LDGSTS.E [R2], desc[UR4][R8.64]", False),
        ("STS [R2], R7", False),  # what the round loads may be what was loaded for it: a round of its own
        ("STS [R2+0x40], RZ", True),  # a border that is the same in every round
        ("ATOMS.MAX RZ, [R2], R7", False),
    ],
)
def test_rounds_that_bring_their_own_data_to_shared_memory(stored: str, one_chain: bool) -> None:
    fresh = f"LDG.E R7, desc[UR4][R8.64]\n{stored}\nBAR.SYNC.DEFER_BLOCKING 0x0"
    text = ROWS.format(fresh=fresh, joined="FMNMX R6, R4, R5, !PT")
    code = Counted(text, [10.0] * 4 + [640.0] * 13 + [10.0])
    assert bool(carried(code, 0).serial) == one_chain
