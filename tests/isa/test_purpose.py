"""What opcodes mean, as compiled by CUDA 13.0 from the PTX instruction named."""

from __future__ import annotations

import pytest

from kscope.isa.opcodes import classify
from kscope.isa.purpose import ROLES, constant_of, role_of, words
from kscope.parsers.sass.instructions import parse_instruction

MEANINGS = [
    ("SYNCS.EXCH.64 URZ, [UR7], UR4", "mbarrier", "mbarrier.init"),
    ("SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR7], RZ", "mbarrier", "mbarrier.arrive"),
    ("SYNCS.ARRIVE.TRANS64.ART0 RZ, [UR7], R4", "mbarrier", "mbarrier.arrive"),
    ("SYNCS.ARRIVE.TRANS64 RZ, [UR7], R4", "mbarrier", "mbarrier.arrive.expect_tx"),
    ("SYNCS.ARRIVE.TRANS64.RED.A0TR RZ, [UR7], R4", "mbarrier", "mbarrier.expect_tx"),
    ("SYNCS.ARRIVE.TRANS64.RED.A0TX RZ, [UR7], R4", "mbarrier", "mbarrier.complete_tx"),
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R8+URZ], R7", "mbarrier", "mbarrier.try_wait"),
    ("SYNCS.PHASECHK.TRANS64 PT, [UR7], R0", "mbarrier", "mbarrier.test_wait"),
    ("SYNCS.CCTL.IV [UR7]", "mbarrier", "mbarrier.inval"),
    ("UBLKCP.S.G [UR16], [UR14], UR4", "TMA", "bulk copy, global to shared, completes on an mbarrier"),
    ("UBLKCP.G.S [UR14], [UR7], UR4", "TMA", "bulk copy, shared to global, completes with its bulk group"),
    ("UBLKRED.G.S.ADD [UR14], [UR7], UR4", "TMA", "bulk reduction, shared to global, completes with its bulk group"),
    ("UTMALDG.3D.MULTICAST [UR8], [UR14], UR4", "TMA", "TMA load of a 3D tile, multicast, completes on an mbarrier"),
    ("UTMALDG.4D.IM2COL [UR8], [UR14], UR4", "TMA", "TMA load of a 4D im2col tile, completes on an mbarrier"),
    ("UTMASTG.2D [UR8], [UR14]", "TMA", "TMA store of a 2D tile, completes with its bulk group"),
    ("UTMAREDG.2D.ADD [UR8], [UR14]", "TMA", "TMA reduction (add) of a 2D tile: shared into global"),
    ("UTMACMDFLUSH", "TMA", "cp.async.bulk.commit_group"),
    ("FENCE.VIEW.ASYNC.S", "fence", "fence.proxy.async.shared: orders ordinary and async accesses"),
    ("MEMBAR.SC.GPU", "fence", "memory seq-cst fence, GPU"),
    ("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier", "__syncthreads"),
    ("BAR.SYNC.DEFER_BLOCKING 0x3, 0x80", "barrier", "named barrier 3 sync, 128 threads"),
    ("BAR.ARV 0x3, 0x80", "barrier", "named barrier 3 arrive, 128 threads"),
    ("HMMA.16816.F32 R36, R4, R2, R36", "tensor", "m16n8k16, F16 to F32, 2,048 FMA"),
    ("HMMA.16816.F32.BF16 R36, R4, R2, R36", "tensor", "m16n8k16, BF16 to F32, 2,048 FMA"),
    ("IMMA.16832.S8.S8 R4, R4.ROW, R2.COL, R4", "tensor", "m16n8k32, S8 to S32, 4,096 FMA"),
    ("HGMMA.64x128x16.F32 R24, gdesc[UR12], R24", "tensor", "wgmma m64n128k16, F16 to F32, 131,072 FMA"),
    ("WARPGROUP.DEPBAR.LE gsb0, 0x0", "tensor wait", "wgmma.wait_group"),
    ("UTCHMMA gdesc[UR10], gdesc[UR12], tmem[UR5], tmem[UR8], idesc[UR9], UP0", "tensor",
     "tcgen05.mma kind::f16 or tf32: result in tensor memory, shape in idesc"),
    ("UTCATOMSWS.FIND_AND_SET.ALIGN UP0, UR4, UR4", "tensor memory", "tcgen05.alloc"),
    ("LDTM.x8 R4, tmem[UR5]", "tensor memory", "tcgen05.ld: 8 columns of tensor memory"),
    ("S2R R0, SR_CTAID.X", "move", "blockIdx.x"),
    ("LDSM.16.MT88.4 R20, [R90]", "load", "4 8x8 matrices, transposed"),
    ("USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xf0", "control", "setmaxnreg.inc: asks for 240 registers"),
    ("USETMAXREG.DEALLOC.CTAPOOL 0x18", "control", "setmaxnreg.dec: keeps 24 registers"),
    ("F2F.F64.F32 R2, R3", "conversion", "float to double"),
    ("@!PT LDS RZ, [RZ]", "load", "never runs (@!PT)"),
    ("LDG.E R1, desc[UR4][R2.64]", "load", ""),
    ("FROBNICATE R1, R2", "unknown", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "role", "meaning"), MEANINGS, ids=[text for text, _, _ in MEANINGS])
def test_meaning(text: str, role: str, meaning: str) -> None:
    ins = parse_instruction(text, 0, 0)
    op = classify(ins)
    assert (role_of(op), words(ins, op)) == (role, meaning)
    assert role_of(op) in ROLES


def test_constants_that_come_through_the_half_pipe() -> None:
    """`mov.b32 r, 0x3f800000` compiles to HFMA2 R, -RZ, RZ, 1.875, 0; sizeof(float) to a subnormal half."""
    cases = {"1.875, 0": 0x3F800000, "0, 2.384185791015625e-07": 4, "0, 0": 0, "-1.875, 0": 0xBF800000}
    for operands, value in cases.items():
        ins = parse_instruction(f"HFMA2.MMA R5, -RZ, RZ, {operands}", 0, 0)
        assert constant_of(ins) == value
    one = parse_instruction("HFMA2.MMA R5, -RZ, RZ, 1.875, 0", 0, 0)
    assert words(one, classify(one)) == "constant 0x3f800000 = 1.0f" or words(one, classify(one)).endswith("= 1f")
    assert constant_of(parse_instruction("HFMA2 R3, R16.H0_H0, R12, R4", 0, 0)) is None
