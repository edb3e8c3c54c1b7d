"""Blocks, edges, dominators and loops of kernels whose source is known."""

from __future__ import annotations

from kscope.features.sass.cfg import Cfg, build_cfg
from tests.features.listings import CHAIN, NESTED, program


def edges(cfg: Cfg) -> set[tuple[int, int]]:
    """Edges as (first instruction of the block, first instruction of the successor)."""
    return {(b.start, cfg.blocks[s].start) for b in cfg.blocks for s in b.successors}


def test_nested_loops() -> None:
    p = program(NESTED)
    cfg = build_cfg(p)
    outer, inner = cfg.loops
    assert (outer.depth, inner.depth) == (1, 2)
    assert inner.parent == 0 and outer.parent is None
    assert inner.innermost and not outer.innermost
    assert [p.instructions[i].pc for i in inner.instructions] == list(range(0xA0, 0x100, 16))
    assert p.instructions[cfg.blocks[outer.header].start].pc == 0x50
    load = next(i.index for i in p.instructions if i.opcode == "LDG")
    assert cfg.loop_of[load] == 1 and cfg.depth[load] == 2
    assert cfg.depth[0] == 0 and cfg.loop_of[0] is None
    assert {p.instructions[i].pc for i in outer.instructions} == set(range(0x50, 0x120, 16))
    assert 9 not in cfg.loop_body(1) and 9 in cfg.loop_body(0)


def test_padding_behind_the_kernel_is_no_loop() -> None:
    cfg = build_cfg(program("EXIT\nBRA 0x10\nNOP"))
    assert cfg.loops == ()


def test_a_loop_of_one_block_is_found() -> None:
    cfg = build_cfg(program(CHAIN))
    assert [(loop.instructions[0], loop.instructions[-1]) for loop in cfg.loops] == [(1, 7)]


def test_dominators_of_a_diamond() -> None:
    cfg = build_cfg(program("@P0 BRA 0x30\nMOV R1, 1\nBRA 0x40\nMOV R1, 2\nEXIT"))
    assert edges(cfg) == {(0, 1), (0, 3), (1, 4), (3, 4)}
    assert cfg.idom == (None, 0, 0, 0)
    assert cfg.block_of == (0, 1, 1, 2, 3)


def test_guarded_exit_and_return_fall_through() -> None:
    cfg = build_cfg(program("@P0 EXIT\nMOV R1, 1\n@P1 RET.REL.NODEC R2 0x0\nEXIT\nMOV R2, 1\nEXIT"))
    assert edges(cfg) == {(0, 1), (1, 3)}


def test_branch_on_an_operand_may_fall_through() -> None:
    cfg = build_cfg(program("BRA.U UP0, 0x20\nMOV R1, 1\nEXIT"))
    assert edges(cfg) == {(0, 1), (0, 2), (1, 2)}


def test_a_branch_that_is_never_taken_is_no_branch() -> None:
    cfg = build_cfg(program("@!PT BRA 0x20\nMOV R1, 1\nEXIT"))
    assert len(cfg.blocks) == 1 and edges(cfg) == set()


def test_call_falls_through_and_names_its_callee() -> None:
    cfg = build_cfg(program("CALL.REL.NOINC 0x30\nMOV R1, R2\nEXIT\nFADD R2, R2, R3\nRET.REL.NODEC R8 0x0"))
    assert cfg.calls == {0: 3}
    assert edges(cfg) == {(0, 1)}


def test_absolute_targets_are_recognised_by_the_padding() -> None:
    text = NESTED
    for offset in (0x50, 0xA0, 0x100, 0x120, 0x150):
        text = text.replace(f"BRA {offset:#x}", f"BRA {0x7FE6FB7A0C00 + offset:#x}")
    a, b = build_cfg(program(text)), build_cfg(program(NESTED))
    assert a.blocks == b.blocks and a.loops == b.loops and a.unresolved == ()


def test_switch_targets_are_guessed_and_say_so() -> None:
    cfg = build_cfg(program("BRX R4 -0x2910\nMOV R1, 1\nBRA 0x50\nMOV R1, 2\nBRA 0x50\nEXIT"))
    assert cfg.unresolved == cfg.guessed == (0,)
    assert edges(cfg) == {(0, 1), (0, 3), (1, 5), (3, 5)}


def test_known_switch_targets_are_used() -> None:
    cfg = build_cfg(program("BRX R4, -0x10, 0x20, 0x10\nEXIT\nEXIT"))
    assert cfg.unresolved == () and edges(cfg) == {(0, 1), (0, 2)}


def test_target_outside_the_listing_is_unresolved() -> None:
    cfg = build_cfg(program("@P0 BRA 0x7ff0\nEXIT"))
    assert cfg.unresolved == (0,) and edges(cfg) == {(0, 1)}


def test_irreducible_region_has_a_loop() -> None:
    cfg = build_cfg(program("@P0 BRA 0x30\nMOV R1, 1\nMOV R2, 2\nMOV R3, 3\n@P1 BRA 0x10\nEXIT"))
    assert len(cfg.loops) == 1 and cfg.loops[0].irreducible
    assert set(cfg.loops[0].instructions) >= {3, 4}


def test_empty_program() -> None:
    assert build_cfg(program("")).blocks == ()
