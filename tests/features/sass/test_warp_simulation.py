"""Unloaded cycles of one warp, against sums done by hand from the latency table."""

from __future__ import annotations

import numpy as np
import pytest

from kscope.features.sass.cfg import build_cfg
from kscope.features.sass.warp_simulation import TAKEN_BRANCH, Walk, unloaded_cycles
from kscope.isa.opcodes import UNKNOWN, OpClass, classify, classify_name
from kscope.model.program import Program
from kscope.parsers.sass.instructions import parse_instruction
from tests.features.listings import CHAIN, NESTED, program


def walk(p: Program, counts: list[float] | None = None, latency: float = 270.0, warps: float = 1.0) -> Walk:
    executions = np.array(counts if counts is not None else [warps] * len(p))
    return unloaded_cycles(p, build_cfg(p), executions, warps, lambda _: latency)


def test_load_to_use_is_the_given_latency() -> None:
    p = program("LDG.E R4, [R2.64]\nFADD R5, R4, R4\nEXIT")
    w = walk(p, latency=500.0)
    assert w.cycles == pytest.approx(502.0)  # the add issues at 500, EXIT at 501
    assert w.wait[1] == pytest.approx(499.0) and w.memory_wait == pytest.approx(499.0)
    assert w.critical[0] == 1


def test_what_is_gone_takes_no_time_and_keeps_nobody_waiting() -> None:
    p = program("LDG.E R4, [R2.64]\nFADD R5, R4, R4\nLDG.E R6, [R8.64]\nFADD R7, R6, R5\nEXIT")
    executions, cfg = [1.0] * len(p), build_cfg(p)
    both = unloaded_cycles(p, cfg, executions, 1.0, lambda _: 500.0)
    one = unloaded_cycles(p, cfg, executions, 1.0, lambda _: 500.0, gone=frozenset({0, 1}))
    none = unloaded_cycles(p, cfg, executions, 1.0, lambda _: 500.0, gone=frozenset({0, 1, 2, 3}))
    assert both.cycles > 1000 and one.cycles == pytest.approx(502.0) and none.cycles == pytest.approx(1.0)
    assert one.wait[1] == 0 and len(one.wait) == len(p)


def test_independent_loads_overlap() -> None:
    chained = walk(program("LDG.E R4, [R2.64]\nLDG.E R6, [R4.64]\nFADD R5, R6, R6\nEXIT"))
    apart = walk(program("LDG.E R4, [R2.64]\nLDG.E R6, [R8.64]\nFADD R5, R6, R4\nEXIT"))
    assert chained.cycles > 540 and apart.cycles < 280


def test_a_chain_costs_its_latency_and_independent_work_does_not() -> None:
    serial = program("\n".join(["FFMA R5, R5, R4, 0.5"] * 16 + ["EXIT"]))
    parallel = program("\n".join([f"FFMA R{5 + k}, R4, R4, 0.5" for k in range(16)] + ["EXIT"]))
    assert walk(serial).cycles == pytest.approx(15 * 4 + 2)
    assert walk(parallel).cycles == pytest.approx(17)
    assert walk(serial).memory_wait == 0


def test_a_loop_counts_as_often_as_it_runs_and_carries_its_state() -> None:
    p = program(CHAIN)
    rounds = 100.0
    once = walk(p).cycles
    w = walk(p, [1.0] + [rounds] * 7 + [1.0])
    # Each round: four dependent multiply-adds; the guard's 13 cycles hide beneath them.
    per_round = w.block_cycles[1]
    assert 4 * 4 - 4 + TAKEN_BRANCH * 0.9 < per_round < 4 * 4 + 4 + TAKEN_BRANCH
    assert w.cycles == pytest.approx(rounds * per_round, rel=0.02)
    assert w.cycles > 50 * once


def test_load_at_the_end_of_a_round_is_waited_for_in_the_next() -> None:
    text = "MOV R9, R8\nFADD R9, R9, R4\nIADD3 R3, R3, -0x1, RZ\nLDG.E R4, [R2.64]\n@P1 BRA 0x10\nEXIT"
    w = walk(program(text), [1.0, 50.0, 50.0, 50.0, 50.0, 1.0])
    assert w.wait[1] > 0.9 * 49 * 255
    assert w.memory_wait == pytest.approx(w.wait[1], rel=1e-3)


def test_warps_scale_out() -> None:
    p = program(NESTED)
    one, many = walk(p, warps=1.0), walk(p, warps=640.0)
    assert one.cycles == pytest.approx(many.cycles)


def test_copies_are_waited_for_at_the_group() -> None:
    def text(left: int) -> str:
        copy = "LDGSTS.E.128 [R7], desc[UR6][R2.64]\nLDGDEPBAR\n"
        return f"{copy}{copy}DEPBAR.LE SB0, {left:#x}\nEXIT"

    assert walk(program(text(0))).memory_wait > walk(program(text(1))).memory_wait > 200


def test_code_that_never_ran_costs_nothing() -> None:
    w = walk(program("@P0 BRA 0x20\nLDG.E R4, [R2.64]\nEXIT"), [1.0, 0.0, 1.0])
    assert w.block_cycles[1] == 0 and w.wait[1] == 0
    assert walk(program("")).cycles == 0


@pytest.mark.parametrize(
    ("text", "pipe", "scoreboard", "size", "access"),
    [
        ("LDG.E.128.CONSTANT R4, [R2.64]", "lsu", "long", 16, "load"),
        ("LDG.E.U8 R4, [R2.64]", "lsu", "long", 1, "load"),
        ("LDSM.16.M88.4 R4, [R2]", "lsu", "short", 16, "matrix_load"),
        ("LDGSTS.E.BYPASS.128 [R7], desc[UR6][R2.64]", "lsu", "long", 16, "async_copy"),
        ("STG.E.64 [R2.64], R4", "lsu", None, 8, "store"),
        ("REDG.E.ADD.STRONG.GPU [R2.64], R4", "lsu", None, 4, "reduction"),
        ("MUFU.RCP R4, R5", "xu", "short", 0, None),
        ("IMAD.MOV.U32 R4, RZ, RZ, 0xf", "fmaheavy", None, 0, None),
        ("UTMALDG.2D [UR8], [UR12]", "tma", None, 0, "async_copy"),
    ],
)
def test_classes(text: str, pipe: str, scoreboard: str | None, size: int, access: str | None) -> None:
    op = classify(parse_instruction(text, 0, 0))
    assert (op.pipe, op.scoreboard, op.bytes, op.access) == (pipe, scoreboard, size, access)


def test_moves_are_told_from_arithmetic() -> None:
    kinds = {n: classify_name(n).kind for n in ("IMAD.MOV.U32", "IMAD.IADD.U32", "IMAD", "IMAD.WIDE.U32")}
    assert "move" in kinds["IMAD.MOV.U32"] and "int" not in kinds["IMAD.MOV.U32"]
    assert all("int" in kinds[n] for n in ("IMAD.IADD.U32", "IMAD", "IMAD.WIDE.U32"))


def test_rates_follow_the_chip() -> None:
    def issue(name: str, sm: int) -> float:
        return classify_name(name, sm).issue

    assert (issue("FFMA", 80), issue("FFMA", 90)) == (2, 1)
    assert (issue("DFMA", 80), issue("DFMA", 89), issue("DFMA", 90)) == (4, 64, 2)
    assert issue("HMMA.16816.F32", 80) == 8
    assert issue("HGMMA.64x256x16.F32", 90) == 128  # 64*256*16 products over 4 x 512 a clock
    assert issue("QGMMA.64x256x32.F32.E4M3.E4M3", 90) == 128


def test_unknown_opcode_is_said_to_be_unknown() -> None:
    op: OpClass = classify_name("FROB.X")
    assert op is UNKNOWN and not op.known
