"""Which trips through shared memory data decide, and which barriers stay for them."""

from __future__ import annotations

import msgspec

from kscope.features.facts import Facts
from kscope.model.kernel import Counters
from kscope.rules.latency.barrier_stalls import BarrierStalls
from tests.features.listings import program
from tests.rules.test_conditions import found, gain
from tests.support.edit import made

ROUNDS = """
S2R R2, SR_TID.X
LDG.E R4, desc[UR6][R8.64]
LEA R3, R2, UR4, 0x2
STS [R3], R4
BAR.SYNC.DEFER_BLOCKING 0x0
LDS R5, [R3+0x80]
IADD3 R10, R4, R5, RZ
BAR.SYNC.DEFER_BLOCKING 0x0
{address}
@P1 STS [R6], R10
BAR.SYNC.DEFER_BLOCKING 0x0
LDS R4, [R3]
BAR.SYNC.DEFER_BLOCKING 0x0
ISETP.NE.AND P0, PT, R7, 0x20, PT
@P0 BRA 0x30
EXIT
"""
BY_DATA, BY_THREAD = "LEA R6, R5, UR4, 0x2", "LEA R6, R2, UR4, 0x3"


def sorting(address: str) -> Facts:
    """Rounds with four barriers, at each of which 60 of 320 samples wait; 20 are behind each load from shared memory
    and 40 elsewhere."""
    code = program(ROUNDS.format(address=address))
    runs = [100.0] * 3 + [400.0] * 12 + [100.0]
    stalls = {name: [0.0] * len(runs) for name in ("barrier", "short_scoreboard", "wait")}
    for i in (5, 8, 11, 13):
        stalls["barrier"][i] = 60.0
    stalls["short_scoreboard"][6] = stalls["short_scoreboard"][3] = 20.0
    stalls["wait"][14] = 40.0
    sampled = {f"smsp__pcsamp_warps_issue_stalled_{name}": column for name, column in stalls.items()}
    counters = Counters([16 * i for i in range(len(runs))], {"inst_executed": runs, **sampled})
    return Facts(msgspec.structs.replace(made({}, grid=25, block=128), program=code, counters=counters))


def test_a_scatter_by_data_keeps_its_barriers_and_what_is_read_behind_them() -> None:
    assert sorting(BY_DATA).patterns.exchanges == {9, 10, 11, 12}


def test_places_that_the_thread_knows_are_no_exchange() -> None:
    """A guard that hangs on data says whether a thread stores, not where."""
    assert sorting(BY_THREAD).patterns.exchanges == frozenset()


def test_barriers_of_an_exchange_are_not_promised_away() -> None:
    stays, goes = (found(BarrierStalls.code, sorting(address)) for address in (BY_DATA, BY_THREAD))
    assert gain(stays) < gain(goes)
    assert gain(goes) > 1.9 and gain(stays) < 1.7
