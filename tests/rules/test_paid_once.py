"""What a thread pays once whatever it has of elements: the joining behind its loop, too, where blocks reduce."""

from __future__ import annotations

import msgspec
import pytest

from kscope.features.facts import Facts
from kscope.model.kernel import Counters
from kscope.rules._shared.paid_once import paid_once
from tests.features.listings import program
from tests.support.edit import made

# for (i = t; i < n; i += threads) most = max(most, x[i]); then a shuffle, the larger of both, and one atomic
LOOP = """
0x0 S2R R0, SR_TID.X
0x10 IMAD.WIDE R2, R0, 0x8, R10
0x20 LDG.E.64 R8, desc[UR4][R2.64]
0x30 DSETP.MAX.AND P2, PT, R8, R4, PT
0x40 FSEL R4, R8, R4, P2
0x50 IADD3 R2, R2, 0x4000, RZ
0x60 ISETP.LT.AND P0, PT, R2, R12, PT
0x70 @P0 BRA 0x20
0x80 SHFL.DOWN PT, R6, R4, 0x10, 0x1f
0x90 FSEL R7, R6, R4, P1
0xa0 IADD3 R14, R7, 0x1, RZ
0xb0 RED.E.MAX.STRONG.GPU desc[UR4][R16.64], R14
0xc0 EXIT
"""


@pytest.mark.parametrize(
    ("loop", "reduces", "behind"),
    [(True, True, {0x90, 0xA0}), (True, False, set()), (False, True, set())],
    ids=["a reduction", "no reduction", "an element a thread"],
)
def test_what_comes_behind_the_loop_of_a_reduction(loop: bool, reduces: bool, behind: set[int]) -> None:
    """Without a loop nobody can tell an element's own work from the joining."""
    text = program(LOOP if loop else LOOP.replace("@P0 BRA 0x20", "NOP"))
    counters = Counters([i.pc for i in text.instructions], {"inst_executed": [32.0] * len(text.instructions)})
    code = Facts(msgspec.structs.replace(made({}), program=text, counters=counters)).code
    assert code is not None
    once = {code[i].pc for i in paid_once(code, {2}, reduces=reduces)}
    assert once & {0x30, 0x40, 0x50, 0x90, 0xA0} == behind
    assert ({0x80, 0xB0} <= once) is reduces
