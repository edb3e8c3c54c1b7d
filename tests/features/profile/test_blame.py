"""Stall samples end at the instruction that was waited for."""

from __future__ import annotations

import numpy as np
import pytest

from kscope.features.profile.blame import Blame, blame
from kscope.features.sass.cfg import build_cfg
from kscope.features.sass.defuse import DefUse
from tests.features.listings import CHAIN, NESTED, program


def run(text: str, executions: list[float] | None = None, **stalls: dict[int, float]) -> Blame:
    p = program(text)
    cfg = build_cfg(p)
    arrays = {reason: np.array([at.get(i, 0.0) for i in range(len(p))]) for reason, at in stalls.items()}
    counts = None if executions is None else np.array(executions)
    return blame(p, cfg, DefUse(p, cfg), arrays, counts)


def test_load_is_blamed_for_its_consumer_around_the_loop() -> None:
    b = run(NESTED, long_scoreboard={14: 90.0}, short_scoreboard={10: 12.0, 3: 5.0})
    assert b.top("long_scoreboard") == ((11, 90.0),)
    # The address needs LDC, one instruction before, and S2R, nine before: nine to one.
    assert dict(b.top("short_scoreboard")) == pytest.approx({9: 10.8, 1: 1.2, 0: 5.0})
    assert b.edges["long_scoreboard"] == {(11, 14): 90.0}


def test_nearer_and_as_often_executed_producers_get_more() -> None:
    text = "LDG.E R4, [R2.64]\nMOV R9, 1\nMOV R9, 2\nLDG.E R5, [R2.64+0x4]\nFADD R6, R4, R5\nEXIT"
    near = run(text, long_scoreboard={4: 100.0})
    assert near.by_producer["long_scoreboard"][3] == pytest.approx(80.0)
    assert near.by_producer["long_scoreboard"][0] == pytest.approx(20.0)
    rare = run(text, [8, 8, 8, 1, 8, 8], long_scoreboard={4: 100.0})
    assert rare.by_producer["long_scoreboard"][3] == pytest.approx(100 / 3)


def test_only_producers_of_the_right_scoreboard_count() -> None:
    b = run("LDS R4, [R2]\nLDG.E R5, [R2.64]\nFADD R6, R4, R5\nEXIT", long_scoreboard={2: 10.0},
            short_scoreboard={2: 4.0})  # fmt: skip
    assert b.top("long_scoreboard") == ((1, 10.0),)
    assert b.top("short_scoreboard") == ((0, 4.0),)


def test_register_still_read_by_a_store() -> None:
    b = run("LDG.E R9, [R2.64]\nSTG.E [R2.64], R5\nLDG.E R8, [R6.64]\nMOV R5, 1\nEXIT", long_scoreboard={3: 7.0})
    assert b.top("long_scoreboard") == ((1, 7.0),)


def test_waiting_for_copies() -> None:
    b = run("LDGSTS.E.128 [R7], desc[UR6][R2.64]\nLDGDEPBAR\nDEPBAR.LE SB0, 0x0\nBAR.SYNC 0x0\nEXIT",
            long_scoreboard={2: 30.0})  # fmt: skip
    assert b.top("long_scoreboard") == ((0, 30.0),)


def test_wgmma_wait_is_the_matrix_instructions() -> None:
    b = run("HGMMA.64x8x16.F32 R24, gdesc[UR8], R24, gsb0\nWARPGROUP.DEPBAR.LE gsb0, 0x0\nEXIT", gmma={1: 5.0})
    assert b.top("gmma") == ((0, 5.0),)


def test_own_stalls_stay_and_waits_go_to_the_chain() -> None:
    b = run(CHAIN, wait={4: 6.0, 1: 2.0}, math_pipe_throttle={4: 3.0}, barrier={5: 1.0})
    assert b.top("math_pipe_throttle") == ((4, 3.0),)
    assert b.top("barrier") == ((5, 1.0),)
    assert dict(b.top("wait")) == {3: 6.0, 1: 2.0}


def test_without_any_candidate_samples_stay_unattributed() -> None:
    b = run("MOV R1, 1\nFADD R2, R1, R1\nEXIT", long_scoreboard={1: 9.0})
    assert b.unattributed["long_scoreboard"] == 9.0 and b.top("long_scoreboard") == ()
    assert b.top("not_sampled") == ()


def test_sums_are_preserved() -> None:
    rng = np.random.default_rng(1)
    p = program(NESTED)
    cfg = build_cfg(p)
    stalls = {r: rng.integers(0, 50, len(p)).astype(float)
              for r in ("long_scoreboard", "short_scoreboard", "wait", "gmma", "barrier", "lg_throttle")}  # fmt: skip
    b = blame(p, cfg, DefUse(p, cfg), stalls)
    for reason, samples in stalls.items():
        assert sum(b.by_producer[reason]) + b.unattributed[reason] == pytest.approx(samples.sum())


def test_a_wait_far_behind_a_barrier_is_the_last_barrier_passed() -> None:
    """A deferred barrier lets a warp go on to its next memory access, here four instructions and a branch behind."""
    text = (
        "BAR.SYNC.DEFER_BLOCKING 0x0\n@P0 BRA 0x40\nBAR.SYNC.DEFER_BLOCKING 0x0\nMOV R1, 1\nMOV R2, 2\nMOV R3, 3\n"
        "MOV R4, 4\nLDS R5, [R6]\nEXIT"
    )
    b = run(text, [1, 1, 1, 1, 1, 1, 1, 1, 1], barrier={7: 60.0, 1: 2.0})
    assert set(b.edges["barrier"]) == {(0, 7), (2, 7), (0, 1)}
    assert sum(b.by_producer["barrier"]) == pytest.approx(62.0) and b.unattributed["barrier"] == 0
    always = run(text.replace("@P0 BRA 0x40", "MOV R9, 9"), barrier={7: 60.0})
    assert always.edges["barrier"] == {(2, 7): 60.0}, "one before it was passed long ago"
