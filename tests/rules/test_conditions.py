"""Each way to mend a fault has its condition; where that does not hold, the finding says so and promises less."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.features.facts import CodeFacts, Facts, Listing
from kscope.model.contract.analysis import Finding, KernelAnalysis
from kscope.model.kernel import Kernel
from kscope.rules._shared.blocks.deeper_loads import CHAINS, UNROLL
from kscope.rules._shared.blocks.idle_warps import crowded
from kscope.rules._shared.uniform_loads import CONSTANT, SEVERAL, STAGED
from kscope.rules._shared.wide_accesses import fed
from kscope.rules.base import Passed
from kscope.rules.grid.load_imbalance import ORDER, PIECES, QUEUE
from kscope.rules.grid.small_grid import SmallGrid
from kscope.rules.latency.dependency_chain import ACCUMULATORS, ITEMS, DependencyChain
from kscope.rules.latency.exposed_memory_latency import EARLIER, FATTER
from kscope.rules.latency.instruction_cache_misses import _hot_code
from kscope.rules.latency.warp_divergence import ROUNDS, SORTED, WarpDivergence
from kscope.rules.memory.local_memory_indexing import SHARED, SMALLER
from tests.features.listings import program
from tests.support.edit import with_metrics, without_metrics
from tests.support.said import found, outcome

CHAINED = """
S2R R0, SR_TID.X
LDC.64 R2, c[0x0][0x210]
LDC.64 R8, c[0x0][0x218]
CS2R R10, SRZ
IMAD.WIDE R4, R0, 0x4, R2
LDG.E R6, desc[UR4][R4.64]
IADD3 R0, R0, 0x80, RZ
{step}
ISETP.GE.AND P0, PT, R0, 0x8000, PT
@!P0 BRA 0x40
STG.E desc[UR4][R8.64], R10
EXIT
"""


def waves(kernel: Kernel, number: float) -> Kernel:
    return msgspec.structs.replace(kernel, launch=msgspec.structs.replace(kernel.launch, waves=number))


def gain(finding: Finding) -> float:
    assert finding.estimate is not None
    return finding.estimate.speedup


@pytest.mark.parametrize(
    ("case", "way", "not_"),
    [
        ("list_walk.serial", CHAINS, {UNROLL}),  # each address is loaded
        ("bags.sentinel", UNROLL, set[str]()),
        ("triton_gather.block32", FATTER, {UNROLL}),  # no loop, many waves
    ],
)
def test_more_loads_in_flight_by_what_the_code_allows(
    case: str, way: str, not_: set[str], facts: Callable[[str], Facts]
) -> None:
    finding = found("LAT302", facts(case))
    assert finding.fix == way
    assert {r.step for r in finding.remedies if not r.applies} == not_


def test_loads_outside_loops_of_a_launch_of_one_wave_gain_little(facts: Callable[[str], Facts]) -> None:
    kernel = facts("triton_gather.block32").kernel
    many, few = found("LAT302", Facts(kernel)), found("LAT302", Facts(waves(kernel, 0.4)))
    assert few.fix == EARLIER and gain(few) < 1.3 < gain(many)
    assert {r.step for r in few.remedies} == {UNROLL, FATTER} and not any(r.applies for r in few.remedies)
    assert few.confidence < many.confidence


def test_wider_accesses_of_one_element_a_thread_need_waves(facts: Callable[[str], Facts]) -> None:
    kernel = facts("triton_gather.block32").kernel
    many, few = found("MEM102", Facts(kernel)), found("MEM102", Facts(waves(kernel, 0.3)))
    assert many.pulls == few.pulls == ["-threads"]
    assert gain(few) < gain(many) - 0.5
    (against,) = few.remedies
    assert not against.applies and against.why.startswith("0.3 waves")


def test_wider_accesses_of_a_loop_do_not(facts: Callable[[str], Facts]) -> None:
    """small_grid.slow fills a hundredth of the device, and each thread walks on and on."""
    finding = found("MEM102", facts("small_grid.slow"))
    assert finding.pulls == [] and finding.remedies == [] and gain(finding) > 2


def test_more_warps_are_no_cure_where_warps_queue_for_the_issue_slot(facts: Callable[[str], Facts]) -> None:
    known = facts("tma_scale.stages2")
    assert not known.counters.launch.idle_sms
    assert isinstance(outcome("GRD401", known), Finding)
    ready = {f"smsp__average_warps_issue_stalled_{r}_per_issue_active.ratio": 0.0
             for r in ("long_scoreboard", "wait", "short_scoreboard", "barrier")}  # fmt: skip
    ready["smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio"] = 5.0
    assert not isinstance(outcome("GRD401", Facts(with_metrics(known.kernel, ready))), Finding)


def test_fewer_registers_end_where_spills_begin(facts: Callable[[str], Facts]) -> None:
    """A thread can spare some of its registers, not two thirds: no more warps are promised than then fit."""
    known = facts("hgemm.wmma_onestage")
    finding = found("LAT301", known)
    assert "-registers" in finding.pulls
    launch = known.kernel.launch
    reached = known.profile.occupancy_with(int(0.6 * launch.registers), launch.threads)
    assert reached is not None and f"{reached.warps} warps would fit" in finding.why


@pytest.mark.parametrize(
    ("case", "number", "fix", "not_"),
    [
        ("dependency_chain.slow", 1.0, ACCUMULATORS, 0),  # a x + c: a linear recurrence falls into parts
        ("mandelbrot.bands", 4.0, ITEMS, 1),  # z^2 + c does not; pixels do
        ("mandelbrot.bands", 0.5, "more problems at once", 2),
    ],
)
def test_an_iteration_is_no_sum(
    case: str, number: float, fix: str, not_: int, facts: Callable[[str], Facts]
) -> None:
    known = Facts(waves(facts(case).kernel, number))
    assert known.code is not None
    chain = known.patterns.carried_chain(known.code.blamed)
    said, chains, others = DependencyChain()._way(known, known.code, chain)
    assert said.startswith(fix) and len(others) == not_ and not any(r.applies for r in others)
    assert chains == {ACCUMULATORS: 4.0, ITEMS: 2.0}.get(said, 1.0)


@pytest.mark.parametrize(("case", "one_pass"), [("divergence.slow", False), ("nucleus.walk", True)])
def test_fuller_warps_bring_little_at_once_where_each_makes_one_pass(
    case: str, one_pass: bool, facts: Callable[[str], Facts]
) -> None:
    """Lanes on different sides cost their warp a pass each, wherever it runs; one lane that walks alone costs one."""
    kernel = facts(case).kernel
    many, at_once = found("LAT305", Facts(waves(kernel, 4.0))), found("LAT305", Facts(waves(kernel, 0.9)))
    saved = (1 - 1 / gain(at_once)) / (1 - 1 / gain(many))
    assert (saved < 0.3) if one_pass else (saved > 0.7)


@pytest.mark.parametrize(
    ("case", "fix"), [("mandelbrot.bands", ROUNDS), ("csr.thread", ROUNDS), ("divergence.slow", SORTED)]
)
def test_lanes_that_left_a_loop_are_told_from_those_on_another_way(
    case: str, fix: str, facts: Callable[[str], Facts]
) -> None:
    """What a round computes predicated costs as much: lanes that are through need another item, not another way."""
    known = facts(case)
    code = known.code
    assert code is not None
    narrow = [i for i, n in enumerate(code.executed) if n > 0 and code.threads[i] / n < 31]
    assert WarpDivergence()._mended(known, code, narrow, 32.0)[1] == fix


@pytest.mark.parametrize(("case", "most"), [("nearest256.block", True), ("rank16.block", False)])
def test_more_elements_a_thread_where_the_tree_is_most_and_each_has_one(
    case: str, most: bool, facts: Callable[[str], Facts]
) -> None:
    """Of fewer threads with more elements a tree has fewer rounds; 16 terms for 256 threads leave none with more."""
    finding = found("GRD405", facts(case))
    assert (finding.first == []) == most and (finding.confidence > 0.5) == most
    if most:  # a warp an item, eight elements a lane, was measured
        assert finding.estimate is not None and finding.estimate.low <= 78.8 / 19.4 <= finding.estimate.high


def test_work_shared_among_few_is_joined_by_few(facts: Callable[[str], Facts]) -> None:
    """Four threads can share a thread's rounds: room for a thousand times the blocks writes no more."""
    known, rule_ = facts("list_walk.serial"), SmallGrid()
    path = known.estimate.latency_floor
    assert path is not None and 3 < known.patterns.pieces(path.walk).most < 5
    gains = [rule_._shared_out(known, room)[0].speedup for room in (4.0, 32.0, 1000.0)]
    assert gains == sorted(gains) and gains[0] > 1.5


def test_a_local_array_goes_to_shared_memory_only_where_a_block_has_room(facts: Callable[[str], Facts]) -> None:
    kernel = facts("local_array.slow").kernel
    assert kernel.program is not None
    small = found("MEM105", Facts(kernel))
    assert small.fix == SHARED and gain(small) > 1.5
    (other,) = small.remedies
    assert (other.step, other.applies) == ("constant indices (full unroll)", False)
    assert other.why == "64 registers more a thread leave 33 % of the warps"
    code = kernel.program.instructions
    (place,) = (n for n, ins in enumerate(code) if ins.defs == (1,) and 1 in ins.uses)
    frame = [msgspec.structs.replace(o, value=-(1 << 15)) if o.kind == "integer" else o for o in code[place].operands]
    wide = msgspec.structs.replace(code[place], operands=tuple(frame))
    program = msgspec.structs.replace(kernel.program, instructions=(*code[:place], wide, *code[place + 1 :]))
    large = found("MEM105", Facts(msgspec.structs.replace(kernel, program=program)))
    assert large.fix == SMALLER and large.estimate is None, "words that fit nowhere: no gain is known"
    assert large.severity == "major", "and most of the time is there"
    assert [r.step for r in large.remedies] == [SHARED] and "32,768 bytes" in large.remedies[0].why


@pytest.mark.parametrize(
    ("step", "own"), [("FFMA R10, R10, R10, R6", True), ("FADD R10, R10, R6", False)], ids=["a chain", "a sum"]
)
def test_words_that_one_chain_takes_in_are_not_made_wider(step: str, own: bool) -> None:
    """A lane that sums up words can take any; one that runs them through a chain needs its own, in their order."""
    code = CodeFacts(Listing(program(CHAINED.format(step=step)), "test"))
    (load,) = code.code.where(lambda ins, op: ins.opcode == "LDG")
    assert (load in fed(code, code.code)) == own


@pytest.mark.parametrize("dropped", [("sm__cycles", "gpc__cycles"), ("sm__cycles_active.max",)])
def test_no_grid_makes_a_kernel_shorter_than_an_empty_one(
    dropped: tuple[str, ...], facts: Callable[[str], Facts]
) -> None:
    """2.1 us, of which most is the launch, also where how long SMs had work was not collected, or only on average."""
    known = facts("launch_bound.tiny")
    assert isinstance(outcome("GRD401", known), Passed)
    less = Facts(without_metrics(known.kernel, lambda name: name.startswith(dropped)))
    grid, tiny = outcome("GRD401", less), found("OVH606", less)
    assert isinstance(grid, Passed) or gain(grid) < 1.6 < gain(tiny)  # type: ignore[arg-type]
    assert gain(tiny) > 2.5 and gain(found("GRD401", facts("small_grid.slow"))) > 50


@pytest.mark.parametrize(
    ("case", "fix", "sure"),
    [
        ("ragged.block", QUEUE, (0.6, 0.6)),  # 1.94 waves: blocks can be put in another order
        ("mandelbrot.bands", PIECES, (0.5, 0.6)),  # all at once, and the busiest SM is full of work
        ("pairs.rows", PIECES, (0.3, 0.4)),  # all at once, and even the busiest SM waits: for its longest thread
    ],
)
def test_blocks_that_all_start_at_once_have_no_order(
    case: str, fix: str, sure: tuple[float, float], facts: Callable[[str], Facts]
) -> None:
    finding = found("GRD403", facts(case))
    assert finding.fix == fix and sure[0] <= finding.confidence <= sure[1]
    assert {r.step for r in finding.remedies if not r.applies} == ({ORDER} if fix == PIECES else set())


@pytest.mark.parametrize(
    ("code", "case", "applies", "not_"),
    [
        ("LAT302", "nearest.plain", {STAGED, CONSTANT}, {SEVERAL}),  # half a wave
        ("MEM102", "attn.global", {STAGED}, {CONSTANT, SEVERAL}),  # each row of blocks its own keys
        ("LAT302", "bags.sentinel", set[str](), set[str]()),
        ("MEM102", "narrow_loads.slow", set[str](), set[str]()),
    ],
)
def test_what_all_lanes_load_alike_can_be_staged_or_constant(
    code: str, case: str, applies: set[str], not_: set[str], facts: Callable[[str], Facts]
) -> None:
    finding = found(code, facts(case))
    assert {r.step for r in finding.remedies if r.applies} == applies
    assert {r.step for r in finding.remedies if not r.applies} == not_
    assert ("all lanes want the same" in finding.fix) == bool(applies) or code == "LAT302"


def test_smaller_blocks_take_the_registers_that_whole_ones_leave(facts: Callable[[str], Facts]) -> None:
    """1,024 threads of 40 registers: one block an SM, and a third of its registers stay empty. Of 54 they do not."""
    limits = {"launch__occupancy_limit_registers": 1.0, "launch__occupancy_limit_warps": 2.0}
    known = with_metrics(facts("ldg32_l2.fast").kernel, limits)

    def ways(registers: int, shared_static: int = 0) -> list[tuple[str, bool]]:
        launch = msgspec.structs.replace(known.launch, block=(1024, 1, 1), registers=registers)
        launch = msgspec.structs.replace(launch, shared_static=shared_static)
        said = found("LAT301", Facts(msgspec.structs.replace(known, launch=launch)))
        return [(r.step, r.applies) for r in said.remedies if r.step.startswith("blocks of")]

    assert ways(40) == [("blocks of 512 threads", True)]
    assert ways(54) == [] and ways(40, shared_static=4096) == []
    meets = found("LAT301", facts("barrier.slow"))
    assert not any(r.step.startswith("blocks of") for r in meets.remedies)


def test_what_local_memory_moves_is_not_saved_by_better_lanes(kernel: Callable[[str], Kernel]) -> None:
    """A kernel whose lanes write apart, and the same with nine times as much traffic of local memory: sectors of that
    stay, whatever the lanes do."""
    alone = kernel("chol8.direct")
    names = {"st": "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum", "l2": "lts__t_sectors_srcunit_tex.sum"}
    through, moved = alone.metrics[names["l2"]], Facts(alone).counters.traffic
    assert through is not None and moved.others == 0
    own = moved.global_load_sectors + moved.global_store_sectors
    beside = with_metrics(alone, {names["st"]: 9 * own, names["l2"]: 10 * through})
    assert Facts(beside).counters.traffic.others == pytest.approx(9 * through)
    few, many = (gain(found("MEM101", Facts(k))) for k in (alone, beside))
    assert few > 3 and many < 1.1


def test_outputs_of_a_window_are_no_more_than_waves(facts: Callable[[str], Facts]) -> None:
    """A thread with eight outputs leaves an eighth of the threads: a grid of one wave has none to spare."""
    kernel = facts("window.one").kernel
    many, some = found("MEM112", facts("window.one")), found("MEM112", Facts(waves(kernel, 5.0)))
    assert many.fix.startswith("8 outputs a thread, side by side") and some.fix.startswith("4 outputs a thread")
    assert gain(many) > gain(some) > 1
    assert isinstance(outcome("MEM112", Facts(waves(kernel, 1.5))), Passed)


def test_a_full_unit_is_a_windows_where_no_warp_shows_its_wait(facts: Callable[[str], Facts]) -> None:
    """Warps enough to cover each wait are never seen at the loads that fill L1: they are ready, and not chosen."""
    kernel = facts("window.one").kernel
    assert kernel.counters is not None
    columns = dict(kernel.counters.by_name)
    ready = next(name for name in columns if name.endswith("stalled_not_selected"))
    for name in [n for n in columns if "stalled" in n and not n.endswith(("selected", "not_issued"))]:
        columns[ready] = [a + b for a, b in zip(columns[ready], columns[name], strict=True)]
        columns[name] = [0.0] * len(columns[name])
    counters = msgspec.structs.replace(kernel.counters, by_name=columns)
    covered = found("MEM112", Facts(msgspec.structs.replace(kernel, counters=counters)))
    assert covered.fix.startswith("8 outputs a thread, side by side") and gain(covered) > 1.3


def test_windows_need_registers_and_a_busy_unit(facts: Callable[[str], Facts]) -> None:
    kernel = facts("window.one").kernel
    full = msgspec.structs.replace(kernel, launch=msgspec.structs.replace(kernel.launch, registers=248))
    assert found("MEM112", Facts(full)).fix.startswith("2 outputs a thread")
    stencil = facts("build.optimised")
    assert stencil.profile.windows(stencil.lanes.inside), "neighbours load the same again"
    assert isinstance(outcome("MEM112", stencil), Passed), "but nothing stands in line for L1"


def test_windows_whose_clamped_indices_fill_the_integer_pipe(facts: Callable[[str], Facts]) -> None:
    """Nobody waits for their loads (L1 34 %); with the pipe half empty there is nothing to gain by fewer of them."""
    kernel = facts("peaks.clipped").kernel
    said = found("MEM112", Facts(kernel))
    assert "of the full integer pipe" in said.why and gain(said) > 2
    pipe = {name: value / 2 for name, value in kernel.metrics.items() if "pipe_alu" in name and "pct" in name}
    assert pipe and isinstance(outcome("MEM112", Facts(with_metrics(kernel, pipe))), Passed)


def test_code_that_runs_once_is_all_that_runs(facts: Callable[[str], Facts]) -> None:
    """Where no loop has half of the waits for instructions, what counts is the size of all code that runs."""
    looped, straight = facts("operators.generic").code, facts("lines.each").code
    assert looped is not None and straight is not None
    size, in_loop = _hot_code(looped, looped.stall.get("no_instructions"))
    assert in_loop and size < 16 * len(looped)
    nothing = [0.0] * len(straight)
    assert _hot_code(straight, nothing) == (16 * len(straight.ran(range(len(straight)))), False)


def test_more_threads_come_first_where_one_runs_alone(facts: Callable[[str], Facts]) -> None:
    kernel = facts("force.alone").kernel
    assert not found("LAT302", Facts(kernel)).first, "four blocks of whole warps"
    alone = msgspec.structs.replace(kernel.launch, grid=(1, 1, 1), block=(1, 1, 1))
    one = msgspec.structs.replace(with_metrics(kernel, {"launch__grid_size": 1.0}), launch=alone)
    assert found("LAT302", Facts(one)).first == ["GRD401"]


@pytest.mark.parametrize(("case", "held_up"), [("evolve.large", True), ("small_grid.slow", False)])
def test_smaller_blocks_are_told_where_warps_hold_each_other_up(
    case: str, held_up: bool, facts: Callable[[str], Facts], diagnosis: Callable[[str], KernelAnalysis]
) -> None:
    """An SM of its own makes no warp faster that waits for its own loads alone."""
    assert crowded(facts(case)) is held_up
    found = next(f for f in diagnosis(case).findings if f.code == "GRD401")
    refused = [r for r in found.remedies or [] if r.step == "smaller blocks" and not r.applies]
    assert ("smaller blocks" in found.fix) is held_up
    assert bool(refused) is not held_up
