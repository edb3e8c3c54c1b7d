"""Integers of a listing that would size memory or work: impossible ones are no registers, no shifts and no shapes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kscope.model.program import PREDICATE_BASE, UNIFORM_BASE
from kscope.parsers.sass.instructions import decode
from kscope.parsers.sass.operands import operand
from tests.cli.running import environment
from tests.support.thorough import some

NINES, EFFS = "9" * 12, "f" * 16
LEAD = ("LDC R1, c[0x0][0x28]", "S2R R0, SR_TID.X")
USE = ("LDS R3, [R2]", "STG.E desc[UR4][R4.64], R3", "EXIT")
BOMBS: dict[str, tuple[str, ...]] = {
    "register": (f"IADD3 R{NINES}, R0, 0x1, RZ",),
    "uniform register": (f"UIADD3 UR{NINES}, UR4, 0x1, URZ", f"IADD3 R2, R0, UR{NINES}, RZ"),
    "predicate": (f"ISETP.GE.AND P{NINES}, PT, R0, 0x1, PT", f"@P{NINES} IADD3 R2, R0, 0x1, RZ"),
    "address": (f"LDS R2, [R{NINES}+UR{NINES}+0x10]", f"LDG.E R5, desc[UR{NINES}][R{NINES}.64+0x8]"),
    "scale": (f"LDS R2, [R0.X{NINES}{NINES}+0x10]",),
    "digits": (f"IADD3 R2, R0, {NINES * 500}, RZ", f"IADD3 R{NINES * 500}, R0, 0x1, RZ",
               f"LEA R2, R0, UR4, {NINES * 500}"),
    "hexadecimal digits": (f"IADD3 R2, R0, 0x{EFFS * 9999}, RZ", "IMAD R2, R2, R2, RZ"),
    "shift": ("LEA R2, R0, UR4, 0x7fffffff",),
    "shift of two words": ("LEA.HI R2, R0, UR4, R5, 0x7fffffff",),
    "shift backwards": ("LEA R2, R0, UR4, -0x3", "SHF.L.U32 R2, R2, -0x3, RZ"),
    "shift by a register": ("LEA R2, R0, UR4, R7",),
    "uniform shift": ("ULEA UR6, UR4, UR5, 0x7fffffff", "SYNCS.ARRIVE.TRANS64 RZ, [UR6+0x8], R0", "LDS R2, [UR6]"),
    "funnel shift": ("SHF.L.U32 R2, R0, 0x7fffffff, RZ", "SHF.R.U32.HI R2, RZ, 0x7fffffff, R2"),
    "tile": (f"HGMMA.64x{NINES}x16.F32 R24, gdesc[UR4], R24, gsb0", f"HMMA.{NINES}x8x16.F32 R4, R8, R10, R4"),
    "digits of a tile": ("HMMA.169999.F32 R4, R8, R10, R4",),
    "tensor memory": (f"LDTM.x{NINES} R4, tmem[UR4]",),
    "squares": ("UMOV UR6, 0xffffffff", *["UIMAD UR6, UR6, UR6, URZ"] * 59, "SYNCS.ARRIVE.TRANS64 RZ, [UR6+0x8], R0"),
    "scoreboard": (f"DEPBAR.LE SB{NINES}, 0x0", f"DEPBAR.LE SB0, 0x{EFFS}", "DEPBAR.LE SBx, 0x0"),
    "target": (f"BRA 0x{EFFS}", f"BSSY B0, 0x{EFFS}", f"BRX R4 -0x{EFFS}"),
    "mask": (f"R2P PR, R0, 0x{EFFS}", f"P2R R2, PR, RZ, 0x{EFFS * 300}"),
    "signs": (f"IADD3 R2, {'-' * 100_000}R0, 0x1, RZ",),
}


def listing(*lines: str, source: str = "") -> str:
    head = f'\t.target\tsm_90a\n\t.section\t.text.k,"ax",@progbits\n{source}'
    return head + "".join(f"        /*{16 * i:04x}*/                   {line} ;\n" for i, line in enumerate(lines))


def bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))


def shown(path: Path) -> list[str]:
    """The instructions of a listing, read within 2 GB and 20 s."""
    done = subprocess.run(
        [sys.executable, "-m", "kscope", "sass", str(path), "--annotate", "--format", "json"], capture_output=True,
        text=True, env=environment(None), timeout=120, preexec_fn=bounded, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-500:]
    (program,) = json.loads(done.stdout)["programs"]
    return [str(function["name"]) for function in program["functions"]]


@pytest.mark.parametrize("what", some([*BOMBS], 8))
def test_a_listing_within_bounds(what: str, tmp_path: Path) -> None:
    path = tmp_path / "k.sass"
    path.write_text(listing(*LEAD, *BOMBS[what], *USE))
    assert shown(path) == ["k"]


def test_lines_of_sources(tmp_path: Path) -> None:
    """Of more digits than a file has lines, or Python reads."""
    path = tmp_path / "k.sass"
    path.write_text(listing(*LEAD, *USE, source=f'\t//## File "/corpus/k.cu", line {NINES * 500}\n'))
    assert shown(path) == ["k"]


@pytest.mark.parametrize("text", ["R256", f"R{NINES}", "R0000000001", "UR256", "P8", "UP9", "-R999", "|R300|"])
def test_no_such_register(text: str) -> None:
    *_, defs, uses, shown = decode(f"IADD3 {text.lstrip('-|').rstrip('|')}, R3, {text}, RZ")
    assert (defs, uses) == ((), (3,)) and text in shown, "the text stays as it was"


def test_the_last_registers() -> None:
    """What machines have is read as before, and names that look like registers are names."""
    *_, defs, uses, _ = decode("IADD3 R254, P6, R253, UR62, RZ")
    assert (defs, uses) == ((254, PREDICATE_BASE + 6), (253, UNIFORM_BASE + 62))
    assert [o.text for o in decode("CALL.REL.NOINC `(P100_kernel)")[4]] == ["`(P100_kernel)"]
    assert [o.text for o in decode("CALL.REL.NOINC R1000_start")[4]] == ["R1000_start"]
    assert decode("FADD R0, R1, 4.9406564584124654418e-324")[4][2].text == "4.9406564584124654418e-324"
    assert decode("IADD3 R0, R1, 0xffffffffffffffff, RZ")[4][2].text == "0xffffffffffffffff"


def test_shifts() -> None:
    assert [operand(t).shift for t in ("0x0", "0x1f", "3", "0x20", "-0x1", "0x7fffffff", "R3", "", "?")] == [
        0, 31, 3, None, None, None, None, None, None,
    ]  # fmt: skip
    assert operand("-R3").negated and operand("-0x3").value == -3 and operand("-" * 100_000 + "R0").register == 0
