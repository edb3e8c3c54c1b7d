"""What kernels in public reports taught, on captures of ours that are changed into what those had."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kscope.engine.findings.rank import severity
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Estimate, KernelAnalysis
from kscope.model.kernel import Kernel
from kscope.rules._shared.atomics import queueing, sectors_share
from kscope.rules._shared.blocks.wider_blocks import USUAL, places
from kscope.rules._shared.data_reuse import FULL, WORDS, wasteful
from kscope.rules._shared.wide_accesses import apart_stores, candidates
from tests.support.edit import with_metrics, without_metrics

GetKernel = Callable[[str], Kernel]
WAITED = "smsp__average_warps_issue_stalled_"
PEAK = "pct_of_peak_sustained_elapsed"


def test_a_debug_build_comes_first_whatever_it_promises(
    kernel: GetKernel, diagnosis: Callable[[str], KernelAnalysis]
) -> None:
    """A debug build that device memory limits gains nothing from optimised code, and nothing else can be said of it."""
    (found,) = diagnosis("build.debug").findings
    level = Estimate(speedup=1.0, low=0.9, high=1.1, capped_by="device memory", kind="modelled")
    assert found.code == "CMP212" and severity(replace(found, estimate=level)) == "minor"
    full = {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 90.0}
    limited = analyze_kernel(with_metrics(kernel("build.debug"), full), "x")
    assert [f.code for f in limited.findings] == ["CMP212"] and limited.findings[0].severity != "info"
    assert limited.next_step is not None and limited.next_step.code == "CMP212"


def test_local_arrays_of_a_debug_build_may_become_registers(kernel: GetKernel) -> None:
    """What they access goes then, too: a busy load path caps the expected gain, not the upper end."""
    busy = {"l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed": 60.0}
    (found,) = analyze_kernel(with_metrics(kernel("build.debug"), busy), "x").findings
    assert found.estimate is not None and found.estimate.speedup < 1.7 and found.estimate.high > 5


@pytest.mark.parametrize(("names", "share"), [(("atom",), 0.8), (("atom_dot_alu", "atom_dot_cas"), 0.8), ((), None)])
def test_sectors_of_atomics_by_the_names_of_each_chip(
    names: tuple[str, ...], share: float | None, kernel: GetKernel
) -> None:
    plain = kernel("atomics.slow")
    counted = {f"lts__t_sectors_srcunit_tex_op_{n}.sum": 0.0 for n in names}
    mix = {"lts__t_sectors_srcunit_tex.sum": 100.0, "lts__t_sectors_srcunit_tex_op_red.sum": 80.0}
    bare = without_metrics(plain, lambda name: name.startswith("lts__t_sectors_srcunit_tex_op_atom"))
    known = Facts(with_metrics(bare, {**mix, **counted}))
    assert known.code is not None
    atomics = known.code.where(lambda ins, op: op.access in ("atomic", "reduction"))
    found = sectors_share(known, atomics)
    assert found == (share if share is not None else known.profile.sectors_share(atomics))


def test_a_queue_before_idle_units_is_that_of_the_atomics_in_it(kernel: GetKernel) -> None:
    """Few samples are at the atomics, most at the loads behind them in the same queue."""
    plain = kernel("atomics.slow")
    spread = with_metrics(plain, {"lts__t_sectors.max": plain.metrics["lts__t_sectors.avg"]})
    every = sum(v for n, v in plain.metrics.items() if n.startswith(WAITED))
    held = with_metrics(spread, {f"{WAITED}lg_throttle_per_issue_active.ratio": 20 * every})
    few, much = Facts(spread), Facts(held)
    assert few.counters.stalls.of("lg_throttle") < 0.1 and much.counters.stalls.of("lg_throttle") > 0.9
    assert queueing(few, 0.1, hot=False) == 0.1
    assert queueing(much, 0.1, hot=False) == 1.0


def test_blocks_of_few_threads_leave_places(kernel: GetKernel) -> None:
    """julia.block6x6 with nine threads: an SM takes 32 such blocks, where registers let 2,048 threads be."""
    plain = kernel("julia.block6x6")
    assert places(Facts(plain)) == 0, "slots for blocks are not what limits it"
    small = replace(plain, launch=replace(plain.launch, block=(9, 1, 1)))
    known = Facts(with_metrics(small, {"launch__occupancy_limit_blocks": 32.0, "launch__occupancy_limit_warps": 64.0}))
    held = places(known)
    assert held >= 2 * known.counters.launch.sms * 32 * 9 and held % USUAL == 0


@pytest.mark.parametrize("case", ["qk.float", "lora.fma"])
def test_tiles_that_the_load_path_limits_are_too_small(case: str, kernel: GetKernel) -> None:
    """Half a word a multiply-add: too much where L1 and shared memory are the fullest unit, enough elsewhere."""
    plain = kernel(case)
    known = Facts(plain)
    assert known.code is not None
    loops = wasteful(known, known.code)
    assert loops and all(FULL < lp.words_per_fma <= WORDS for lp in loops)
    free = Facts(with_metrics(plain, {n: 10.0 for n in plain.metrics if n.startswith("l1tex__") and n.endswith(PEAK)}))
    assert free.code is not None and not wasteful(free, free.code)


def test_stores_of_pieces_are_priced_by_what_reaches_l2(kernel: GetKernel) -> None:
    """dwconv.eight stores 16 bytes a thread in four pieces: L1 makes one of them, unless the counter says otherwise."""
    plain = kernel("dwconv.eight")

    def spare(kernel: Kernel) -> float:
        known = Facts(kernel)
        assert known.code is not None
        return apart_stores(known, known.code, candidates(known, known.code)[0])

    name = "lts__t_sectors_srcunit_tex_op_write.sum"
    assert spare(plain) < 0.12
    assert spare(with_metrics(plain, {name: 4 * plain.metrics[name]})) > 0.5
