"""Annotations on our own kernels, compiled for several targets: accesses, spills, control flow, loops that are none."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec import structs

from kscope.engine.code.lint import lint
from kscope.features.patterns.local_memory import spills_and_arrays
from kscope.features.sass.accesses import accesses
from kscope.features.sass.listing import Listing
from kscope.features.sass.loop_kinds import loop_kinds
from kscope.features.views.annotations import annotate, loop_numbers
from kscope.features.views.program import access_table, spill_counts
from tests.features.listings import NESTED, program
from tests.support.sass import FOLDER, image


@cache
def compiled(unit: str) -> dict[str, Listing]:
    """Functions of one fixture (`memory.sm_80`) by name."""
    cubin = image(FOLDER / f"{unit}.cubin.xz")
    return {one.name: Listing(one) for one in cubin.functions}


def table(code: Listing) -> dict[str, tuple[int, int | None, str]]:
    """Access name -> instructions, bytes a lane, what a local one is for."""
    rows = access_table(code.program, code.cfg, accesses(code.program, code.classes, spilling=False))
    return {r.access: (r.instructions, r.bytes, r.stack) for r in rows}


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"])
def test_widths_of_scalar_and_vector_loads(target: str) -> None:
    unit = compiled(f"memory.{target}")
    suffix = "SYS." if target == "sm_75" else ""
    scalar, vector = table(unit["scale4_scalar"]), table(unit["scale4_vector"])
    assert scalar["LDG.E.32"] == (4, 4, "") and scalar["STG.E.32"] == (4, 4, ""), suffix
    assert vector["LDG.E.128"] == (1, 16, "") and vector["STG.E.128"] == (1, 16, "")


def test_the_widest_loads_of_blackwell() -> None:
    assert table(compiled("memory.sm_100a")["scale8_wide"])["LDG.E.ENL2.256"] == (1, 32, "")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_spills_and_local_arrays_are_told_apart(target: str) -> None:
    unit = compiled(f"memory.{target}")
    capped, palette = unit["mix80_capped"], unit["palette_local"]
    stores, loads = spill_counts(accesses(capped.program, capped.classes, spilling=False))
    assert stores and loads and stores + loads == len(capped.program.spills)
    found = accesses(palette.program, palette.classes, spilling=False)
    assert spill_counts(found) == (0, 0)
    assert {a.stack for a in found if a is not None and a.space == "local"} == {"local array"}


def test_without_marks_a_spill_is_a_fixed_slot_that_is_stored_and_loaded() -> None:
    """As in listings and in images of compilers before 12.8, which mark nothing."""
    spilled = Listing(program("STL [R1+0x4], R5\nFADD R5, R6, R7\nLDL R8, [R1+0x4]\nSTL [R1+0x8], R9\nEXIT"))
    assert [a.stack for a in accesses(spilled.program, spilled.classes) if a] == [
        "spill slot", "spill slot", "local array"
    ]  # fmt: skip
    assert all(a.stack == "local array" for a in accesses(spilled.program, spilled.classes, spilling=False) if a)
    indexed = Listing(program("STL [R1], R5\nLDL R8, [R1]\nLDL R9, [R2]\nEXIT"))
    assert {a.stack for a in accesses(indexed.program, indexed.classes) if a} == {"local array"}


CALLEE = "STL [R1], R16\nMOV R16, R4\nCALL.REL.NOINC R2 0x0\nLDL R16, [R1]\nRET.REL.NODEC R20 0x0"


def test_registers_kept_for_the_caller_are_no_spills() -> None:
    """What a compiler that marks spills left unmarked: neither MEM104 nor MEM105 has anything to say about it."""
    kept = structs.replace(program(CALLEE), entry=False, marks_spills=True)
    code = Listing(kept)
    assert [a.stack for a in accesses(kept, code.classes) if a] == ["saved register"] * 2
    assert spills_and_arrays(code) == ([], [], True)
    assert lint(code, {"MEM104", "MEM105"}).passed == ["MEM104", "MEM105"]
    other = structs.replace(kept, marks_spills=False)
    assert lint(Listing(other), {"MEM104"}).findings, "nobody marks: by their form they are spills"
    moved = structs.replace(program("STL [R1], R16\nLDL R17, [R1]\nEXIT"), entry=False, marks_spills=True)
    assert spills_and_arrays(Listing(moved))[:2] == ([], [0, 1]), "another register comes back: an array of constants"


def test_a_call_names_its_symbol_before_linking() -> None:
    flows = [
        flow
        for one in compiled("separate.sm_90a").values()
        for pc, flow in notes_at(one).items()
        if one.program.instructions[pc // 16].opcode == "CALL"
    ]
    assert {"calls _Z9elsewheref, linked from elsewhere", "calls through a register"} <= set(flows), "one by a pointer"
    pointer = Listing(program("CALL.REL.NOINC R2 `(_Z4viapPfi)\nEXIT"))
    assert notes_at(pointer)[0] == "calls through a register"


def notes_at(code: Listing) -> dict[int, str]:
    noted = annotate(code.program, code.cfg, code.classes, live=code.liveness.counts())
    return {code[i].pc: one.flow for i, one in enumerate(noted) if one.flow}


def test_where_branches_go() -> None:
    flows = notes_at(Listing(program(NESTED)))
    assert flows[0x60] == "lanes meet again at 0110"
    assert flows[0xF0] == "next round of loop 2" and flows[0x110] == "next round of loop 1"
    assert flows[0x150] == "padding"
    assert 0x40 not in flows and 0x80 not in flows, "a forward branch within its loop says all by its target"


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a", "sm_100a"])
def test_a_switch_names_its_cases(target: str) -> None:
    code = compiled(f"arithmetic.{target}")["dispatch"]
    switches = [i for i, ins in enumerate(code.program.instructions) if ins.opcode in ("BRX", "BRXU")]
    flows = notes_at(code)
    for i in switches:
        targets = flows[code[i].pc].removeprefix("switch to ")
        pcs = {int(word, 16) for word in targets.split(", ") if " " not in word}
        assert pcs == set(code.program.branches[code[i].pc]) and len(pcs) >= 2
    assert switches


def test_loops_that_are_none() -> None:
    """One thread polls an mbarrier, and ELECT feeds a TMA lane by lane; the loop around both is the program's."""
    code = compiled("tma.sm_90a")["refill_unfenced"]
    kinds = loop_kinds(code.program, code.cfg, code.classes)
    numbers = loop_numbers(code.cfg)
    assert {numbers[n]: kind for n, kind in kinds.items()} == {2: "lane by lane", 3: "spin"}
    flows = notes_at(code)
    assert "to loop 3 (spin)" in flows.values()


def test_roles_and_depths() -> None:
    code = compiled("wgmma.sm_90a")["wgmma_each"]
    noted = annotate(code.program, code.cfg, code.classes, live=code.liveness.counts())
    by_role: dict[str, list[int]] = {}
    for i, one in enumerate(noted):
        by_role.setdefault(one.role, []).append(i)
    assert all(code[i].opcode == "HGMMA" and noted[i].depth == 1 for i in by_role["tensor"]) and by_role["tensor"]
    assert all(noted[i].words == "wgmma.wait_group" for i in by_role["tensor wait"])
    assert all(one.live is not None and one.live >= 0 for one in noted)
    resources = code.program.resources
    assert resources is not None and max(one.live or 0 for one in noted) <= (resources.registers or 0)


def test_fixed_latency_or_scoreboard_never_both() -> None:
    for unit in ("memory.sm_80", "tma.sm_90a", "tcgen05.sm_100a", "tiles.sm_120a"):
        for code in compiled(unit).values():
            for i, one in enumerate(annotate(code.program, code.cfg, code.classes)):
                assert one.latency is None or one.scoreboard is None, code[i].text
