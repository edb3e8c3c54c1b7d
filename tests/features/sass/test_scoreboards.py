"""Whom a scoreboard wait is for, on real machine code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kscope.features.sass.cfg import build_cfg
from kscope.features.sass.defuse import DefUse
from kscope.features.sass.scoreboards import waits
from kscope.isa.opcodes import classify
from kscope.model.kernel import Kernel
from kscope.model.program import Program
from kscope.parsers.ncu.embedded_code import with_image
from tests.features.listings import NESTED, program
from tests.support import reports, sass
from tests.support.thorough import some

Report = Callable[[str], Path]
KernelOf = Callable[[str], Kernel]
SINGLE = reports.chosen_cases()


def scheduled(case: str, kernel: KernelOf, report: Report) -> Program:
    found = kernel(case).program
    assert found is not None
    return with_image(found, str(report(case)))


@pytest.mark.parametrize("case", [c for c in SINGLE if c != "texels.fetched"])  # fetches of one component: not yet read
def test_nothing_is_read_before_its_scoreboard_is_waited_for(case: str, kernel: KernelOf, report: Report) -> None:
    """The compiler's own schedule is right, so a reading of it that leaves a late register unguarded is wrong: between
    a load and the instruction that uses it, somebody waits for that load. Loads without a scoreboard included."""
    assert guarded(scheduled(case, kernel, report))


@pytest.mark.parametrize("target", some(["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"], 3))
@pytest.mark.parametrize("unit", ["tiles", "memory"])
def test_the_same_for_every_target(unit: str, target: str) -> None:
    cubin = sass.image(sass.path(unit, target))
    assert all(guarded(code) for code in cubin.functions)


def guarded(code: Program) -> int:
    """How many reads of late registers were checked, each within one block."""
    assert all(ins.control is not None for ins in code.instructions)
    cfg, classes = build_cfg(code), [classify(ins, code.sm) for ins in code.instructions]
    defuse, found = DefUse(code, cfg), waits(code, cfg, classes)
    checked = 0
    for block in cfg.blocks:
        for i in range(block.start, block.end):
            for register, producers in defuse.sources(i).items():
                for p in producers:
                    if block.start <= p < i and classes[p].scoreboard is not None:
                        between = [w for j in range(p + 1, i + 1) for w in found[j]]
                        named = {q for w in between for q in (*w.needed, *w.shared, *w.done)}
                        assert p in named, (code.instructions[p].text, code.instructions[i].text, register)
                        checked += 1
    return checked


def test_a_shared_scoreboard_holds_up_what_is_not_needed(kernel: KernelOf, report: Report) -> None:
    """sgemm.tiled: three LDS share SB5; the first multiply-add needs one of them and waits for all."""
    code = scheduled("sgemm.tiled", kernel, report)
    cfg, classes = build_cfg(code), [classify(ins, code.sm) for ins in code.instructions]
    found = waits(code, cfg, classes)
    at = next(i for i, w in enumerate(found) if any(len(one.shared) == 2 and one.board == 5 for one in w))
    wait = next(w for w in found[at] if w.board == 5)
    assert code.instructions[at].opcode == "FFMA"
    assert [code.instructions[p].opcode for p in (*wait.needed, *wait.shared)] == ["LDS"] * 3
    assert not set(code.instructions[wait.needed[0]].defs).isdisjoint(code.instructions[at].uses)


def test_text_alone_names_the_first_reader() -> None:
    code = program(NESTED)
    cfg, classes = build_cfg(code), [classify(ins, code.sm) for ins in code.instructions]
    found = {code.instructions[i].pc: w for i, w in enumerate(waits(code, cfg, classes)) if w}
    fadd = found[0xE0]
    assert [code.instructions[p].pc for p in fadd[0].needed] == [0xB0] and fadd[0].board is None
    assert 0xF0 not in found, "a branch on a fixed-latency predicate waits for no scoreboard"


def test_empty_program() -> None:
    code = program("")
    assert waits(code, build_cfg(code), []) == []
