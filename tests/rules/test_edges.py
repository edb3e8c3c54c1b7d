"""Few threads load the edges of a tile while all others wait at the barrier."""

from __future__ import annotations

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.model.kernel import Counters
from kscope.rules._shared.blocks.trees import EVEN
from kscope.rules.latency.barrier_stalls import EDGE
from tests.features.listings import program
from tests.rules.test_conditions import found, gain
from tests.support.edit import made

TILE = """
S2R R2, SR_TID.X
LDC.64 R8, c[0x0][0x210]
IMAD.WIDE R8, R2, 0x4, R8
ISETP.GE.U32.AND P0, PT, R2, 0x7, PT
LDG.E R4, desc[UR6][R8.64]
LEA R3, R2, UR4, 0x2
STS [R3+0x1c], R4
@P0 BRA 0xb0
{first}
{then}
STS [R3+0x41c], R6
BAR.SYNC.DEFER_BLOCKING 0x0
LDS R5, [R3]
STG.E desc[UR6][R8.64], R5
EXIT
"""
LOADED = {"first": "IADD3 R10, R2, 0x1, RZ", "then": "LDG.E R6, desc[UR6][R8.64+0x400]"}
COMPUTED = {"first": "IADD3 R6, R2, 0x1, RZ", "then": "MUFU.SQRT R6, R6"}


def tile(edge: dict[str, str], reason: str) -> Facts:
    """800 warps, of which every eighth has 40 samples between the others' store and the barrier; 280 wait there."""
    code = program(TILE.format(**edge))
    runs = [800.0] * 8 + [100.0] * 3 + [800.0] * 4
    stalls = {name: [0.0] * len(runs) for name in ("barrier", "long_scoreboard", "short_scoreboard", "wait")}
    stalls["long_scoreboard"][6] = 400.0
    stalls[reason][10] = 40.0
    stalls["barrier"][12] = 280.0
    stalls["wait"][13] = 30.0
    sampled = {f"smsp__pcsamp_warps_issue_stalled_{name}": column for name, column in stalls.items()}
    counters = Counters([16 * i for i in range(len(runs))], {"inst_executed": runs, **sampled})
    return Facts(msgspec.structs.replace(made({}, grid=100, block=256), program=code, counters=counters))


@pytest.mark.parametrize(
    ("edge", "reason", "fix"), [(LOADED, "long_scoreboard", EDGE), (COMPUTED, "short_scoreboard", EVEN)]
)
def test_loads_of_an_edge_go_out_with_all_others(edge: dict[str, str], reason: str, fix: str) -> None:
    """One barrier that each warp passes once: no second buffer takes the place of a second one."""
    said = found("LAT304", tile(edge, reason))
    assert said.fix == fix and gain(said) > 1.3
    assert "12 % of the block's warps do the work" in said.why
