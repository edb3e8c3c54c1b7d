"""Blackwell, as far as it goes without the chip: captures of an H200 with the names that reports of sm_100 hold, and a
tile program. Real are the names of the basic set (a B200's report holds them); the values are Hopper's."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest

from kscope.arch import table
from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.facts import Facts
from kscope.model.kernel import Kernel, Metrics
from tests.support import reduced

Read = Callable[[str], Kernel]
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
TC = "sm__pipe_tc_cycles_active.avg.pct_of_peak_sustained_elapsed"
TMEM = "sm__mem_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
FILLS = "lts__d_sectors_fill_sysmem.avg.pct_of_peak_sustained_elapsed"
RENAMED = (
    (re.compile(r"sm__pipe_tensor_op_(hmma|imma|dmma)_"), r"sm__pipe_tensor_subpipe_\1_"),
    (re.compile(r"^lts__d_sectors_fill_sysmem"), "syslts__d_sectors_fill_sysmem"),
)
GONE = re.compile(r"smsp__average_warps_issue_stalled_(gmma|imc_miss)_|sm__pipe_tensor_type_|_op_hgmma_")
"""Names that a report of sm_100 does not hold: waits and paths of wgmma, one wait that the chip does not have."""


def blackwell(kernel: Kernel, tc: float | None = None) -> Kernel:
    """The kernel as a B200 would report it, without code, since that is Hopper's. tc: busy share of the unit behind
    tcgen05, of which the names of older products see next to nothing (1.5 %)."""
    values = {}
    for name, value in kernel.metrics.items():
        if GONE.search(name):
            continue
        for pattern, new in RENAMED:
            name = pattern.sub(new, name)
        values[name] = value
    if tc is not None:
        values = {n: 1.5 if n.startswith(("sm__pipe_tensor_cycles", "sm__pipe_tensor_subpipe")) else v
                  for n, v in values.items()}  # fmt: skip
        values |= {TC: tc, TMEM: 0.6 * tc}
    device = msgspec.structs.replace(kernel.device, name="NVIDIA B200", cc=(10, 0), sms=148)
    return msgspec.structs.replace(
        kernel, device=device, metrics=Metrics(values, {}), program=None, counters=None, timelines=None, opcodes={}
    )


@pytest.mark.parametrize("case", ["gemm_bf16.wgmma", "tensor_loop.wgmma", "wgmma_gemm.unspecialised"])
def test_tcgen05_is_the_tensor_pipe(case: str, kernel: Read) -> None:
    """The old names read 1.5 % on a kernel whose tensor cores are busy: the unit's own name counts."""
    found = analyze_kernel(blackwell(kernel(case), 85.0), case)
    assert found.errors == []
    assert (found.verdict.regime, found.verdict.limiter) == ("compute", "tensor_pipe")
    shares = {u.unit: u.pct for u in found.utilization}
    assert shares["tensor pipe"] == 85.0 and shares["tensor memory"] == 51.0


@pytest.mark.parametrize("case", ["dram_bound.triad", "row_stats.thread", "bank_conflict.slow", "barrier.slow"])
def test_regimes_do_not_depend_on_renamed_names(case: str, kernel: Read) -> None:
    """Whatever a B200 names differently, a kernel without tensor work is judged by the same counters."""
    hopper = msgspec.structs.replace(kernel(case), program=None, counters=None, timelines=None, opcodes={})
    old, new = analyze_kernel(hopper, case).verdict, analyze_kernel(blackwell(kernel(case)), case).verdict
    assert (old.regime, old.limiter) == (new.regime, new.limiter)


def test_memory_across_the_bus_on_slices_of_its_own(kernel: Read) -> None:
    """sm_100 counts fills from system memory at slices that its other L2 counters leave out."""
    few = reduced.reduced(kernel("scale_add.host_input"), "basic")
    m = dict(blackwell(few).metrics)
    slices = m["lts__cycles_elapsed.sum"] / m["lts__cycles_elapsed.avg"]
    m["device__attribute_l2s_count"] = slices + 8
    m[f"sys{FILLS}"] = few.metrics[FILLS] * slices / 8
    sysmem = msgspec.structs.replace(blackwell(few), metrics=Metrics(m, {}))
    assert FILLS not in m
    assert Facts(sysmem).counters.traffic.sysmem_sectors == pytest.approx(
        Facts(few).counters.traffic.sysmem_sectors, rel=0.01
    )
    assert "MEM110" in {f.code for f in analyze_kernel(sysmem, "a").findings}


def test_tile_programs_are_told_nothing_of_threads(kernel: Read) -> None:
    own = kernel("uncoalesced.slow")
    simt = analyze_kernel(own, "a")
    texts = {"launch__execution_model": "Tile"}
    tile = analyze_kernel(msgspec.structs.replace(own, metrics=Metrics(dict(own.metrics), texts)), "a")
    codes = set(table("advice")["tile"]["codes"])
    assert {f.code for f in simt.findings} & codes and not {f.code for f in tile.findings} & codes
    assert "MEM101" in {n.code for n in tile.not_applicable if "tile program" in n.why}
    assert tile.verdict.regime == simt.verdict.regime and tile.errors == []


def test_codes_of_the_tile_table_are_rules() -> None:
    from kscope.rules.registry import all_rules

    assert set(table("advice")["tile"]["codes"]) <= {r.code for r in all_rules()}
