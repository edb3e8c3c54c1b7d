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


OPERAND = """
    S2R R2, SR_TID.X
    SHF.L.U32 R6, R2, 0x4, RZ
    {store}
    {fence}
    BAR.SYNC.DEFER_BLOCKING 0x0
    UMOV UR16, 0x40
    UMOV UR17, 0x40000040
    HGMMA.64x64x16.F32.BF16 R24, gdesc[UR16], R24, gsb0
    EXIT
"""


def of_a_block(store: str, fence: str = "NOP") -> list[str]:
    code = Listing(program(OPERAND.format(store=store, fence=fence)))
    return [code[h.index].opcode for h in hazards(code, (128, 1, 1))]


def test_a_store_to_where_the_descriptor_begins_is_the_products_operand() -> None:
    assert of_a_block("STS.128 [R6+0x400], R8") == ["HGMMA"]
    assert of_a_block("STS.128 [R6+0x400], R8", "FENCE.VIEW.ASYNC.S") == []
    assert of_a_block("STS.128 [R6+0x8000], R8") == [], "another buffer"


def test_what_is_not_known_to_be_an_operand_accuses_nobody() -> None:
    """A staging store whose addresses are unknown, a tile's number that one thread stores, copies by cp.async: found in
    kernels of cuBLAS, cuDNN and Triton, none of them a race."""
    assert reached(PERSISTENT.format(fence="NOP").replace("UTMASTG.3D [UR12], [UR10]", "NOP")) == []
    assert of_a_block("STS [RZ+0x410], R8") == []
    assert of_a_block("LDGSTS.E.BYPASS.128 [R6+0x400], desc[UR4][R10.64]") == []
