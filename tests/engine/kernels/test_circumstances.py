"""What is said of the measurement itself: clocks, caches, first launches, borrowed numbers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kscope.engine.kernels.kernel import analyze_kernel
from kscope.features.counters.stalls import COUNTER
from kscope.model.kernel import Kernel
from tests.support.edit import with_metrics

Read = Callable[[str], Kernel]
CLOCK = "gpc__cycles_elapsed.avg.per_second"
HIGHEST = "device__attribute_clock_rate"


def notes(kernel: Kernel, **recorded: str) -> str:
    options = {name.replace("_", "-"): value for name, value in recorded.items()}
    found = analyze_kernel(msgspec.structs.replace(kernel, recorded=options or kernel.recorded), "a")
    assert found.errors == []
    return " | ".join(found.notes)


def test_captures_say_how_they_were_recorded(kernel: Read) -> None:
    recorded = kernel("row_stats.thread").recorded
    assert recorded["clock-control"] == "none" and recorded["set"] == "full"


def test_clocks(kernel: Read) -> None:
    own = kernel("exp_chain.base")
    assert "GHz" not in notes(own), "free clocks, near the highest"
    slow = with_metrics(own, {CLOCK: 1.10e9})
    held = notes(slow, set="full")
    assert "measured at 1.10 GHz, 56 % of the highest clock (1.98 GHz)" in held and "1.80x less" in held
    assert "clocks were free" in notes(slow, clock_control="none")


def test_cold_caches_of_data_that_fit(kernel: Read) -> None:
    """16 MB out of device memory, for an L2 of 63; the triad moves hundreds."""
    fits, streams = kernel("scale_add.device_input"), kernel("dram_bound.triad")
    told = notes(fits, set="full")
    assert "ncu emptied the caches" in told and "fit in L2 (62.9 MB)" in told
    assert "caches" not in notes(fits, set="full", cache_control="none")
    assert "caches" not in notes(streams, set="full")


def test_company(kernel: Read) -> None:
    own = kernel("dram_bound.triad")
    assert "MPS" in notes(with_metrics(own, {"launch__uses_mps": 1.0}))
    assert "green context" in notes(with_metrics(own, {"launch__uses_green_context": 1.0}))
    assert "MPS" not in notes(own)


def test_first_launch(kernel: Read) -> None:
    """Its warps fetch code for most of 2 us; a later launch of the same program does not have to."""
    assert "first launch" not in notes(msgspec.structs.replace(kernel("launch_bound.tiny"), index=0), set="full")
    own = with_metrics(kernel("launch_bound.tiny"), {COUNTER.format("no_instruction"): 40.0})
    at_once, later = msgspec.structs.replace(own, index=0), msgspec.structs.replace(own, index=4)
    assert "first launch of the program" in notes(at_once, set="full")
    assert "first launch" not in notes(later, set="full")
    assert "first launch" not in notes(at_once, set="full", launch_skip="1")


def test_borrowed_numbers_are_said(kernel: Read) -> None:
    """Whatever of the tables is not of the chip itself: latencies, issue intervals, attained shares of peaks."""
    own = kernel("exp_chain.base")
    assert "not of sm_90" not in notes(own)
    for cc, intervals in (((8, 7), "sm_86"), ((12, 1), "sm_120"), ((10, 3), "sm_75"), ((7, 0), "sm_75")):
        told = notes(msgspec.structs.replace(own, device=msgspec.structs.replace(own.device, cc=cc)))
        assert intervals in told and "measured on an H200" in told
    turing = notes(msgspec.structs.replace(own, device=msgspec.structs.replace(own.device, cc=(7, 5))))
    assert "latency of device memory (a default)" in turing


def test_borrowed_latencies_are_said(kernel: Read) -> None:
    own = kernel("exp_chain.base")
    for cc, borrowed in (((9, 0), False), ((8, 6), True), ((12, 0), True), ((8, 0), False)):
        device = msgspec.structs.replace(own.device, cc=cc)
        assert ("not published" in notes(msgspec.structs.replace(own, device=device))) == borrowed
