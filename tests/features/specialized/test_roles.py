"""Roles, wait sites and who ends them, from machine code: on our own GEMMs for sm_90 and sm_100, and on listings."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from kscope.features.facts import Facts
from kscope.features.lanes.affine import Affine
from kscope.features.profile.code import Code
from kscope.features.specialized.roles import CONSUMER, EPILOGUE, MMA, PRODUCER, find_roles
from kscope.features.specialized.wait_sites import find_waits
from kscope.model.contract.analysis import KernelAnalysis
from kscope.model.kernel import Device, Kernel, Launch, Metrics
from kscope.model.program import Program
from kscope.parsers.cubin.programs import read_programs
from kscope.parsers.sass.operands import operand
from tests.features.listings import program
from tests.support import reports

SPECIALISED = ("ws_gemm.", "tma_scale.", "bulk_sum.", "picked_norms.", "ws_proj.")
BLACKWELL = reports.FIXTURES.parent / "cubins" / "tcgen05_gemm.sm_100a.cubin.xz"


def static(code: Program, warps: int = 8) -> Code:
    """A program that nobody profiled."""
    launch = Launch((1, 1, 1), (32 * warps, 1, 1), (1, 1, 1), 0, 0, 0, 1.0)
    device = Device("none", (code.sm // 10, code.sm % 10), 1)
    return Code(Kernel(0, "k", "k", "k", "kernel", "-", device, launch, Metrics({}, {})), code)


@pytest.mark.parametrize("case", reports.chosen_cases())
def test_only_specialised_kernels_are_called_so(case: str, diagnosis: Callable[[str], KernelAnalysis]) -> None:
    assert (diagnosis(case).warp_specialization is not None) == case.startswith(SPECIALISED)


def test_roles_of_the_gemm(kernel: Callable[[str], Kernel]) -> None:
    """Three warpgroups: two multiply, one warp of the third copies; their warps add up to the block's."""
    code = Facts(kernel("ws_gemm.best")).code
    assert code is not None
    roles = find_roles(code)
    assert roles is not None and roles.unaccounted == 0
    assert {r.name: r.warps for r in roles.roles} == {PRODUCER: 4, MMA: 8}
    assert roles.named(PRODUCER)[0].working == 1


def test_waits_of_the_gemm(kernel: Callable[[str], Kernel]) -> None:
    facts = Facts(kernel("ws_gemm.stages2"))
    assert facts.specialized.waits is not None
    full = [w for w in facts.specialized.waits.of(MMA) if w.kind == "mbarrier"]
    empty = [w for w in facts.specialized.waits.of(PRODUCER) if w.kind == "mbarrier"]
    assert {(w.unit, w.signallers) for w in full} == {("memory", (PRODUCER,))}
    assert {(w.unit, w.signallers) for w in empty} == {("role", (MMA,))}
    assert {w.unit for w in facts.specialized.waits.of(MMA) if w.kind == "wgmma"} == {"tensor"}
    assert facts.specialized.waits.stages == 2 and facts.specialized.waits.stage_bytes == 48 << 10
    assert full[0].retried is not None and full[0].retried > 0.5, "two stages: most waits for data are not over at once"


def test_waits_of_bulk_copies(kernel: Callable[[str], Kernel]) -> None:
    facts = Facts(kernel("tma_scale.stages2"))
    sp = facts.specialized.pipeline
    assert sp is not None and [r.name for r in sp.roles.roles] == [PRODUCER, CONSUMER]
    assert sp.waits.stages == 2 and sp.waits.stage_bytes == 8 << 10
    assert not sp.products and sp.unit == "dram"


def test_tcgen05(tmp_path: Path) -> None:
    """sm_100a, compiled and never run: a warp copies, a warp multiplies, a warpgroup reads the accumulators."""
    path = tmp_path / "gemm.cubin"
    path.write_bytes(lzma.decompress(BLACKWELL.read_bytes()))
    (cubin,) = read_programs(path)
    code = static(cubin.functions[0].program if hasattr(cubin.functions[0], "program") else cubin.functions[0], 6)
    roles = find_roles(code)
    assert roles is not None and [r.name for r in roles.roles] == [PRODUCER, MMA, EPILOGUE]
    assert all(r.warps is None for r in roles.roles), "nobody counted"
    waits = find_waits(code, roles)
    assert waits.stages == 4
    ends = {(w.role, w.unit, w.signallers) for w in waits.sites if w.kind == "mbarrier"}
    assert ends == {
        (PRODUCER, "tensor", (MMA,)),  # a slot is free when the products that read it are done: UTCBAR
        (MMA, "memory", (PRODUCER,)),
        (MMA, "role", (EPILOGUE,)),  # an accumulator is free when it was read
        (EPILOGUE, "tensor", (MMA,)),
    }


ONE_THREAD_COPIES = """
S2R R0, SR_TID.X
ISETP.NE.AND P0, PT, R0, RZ, PT
UMOV UR4, 0x400
@P0 BRA 0x60
UTMALDG.2D [UR8], [UR16]
SYNCS.ARRIVE.TRANS64 RZ, [UR4], R4
SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR4], R5
@!P1 BRA 0x60
HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24
WARPGROUP.DEPBAR.LE gsb0, 0x0
EXIT
"""


def test_an_elected_thread_is_no_role() -> None:
    """All warps multiply; one thread of them issues the copy first."""
    code = static(program(ONE_THREAD_COPIES))
    assert find_roles(code) is None
    (wait,) = (w for w in find_waits(code, None).sites if w.kind == "mbarrier")
    assert wait.role == "all"


def test_addresses_as_sums() -> None:
    p = program(
        "S2UR UR4, SR_CgaCtaId\nUMOV UR5, 0x400\nULEA UR6, UR4, UR5, 0x18\nS2R R0, SR_TID.X\n"
        "IMAD R7, R0, 0x8, RZ\nIADD3 R8, R7, UR6, RZ\nVIADD R9, R8, 0x18\n"
        "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R9+URZ+0x10], RZ\nEXIT"
    )
    code = static(p)
    found = Affine(p, code.defuse).address(7, operand("[R9+URZ+0x10]"))
    assert found.constant == 0x400 + 0x18 + 0x10
    assert found.terms == {"SR_CgaCtaId": 1 << 24, "SR_TID.X": 8}


def test_a_loop_counter_is_given_by_its_start() -> None:
    p = program("MOV R4, 0x400\nIADD3 R4, R4, 0x8, RZ\nSYNCS.ARRIVE.TRANS64 RZ, [R4], RZ\n@P0 BRA 0x10\nEXIT")
    found = Affine(p, static(p).defuse).address(2, operand("[R4]"))
    assert found.varying
