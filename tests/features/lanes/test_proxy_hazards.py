"""Which asynchronous access is named where ordinary stores reach several without a fence."""

from __future__ import annotations

from kscope.features.lanes.proxy_hazards import hazards
from kscope.features.sass.listing import Listing
from tests.features.listings import program

PERSISTENT = """
    LDS R3, [UR5+0x34030]
    R2UR UR16, R3
    MOV R7, 0x40000040
    R2UR UR17, R7
    HGMMA.64x256x16.F32.BF16 R24, gdesc[UR16], R24, gsb0
    WARPGROUP.DEPBAR.LE gsb0, 0x0
    STS [R6+0x24000], R24
    {fence}
    BAR.SYNC.DEFER_BLOCKING 0x0
    UTMASTG.3D [UR12], [UR10]
    @P0 BRA 0x0
    EXIT
"""


def reached(text: str) -> list[str]:
    code = Listing(program(text))
    return [code[h.index].opcode for h in hazards(code)]


def test_a_staged_result_is_no_operand_of_the_next_product() -> None:
    """The loop leads back from the staging store to the next tile's products, whose addresses do not follow from the
    code. The missing fence is the one before the TMA store, and named once."""
    assert reached(PERSISTENT.format(fence="NOP")) == ["UTMASTG"]
    assert reached(PERSISTENT.format(fence="FENCE.VIEW.ASYNC.S")) == []


def test_a_store_that_only_products_read_is_their_operand() -> None:
    assert reached(PERSISTENT.format(fence="NOP").replace("UTMASTG.3D [UR12], [UR10]", "NOP")) == ["HGMMA"]
