"""Warps without data, on captures and on captures whose counts say that most warps skip the work."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.engine.verdict.regime import decide
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding
from kscope.model.kernel import Counters, Kernel
from kscope.rules._shared.blocks.idle_warps import at_work, sms_without_work, started
from kscope.rules.registry import rule
from tests.features.listings import program
from tests.support.edit import made

GetFacts = Callable[[str], Facts]
COUNTS = ("inst_executed", "thread_inst_executed", "thread_inst_executed_true")
WORKING = (
    "nucleus.walk", "barrier.slow", "scan1m.oneblock", "signal_max.one", "rotors.all_sites", "julia.block6x6",
    "csr.warp", "atomics.fast", "narrow_loads.slow", "sum_roof.tree",
)  # fmt: skip
"""Trees, scans by few threads, lanes that leave, rows a warp: all their warps touch data."""


def scaled(known: Facts, columns: tuple[str, ...], members: set[int], factor: float) -> Kernel:
    """The kernel with these counts of these instructions times `factor`."""
    kernel, code = known.kernel, known.code
    assert code is not None and kernel.counters is not None
    pcs = {code[i].pc for i in members}
    by_name = dict(kernel.counters.by_name)
    for name in columns:
        by_name[name] = [
            value * factor if pc in pcs else value
            for pc, value in zip(kernel.counters.offsets, by_name[name], strict=True)
        ]
    return msgspec.structs.replace(kernel, counters=Counters(kernel.counters.offsets, by_name))


@pytest.mark.parametrize("case", WORKING)
def test_silent_where_all_warps_have_data(case: str, facts: GetFacts) -> None:
    idle = facts(case).profile.idle_threads(facts(case).counters.launch.warps)
    assert idle is None or idle.working > 0.9


def test_roles_are_no_idle_warps(facts: GetFacts) -> None:
    """One warp of three groups copies: the others compute on what it brings."""
    known = facts("ws_gemm.best")
    idle = known.profile.idle_threads(known.counters.launch.warps)
    assert idle is not None and idle.working == pytest.approx(2 / 3, abs=0.01)
    assert not isinstance(rule("GRD404")().run(known), Finding)  # type: ignore[attr-defined]


def test_warps_that_leave_at_once(facts: GetFacts) -> None:
    """Seven of eight warps jump over everything behind the first guard; their part of the samples before it is lost."""
    known = facts("narrow_loads.slow")
    code = known.code
    assert code is not None
    guard = next(i for i in range(len(code)) if code[i].opcode == "EXIT" and code[i].guard is not None)
    changed = Facts(scaled(known, COUNTS, set(range(guard + 1, len(code))), 1 / 8))
    idle = changed.profile.idle_threads(changed.counters.launch.warps)
    assert idle is not None and idle.working == pytest.approx(1 / 8)
    assert set(idle.members) == set(code.ran(range(guard + 1)))
    before = sum(code.samples[: guard + 1]) / sum(code.samples)
    assert idle.held == pytest.approx(before * 7 / 8)


STEPS = """
S2R R2, SR_TID.X
S2R R3, SR_CTAID.X
IMAD R4, R3, 0x100, R2
IMAD.WIDE R4, R4, 0x4, R6
MOV R9, 0x80
ISETP.GE.AND P0, PT, R2, R9, PT
@P0 BRA 0x90
LDG.E R0, [R4.64]
STG.E [R4.64], R0
SHF.R.U32.HI R9, RZ, 0x1, R9
BAR.SYNC.DEFER_BLOCKING 0x0
ISETP.NE.AND P0, PT, R9, RZ, PT
@P0 BRA 0x50
EXIT
"""


def test_steps_that_rounds_pass_by_may_be_other_warps() -> None:
    """A tree in global memory: in eight rounds of eight warps twenty make a step, on average under a third. Which of
    them have none in any round, the counts do not tell."""
    runs = [8.0] * 5 + [64.0] * 2 + [20.0] * 2 + [64.0] * 4 + [8.0]
    lanes = [32 * n for n in runs]
    columns = {"inst_executed": runs, "thread_inst_executed": lanes, "thread_inst_executed_true": lanes}
    counters = Counters([16 * i for i in range(len(runs))], columns)
    known = Facts(msgspec.structs.replace(made({}, grid=1, block=256), program=program(STEPS), counters=counters))
    idle = known.profile.idle_threads(8)
    assert idle is None or idle.working == 1.0


def test_accesses_whose_guard_is_off(facts: GetFacts) -> None:
    """All warps run through, but only one of four makes its accesses: three quarters of all places are held in vain."""
    known = facts("narrow_loads.slow")
    code = known.code
    assert code is not None
    accesses = set(code.where(lambda ins, op: op.space == "global" and op.access is not None))
    changed = Facts(scaled(known, COUNTS[2:], accesses, 1 / 4))
    idle = changed.profile.idle_threads(changed.counters.launch.warps)
    assert idle is not None and idle.working == pytest.approx(0.25, abs=0.01)
    assert idle.held == pytest.approx(0.75, abs=0.05)
    said = rule("GRD404")().run(changed)  # type: ignore[attr-defined]
    assert isinstance(said, Finding) and "no data" in said.title
    assert said.estimate is not None and 1.5 < said.estimate.speedup <= 4


def test_uneven_work_of_fewer_warps_than_sms_is_a_small_grid(facts: GetFacts) -> None:
    """mandelbrot.bands is uneven; were it 100 warps that do all of it, the other SMs would have nothing to be given.
    operators.specialised runs other code in each block: few warps at each place, work on all SMs."""
    known = facts("mandelbrot.bands")
    code, launch = known.code, known.counters.launch
    assert code is not None and known.profile.warps_at_work > launch.sms
    assert isinstance(rule("GRD403")().run(known), Finding)  # type: ignore[attr-defined]
    few = Facts(scaled(known, COUNTS, set(range(len(code))), 100 / known.profile.warps_at_work))
    assert few.profile.warps_at_work == pytest.approx(100)
    assert not isinstance(rule("GRD403")().run(few), Finding)  # type: ignore[attr-defined]
    assert sms_without_work(few) == pytest.approx(launch.sms - 100, abs=1) and sms_without_work(known) == 0
    assert at_work(few) == pytest.approx(100, abs=1) and at_work(known) == launch.blocks
    spread = facts("operators.specialised")
    assert 0 < spread.profile.warps_at_work < spread.counters.launch.sms and sms_without_work(spread) == 0


def test_blocks_that_end_at_once_fill_no_device(facts: GetFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    """3.4 waves of blocks, of which one has work: a public kernel that was told nothing of it (28x by all threads)."""
    known = facts("mandelbrot.bands")
    code, launch = known.code, known.counters.launch
    assert code is not None
    few = Facts(scaled(known, COUNTS, set(range(len(code))), 16 / known.profile.warps_at_work))
    monkeypatch.setattr(type(few.counters), "launch", msgspec.structs.replace(
        launch, blocks=1792, waves=3.39, active=launch.active_max / 100,
    ))  # fmt: skip
    assert (at_work(few), started(few)) == (16, "1,792 blocks, of which up to 16 have work,")
    said = rule("GRD401")().run(few)  # type: ignore[attr-defined]
    assert isinstance(said, Finding) and "of which up to 16" in said.title and "no warp with work" in said.why
    assert decide(few).limiter == "imbalance"
