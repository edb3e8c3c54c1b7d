"""Faults of SASS listings: operands, opcodes, branch targets, encodings and lines that contradict each other."""

from __future__ import annotations

import re
from random import Random

from tools.fuzz.mutators import raw

_CODE = re.compile(r"(\s*/\*)([0-9a-f]{4,8})(\*/\s+)(@!?U?P[0-9T]\s+)?([A-Z][\w.]*)([^;]*);(.*)")
_REGISTER = re.compile(r"\bU?R(?:\d+|Z)\b|\bU?P(?:\d|T)\b")
_NUMBER = re.compile(r"-?0x[0-9a-f]+\b|(?<=[ ,\[+])\d+\b")
_REGISTERS = (
    "R0", "R1", "R254", "R255", "R256", "R999999999999", "RZ", "UR0", "UR63", "UR64", "URZ", "P0", "P6", "P7", "PT",
    "UP0", "UPT", "SR_TID.X", "SB0", "c[0x0][0x160]", "c[0x3][R4+0x10]", "desc[UR4][R2.64]", "[R2.64+0x10]", "-R4",
    "|R5|", "~R6", "R7.reuse", "!P0", "B0", "gdesc[UR4]", "tmem[UR5]", "",
)  # fmt: skip
_NUMBERS = (
    "0x0", "0x1", "0x1f", "0x20", "0x40", "0x7fffffff", "0x80000000", "0xffffffff", "0x7fffffffffffffff",
    "0xffffffffffffffffff", "-0x1", "-0x80000000", "1e38", "+INF", "-QNAN", "4294967296", "9" * 40, "0x" + "f" * 60,
)  # fmt: skip
_OPCODES = """ALD AST ATOM.E.ADD ATOMG.E.CAS ATOMS.POPC.INC BAR.SYNC.DEFER_BLOCKING BMSK BRA BRX BRXU BREAK BSSY BSYNC
CALL.REL.NOINC CCTL.IVALL CREDUX DADD DEPBAR.LE DFMA DMMA.8x8x4 ELECT ENDCOLLECTIVE ERRBAR EXIT F2F.F64.F32
F2FP.BF16 F2I.TRUNC.NTZ FADD FENCE.VIEW.ASYNC FFMA FMNMX FSEL FSETP.GEU.AND HADD2 HFMA2.MMA HMMA.16816.F32
HMMA.999999999.F32 HSET2 I2F.S64 I2FP IADD3 IADD3.X IDP.4A.S8.S8 IMAD.WIDE.U32 IMMA.16832.S8.S8 ISETP.GE.U32.AND JMP
KILL LDC.64 LDCU.128 LDG.E.128.CONSTANT LDGSTS.E.BYPASS.128 LDGDEPBAR LDL.LU LDS.U.128 LDSM.16.MT88.4 LDTM.x64
LEA.HI.X.SX32 LOP3.LUT MATCH.ANY MEMBAR.SC.GPU MOV MUFU.RCP NANOSLEEP NOP OMMA.SF PLOP3.LUT PRMT QGMMA.64x256x32.F32
R2P R2UR RED.E.ADD REDUX.SUM RET.REL.NODEC S2R SEL SHF.L.U64.HI SHFL.BFLY SHL STG.E.64 STL.128 STS.128 STSM.16.M88.4
SULD SYNCS.ARRIVE.TRANS64 SYNCS.PHASECHK.TRANS64.TRYWAIT TEX UBLKCP.S.G UIADD3 ULDC ULEA UMOV UTCHMMA
UTMALDG.4D.2CTA UTMASTG.2D VIADDMNMX VOTE.ALL VOTEU.ANY WARPGROUP.ARRIVE WARPGROUP.DEPBAR.LE WARPSYNC.ALL
HGMMA.64x128x16.F32 HGMMA.64x99999999x16.F32 XXX.YYY""".split()
_LINES = (
    '\t//## File "/a/b.cu", line 12', '\t//## File "b.cu", line 999999999 inlined at "c.cu", line 3',
    '\t//## File "\x1b[31m", line 1', ".L_x_1:", ".L_x_99:", "_Zfoo:", "\t.target\tsm_999",
    "\t.target\tsm_100a", "\t.target\tsm_50",
    '\t.section\t.text.again,"ax",@progbits', '\t.section\t.nv.info,"",@"SHT_CUDA_INFO"', "\t\tFunction : f", "\x00",
    "        /*0000*/                   EXIT ;", "        /*fffffff0*/                   BRA 0x0 ;",
    '        /*0010*/                   BRX R4 -0x10 (*"BRANCH_TARGETS .L_x_1,.L_x_2"*) ;',
    "                                                  /* 0xffffffffffffffff */",
)  # fmt: skip


def mutate(rng: Random, data: bytes) -> bytes:
    lines = data.decode("utf-8", "replace").split("\n")
    for _ in range(raw.often(rng) * rng.choice((1, 1, 2, 6))):
        _fault(rng, lines)
    out = "\n".join(lines).encode("utf-8", "surrogatepass")
    return raw.mutate(rng, out) if rng.random() < 0.08 else out


def _fault(rng: Random, lines: list[str]) -> None:
    code = [i for i, line in enumerate(lines) if _CODE.match(line)]
    if not code or rng.random() < 0.1:
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(_LINES))
        return
    at = rng.choice(code)
    match rng.randrange(10):
        case 0:
            del lines[at : at + rng.choice((1, 1, 2, 20))]
        case 1:
            lines[at:at] = lines[at : at + rng.choice((1, 2, 16))] * rng.choice((1, 1, 8))
        case 2:
            other = rng.choice(code)
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            start = rng.choice(code)
            lines[at:at] = lines[start : start + rng.randrange(1, 30)]
        case _:
            lines[at] = _instruction(rng, lines[at], lines[rng.choice(code)])


def _instruction(rng: Random, line: str, other: str) -> str:
    found, foreign = _CODE.match(line), _CODE.match(other)
    assert found and foreign
    begin, pc, gap, predicate, opcode, operands, end = found.groups()
    match rng.randrange(9):
        case 0 | 1:
            operands = _one(rng, _REGISTER, operands, _REGISTERS)
        case 2 | 3:
            operands = _one(rng, _NUMBER, operands, _NUMBERS)
        case 4:
            opcode = rng.choice(_OPCODES)
        case 5:
            opcode, operands = rng.choice(((foreign[5], operands), (opcode, foreign[6]), (opcode + ".64", operands)))
            opcode = opcode.rpartition(".")[0] or opcode if rng.random() < 0.3 else opcode
        case 6:
            predicate = rng.choice(("@P0 ", "@!P1 ", "@PT ", "@!PT ", "@UP0 ", ""))
        case 7:
            opcode, operands = "BRA", f" {rng.choice((pc_of(pc), pc_of(foreign[2]), '`(.L_x_1)', '0x7ffffff0'))} "
        case _:
            parts = operands.split(",")
            rng.shuffle(parts)
            operands = ",".join(parts[: rng.randrange(len(parts) + 1)] + parts[: rng.choice((0, 0, 1))])
            pc = rng.choice((pc, pc, foreign[2], "0000", "ffffffff"))
    return f"{begin}{pc}{gap}{predicate or ''}{opcode}{operands};{end}"


def pc_of(text: str) -> str:
    return hex(int(text, 16))


def _one(rng: Random, what: re.Pattern[str], text: str, values: tuple[str, ...]) -> str:
    places = list(what.finditer(text))
    if not places:
        return f"{text}, {rng.choice(values)}"
    found = rng.choice(places)
    return text[: found.start()] + rng.choice(values) + text[found.end() :]
