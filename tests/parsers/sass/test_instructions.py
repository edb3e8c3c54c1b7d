"""Operands and registers of SASS text, checked against what the hardware reads and writes."""

from __future__ import annotations

import pytest

from kscope.model.program import register_name
from kscope.parsers.sass.instructions import parse_instruction, parse_program


def names(numbers: tuple[int, ...]) -> str:
    return " ".join(register_name(n) for n in numbers)


CASES = [
    # text, defs, uses
    ("FFMA R4, R4.reuse, c[0x0][0x160], -R7", "R4", "R4 R7"),
    ("LDC R1, c[0x0][0x28]", "R1", ""),
    ("LDC R3, c[0x3][R4+0x10]", "R3", "R4"),
    ("LDC.64 R2, cx[UR4][R6]", "R2 R3", "UR4 UR5 R6"),
    ("LDCU.128 UR4, c[0x0][0x380]", "UR4 UR5 UR6 UR7", ""),
    ("HADD2 R4, |R4|.H0_H0, -R5.H1_H1", "R4", "R4 R5"),
    ("LOP3.LUT R0, R0, ~R4, RZ, 0xc0, !PT", "R0", "R0 R4"),
    # predicates as destinations
    ("ISETP.GE.AND P0, PT, R5, 0x1, PT", "P0", "R5"),
    ("DSETP.MAX.AND P0, P1, R10, R12, PT", "P0 P1", "R10 R11 R12 R13"),
    ("ISETP.GE.U64.AND P0, PT, R18, R8, PT", "P0", "R18 R19 R8 R9"),
    ("PLOP3.LUT P2, PT, P0, P1, PT, 0x80, 0x8", "P2", "P0 P1"),
    ("IADD3 R4, P0, P2, R2, R3, RZ", "R4 P0 P2", "R2 R3"),
    ("IADD3.X R15, PT, PT, RZ, RZ, R15, P2, P1", "R15", "R15 P2 P1"),
    ("LEA R2, P0, R4, c[0x0][0x160], 0x2", "R2 P0", "R4"),
    ("LEA.HI.X R3, R4, c[0x0][0x164], R5, 0x2, P0", "R3", "R4 R5 P0"),
    ("LOP3.LUT P0, RZ, R4, 0xff, RZ, 0xc0, !PT", "P0", "R4"),
    ("SEL R3, R6, RZ, P2", "R3", "R6 P2"),
    ("VOTE.ANY R18, PT, P3", "R18", "P3"),
    ("VOTEU.ANY UP0, P0", "UP0", "P0"),
    ("SHFL.UP P0, R19, R16, 0x1, RZ", "P0 R19", "R16"),
    ("R2P PR, R0, 0x3", "P0 P1", "R0"),
    ("P2R R3, PR, RZ, 0x1", "R3", "P0"),
    # memory
    ("LDG.E.128.CONSTANT R8, desc[UR10][R24.64+0x10]", "R8 R9 R10 R11", "UR10 UR11 R24 R25"),
    ("LDG.E.ENL2.256 R8, R4, desc[UR6][R2.64]", "R8 R9 R10 R11 R4 R5 R6 R7", "UR6 UR7 R2 R3"),
    ("LDG.E.SYS R4, [R2]", "R4", "R2 R3"),
    ("LDS.128 R4, [R9.X16+UR5+0x8]", "R4 R5 R6 R7", "R9 UR5"),
    ("LDSM.16.M88.4 R8, [R7+UR4]", "R8 R9 R10 R11", "R7 UR4"),
    ("LDGSTS.E.BYPASS.128 [R7], desc[UR6][R2.64], P1", "", "R7 UR6 UR7 R2 R3 P1"),
    ("STG.E.128 desc[UR6][R4.64], R8", "", "UR6 UR7 R4 R5 R8 R9 R10 R11"),
    ("STG.E.ENL2.256 desc[UR6][R2.64], R4, R8", "", "UR6 UR7 R2 R3 R4 R5 R6 R7 R8 R9 R10 R11"),
    ("STS.U8 [UR4+0x1c], R14", "", "UR4 R14"),
    ("STSM.16.M88.4 [R0], R4", "", "R0 R4 R5 R6 R7"),
    ("ATOMG.E.CAS.STRONG.GPU PT, R15, [R8+0x104], R14, R15", "R15", "R8 R9 R14 R15"),
    ("ATOMG.E.EXCH.64.STRONG.GPU PT, R18, desc[UR10][R12.64], R16", "R18 R19", "UR10 UR11 R12 R13 R16 R17"),
    ("ATOMS.ADD R17, [R15], R14", "R17", "R15 R14"),
    ("REDG.E.ADD.STRONG.GPU desc[UR6][R2.64], R7", "", "UR6 UR7 R2 R3 R7"),
    ("TEX.SCR.LL RZ, R4, R4, R9, 0x0, 0x58, 3D, 0x9", "R4 R5", "R4 R5 R6 R9"),
    # 64-bit values
    ("IMAD.WIDE.U32 R4, P0, R2, R3, R6", "R4 R5 P0", "R2 R3 R6 R7"),
    ("IMAD.HI.U32 R11, R12, R9, R10", "R11", "R12 R9 R10 R11"),
    ("DFMA R10, R6, -UR4, R2", "R10 R11", "R6 R7 UR4 UR5 R2 R3"),
    ("F2F.F64.F32 R4, R9", "R4 R5", "R9"),
    ("F2F.F32.F64 R4, R8", "R4", "R8 R9"),
    ("F2I.S64.F64.TRUNC R16, R18", "R16 R17", "R18 R19"),
    ("I2F.U64.RP R13, R10", "R13", "R10 R11"),
    ("MUFU.RCP64H R3, R11", "R3", "R11"),
    ("MOV.64 R4, R8", "R4 R5", "R8 R9"),
    ("CS2R R8, SRZ", "R8 R9", ""),
    ("FFMA2 R12, R4.F32x2.HI_LO, R8.F32x2.HI_LO, R6.F32x2.HI_LO", "R12 R13", "R4 R5 R8 R9 R6 R7"),
    # matrices
    ("HMMA.16816.F32.BF16 R12, R8, R2, R16", "R12 R13 R14 R15", "R8 R9 R10 R11 R2 R3 R16 R17 R18 R19"),
    ("HMMA.16816.F16 R24, R8, R2, RZ", "R24 R25", "R8 R9 R10 R11 R2 R3"),
    ("HMMA.1688.F32.TF32 R4, R8, R2, RZ", "R4 R5 R6 R7", "R8 R9 R10 R11 R2 R3"),
    ("IMMA.8816.S8.S8 R20, R12.ROW, R13.COL, R20", "R20 R21", "R12 R13 R20 R21"),
    ("DMMA.884 R4, R24, R2, R4", "R4 R5 R6 R7", "R24 R25 R2 R3 R4 R5 R6 R7"),
    ("HGMMA.64x8x16.F32 R24, gdesc[UR8], R24, gsb0", "R24 R25 R26 R27", "UR8 UR9 UR10 UR11 R24 R25 R26 R27"),
    ("HGMMA.64x8x16.F16 R40, gdesc[UR8], RZ, !UPT, gsb0", "R40 R41", "UR8 UR9 UR10 UR11"),
    ("LDTM.x4 R4, tmem[UR8]", "R4 R5 R6 R7", "UR8"),
    ("UTCHMMA gdesc[UR10], gdesc[UR12], tmem[UR8], tmem[UR6], idesc[UR7], UPT", "",
     "UR10 UR11 UR12 UR13 UR8 UR6 UR7"),
    ("UTMALDG.2D [UR8], [UR12]", "", "UR8 UR9 UR10 UR11 UR12 UR13"),
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9], R0", "P0", "UR9 R0"),
    ("SYNCS.EXCH.64 URZ, [UR6], UR4", "", "UR6 UR4 UR5"),
    # control and barriers
    ("BSYNC B0", "", ""),
    ("BRX R4 -0x220", "", "R4 R5"),
    ("BAR.SYNC.DEFER_BLOCKING 0x0", "", ""),
    ("@!PT LDS RZ, [RZ]", "", ""),
    # not known: the first register is the destination
    ("NEWOP.X R3, R4, R5", "R3", "R4 R5"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "defs", "uses"), CASES)
def test_registers(text: str, defs: str, uses: str) -> None:
    ins = parse_instruction(text, 0, 0)
    assert (names(ins.defs), names(ins.uses)) == (defs, uses)


def test_accumulator_range_of_a_wide_wgmma() -> None:
    ins = parse_instruction("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24, gsb0", 0, 0)
    assert ins.defs == tuple(range(24, 152))


def test_guard_is_a_use_and_keeps_its_sense() -> None:
    ins = parse_instruction("@!P0 LDG.E.128.CONSTANT R4, desc[UR6][R2.64+0x10]", 3, 0x30, "k.cu", 17)
    assert (ins.opcode, ins.mods, ins.name) == ("LDG", ("E", "128", "CONSTANT"), "LDG.E.128.CONSTANT")
    assert ins.guard is not None and register_name(ins.guard) == "P0" and ins.guard_negated
    assert ins.guard in ins.uses
    assert tuple(map(str, ins.operands)) == ("R4", "desc[UR6][R2.64+0x10]")
    assert (ins.index, ins.pc, ins.file, ins.line) == (3, 0x30, "k.cu", 17)


@pytest.mark.parametrize("tail", [" ;", "  &req={1} &wr=0x2 ?trans7", " ?WAIT5_END_GROUP ;", ' (*"NOTE .L"*);'])
def test_annotations_are_stripped(tail: str) -> None:
    assert parse_instruction("      IADD3 R3, R3, -0x10, RZ" + tail, 0, 0).text == "IADD3 R3, R3, -0x10, RZ"


def test_json_operands_without_spaces_read_alike() -> None:
    a, b = (parse_instruction(t, 0, 0) for t in ("IMAD.WIDE R4,R13,0x10,R2", "IMAD.WIDE R4, R13, 0x10, R2"))
    assert (a.operands, a.defs, a.uses) == (b.operands, b.defs, b.uses)


@pytest.mark.parametrize("text", ["", ";", "@P0", "???", "FOO ,,", "LDG [", "TEX", "P2R", "R2P PR", "HMMA.99 R1"])
def test_odd_text_never_raises(text: str) -> None:
    assert parse_instruction(text, 0, 0).pc == 0


def test_absolute_targets_become_offsets() -> None:
    rows = [
        (0x0, "@P0 BRA 0x7fe6fb7a0e50", None, None),
        (0x10, "LOP3.LUT R0, R0, 0x7ffffff, RZ, 0xc0, !PT", None, None),
    ]
    first, second = parse_program("k", 90, rows, entry=0x7FE6FB7A0C00).instructions
    assert [o.value for o in first.operands] == [0x250]
    assert second.operands[2].equals(0x7FFFFFF)


def test_labels_become_offsets_and_switch_targets_are_kept() -> None:
    rows = [(0, "BRA `(.L_x_3) ;", None, None), (16, 'BRX R4 -0x20 (*"BRANCH_TARGETS .L_x_3,.L_x_4"*);', None, None)]
    jump, switch = parse_program("k", 90, rows, labels={".L_x_3": 0x40, ".L_x_4": 0x80}).instructions
    assert [o.value for o in jump.operands] == [0x40]
    assert [o.text for o in switch.operands] == ["R4", "-0x20", "0x40", "0x80"]
