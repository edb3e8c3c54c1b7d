"""Static bounds of loops: below what kernels really take, close to it where one pipe is the limit, refused where an
opcode is unknown."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.counters.units import elapsed_cycles
from kscope.features.facts import Facts
from kscope.features.lanes.bank_conflicts import conflicts
from kscope.features.profile.measured import Profile
from kscope.features.sass.cfg import build_cfg
from kscope.features.sass.listing import Listing
from kscope.features.sass.loop_throughput import LoopBound, loop_bound, once_through
from kscope.features.views.program import loops
from kscope.isa.opcodes import classify
from kscope.model.kernel import Kernel
from tests.features.listings import CHAIN, NESTED, program
from tests.support import reports

SINGLE = reports.chosen_cases()


def loop_cycles(facts: Facts) -> dict[str, float]:
    """Share of the kernel's elapsed cycles that each pipe needs for all loops, if it were the only limit."""
    code = facts.code
    assert code is not None
    profile = Profile(code)
    elapsed = elapsed_cycles(facts.kernel.metrics)
    assert elapsed
    cycles: dict[str, float] = {}
    for loop in loops(code.program, code.cfg, code.classes, profile, profile.wavefronts()):
        for bound in loop.bounds:
            cycles[bound.pipe] = cycles.get(bound.pipe, 0.0) + bound.cycles * (loop.rounds or 0.0)
    return {pipe: c / (4 * facts.kernel.device.sms) / elapsed for pipe, c in cycles.items()}


@pytest.mark.parametrize("case", SINGLE)
def test_no_kernel_is_faster_than_its_bound(case: str, facts: Callable[[str], Facts]) -> None:
    assert max(loop_cycles(facts(case)).values(), default=0.0) <= 1.005


@pytest.mark.parametrize(
    ("case", "pipe", "least"),
    [
        ("tail_effect.fast", "issue slots", 0.9), ("horner.separate", "issue slots", 0.9), ("sgemm.tiled", "LSU", 0.9),
        ("hgemm.wmma_padded", "LSU", 0.9), ("hgemm.packed", "FP16", 0.9), ("wgmma_flight.sixteen", "tensor", 0.8),
    ],
)
def test_the_bound_is_close_where_that_pipe_is_the_limit(
    case: str, pipe: str, least: float, facts: Callable[[str], Facts]
) -> None:
    shares = loop_cycles(facts(case))
    assert shares[pipe] == max(shares.values()) >= least


def bound(text: str, sm: int, loop: int = 0) -> LoopBound:
    code = program(text, sm)
    return loop_bound(code, build_cfg(code), [classify(ins, sm) for ins in code.instructions], loop)


def cycles(found: LoopBound) -> dict[str, tuple[float, float]]:
    return {b.pipe: (b.least, b.most) for b in found.pipes}


def test_a_chain_on_two_generations() -> None:
    """Four FFMA, an IADD3 and an ISETP: FFMA takes two cycles on GA100's half-width pipe, one from GA10x on."""
    assert cycles(bound(CHAIN, 80)) == {"fma": (8, 8), "issue": (7, 7), "alu": (4, 4), "cbu": (2, 2)}
    assert cycles(bound(CHAIN, 90)) == {"fma": (4, 4), "issue": (7, 7), "alu": (4, 4), "cbu": (2, 2)}


def test_multiplies_keep_half_of_the_fma_pipe() -> None:
    loop = "0x0 IMAD R1, R2, R3, R4\n0x10 {}\n0x20 @P0 BRA 0x0\n0x30 EXIT"
    assert cycles(bound(loop.format("IMAD R5, R2, R3, R4"), 90))["fma"] == (4, 4), "two IMAD on the heavy half"
    assert cycles(bound(loop.format("FFMA R5, R2, R3, R4"), 90))["fma"] == (2, 2), "FFMA on the other half meanwhile"
    assert cycles(bound(loop.format("FFMA R5, R2, R3, R4"), 80))["fma"] == (4, 4), "one pipe for both"


def test_what_runs_under_a_condition_widens_the_bound() -> None:
    text = "0x0 FADD R1, R1, R2\n0x10 @P1 BRA 0x40\n0x20 MUFU.EX2 R3, R1\n0x30 MUFU.RCP R4, R3\n"
    text += "0x40 @P0 BRA 0x0\n0x50 EXIT\n"
    found = bound(text, 90)
    assert (found.always, found.sometimes) == (3, 2)
    assert cycles(found)["xu"] == (0, 16) and cycles(found)["issue"] == (3, 5)


def test_inner_loops_count_apart() -> None:
    outer, inner = bound(NESTED, 90, 0), bound(NESTED, 90, 1)
    assert cycles(inner)["lsu"] == (16, 16) and "lsu" not in cycles(outer)


def test_an_unknown_opcode_refuses_the_bound() -> None:
    found = bound("0x0 FADD R1, R1, R2\n0x10 FROBNICATE R3, R1\n0x20 @P0 BRA 0x0\n0x30 EXIT", 90)
    assert not found.pipes and found.refused == "no table knows FROBNICATE (first at 0010)"


def test_a_shape_in_a_descriptor_is_refused_for_its_pipe_alone() -> None:
    text = "0x0 UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], UP0\n0x10 @P0 BRA 0x0\n0x20 EXIT"
    found = bound(text, 100)
    assert {b.pipe: b.refused for b in found.pipes if b.refused} == {
        "tensor": "UTCHMMA takes its shape from a descriptor"
    }
    assert found.largest is not None and found.largest.pipe == "cbu"


def test_shared_memory_by_what_is_known() -> None:
    """A wide load is between a broadcast and lanes of their own where nothing is known; known wavefronts decide."""
    text = "0x0 LDS.128 R4, [R1]\n0x10 @P0 BRA 0x0\n0x20 EXIT"
    code = program(text, 90)
    cfg, classes = build_cfg(code), [classify(ins, 90) for ins in code.instructions]
    assert cycles(loop_bound(code, cfg, classes, 0))["lsu"] == (8, 16)
    assert cycles(loop_bound(code, cfg, classes, 0, wavefronts={0: 32}))["lsu"] == (128, 128)


def test_once_through_counts_what_every_warp_passes() -> None:
    """A branch over two XU instructions, an early exit, and the rest: the branch may be taken, the exit is not."""
    text = "0x0 ISETP.GE.AND P0, PT, R0, R1, PT\n0x10 @P0 EXIT\n0x20 @P1 BRA 0x50\n0x30 MUFU.EX2 R3, R1\n"
    text += "0x40 MUFU.RCP R4, R3\n0x50 FADD R1, R1, R2\n0x60 EXIT\n"
    code = program(text, 90)
    cfg, classes = build_cfg(code), [classify(ins, 90) for ins in code.instructions]
    found = once_through(code, cfg, classes)
    assert found.always == 5 and "xu" not in cycles(found) and cycles(found)["issue"] == (5, 5)


@pytest.mark.parametrize("case", SINGLE[::12])
def test_no_kernel_is_faster_than_one_pass_of_its_warps(case: str, kernel: Callable[[str], Kernel]) -> None:
    one = kernel(case)
    assert one.program is not None
    code = Listing(one.program)
    known = {i: float(c.wavefronts) for i, c in conflicts(code).items()}
    found = once_through(one.program, code.cfg, code.classes, known)
    elapsed = elapsed_cycles(one.metrics)
    warps = -(-one.launch.blocks // one.device.sms) * one.launch.warps / 4
    assert elapsed and found.pipes and not found.refused
    assert all(pipe.least * warps <= elapsed for pipe in found.pipes), found.pipes
