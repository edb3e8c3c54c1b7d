"""How full the units are, part by part, and the names of units that evidence carries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from kscope.arch import table
from kscope.features.counters.units import ACTIVE, ELAPSED, Demand, Part, Unit, busiest, units
from kscope.features.facts import Facts
from kscope.model.contract.analysis import KernelAnalysis
from kscope.model.kernel import Metrics
from kscope.model.units import unit_of
from tests.support import direct, reports

NAMED_BY_KSCOPE = {
    "launch__grid_size": "block",  # the library has no word for it
    "launch__block_size": "thread",
    "memory_l1_wavefronts_shared": "wavefront",  # the library says sectors, which they are not
    "memory_l1_wavefronts_shared_ideal": "wavefront",
    "memory_l2_theoretical_sectors_global": "sector",  # the library's plural, once
    "memory_l2_theoretical_sectors_global_ideal": "sector",
}


def unit(*parts: tuple[str, float], attainable: float = 0.8, name: str = "l1") -> Unit:
    made = tuple(sorted((Part(d, b, d) for d, b in parts), key=lambda p: -p.busy))
    return Unit(name, name.upper(), "memory", "l1_throughput", attainable, made)


def test_load_is_the_busiest_part_over_what_is_attainable() -> None:
    u = unit(("sectors", 0.4), ("requests", 0.6))
    assert u.busy == 0.6
    assert u.load == pytest.approx(0.75)
    assert unit(("sectors", 0.9)).load == 1.0, "never above full"


@pytest.mark.parametrize(
    ("scale", "after"),
    [
        ({}, 0.75),
        ({"requests": 0.5}, 0.5),  # the sectors are the fullest part then
        ({"requests": 0.5, "sectors": 0.25}, 0.375),
        ({"sectors": 0.1}, 0.75),  # a part that was not the limit
        ({"requests": 0.0, "sectors": 0.0}, 0.0),
        ({"requests": 2.0}, 1.5),  # a fix can also add demand: not cut at full
        ({"something else": 0.0}, 0.75),
    ],
)
def test_load_after(scale: dict[str, float], after: float) -> None:
    assert unit(("sectors", 0.4), ("requests", 0.6)).load_after(scale) == pytest.approx(after)


def test_l2_internal_moves_with_sectors_and_requests() -> None:
    u = unit(("l2_internal", 0.8), ("l2_sectors", 0.4), ("l2_requests", 0.4))
    assert u.load_after({"l2_requests": 0.5}) == pytest.approx(0.75)
    assert u.load_after({"l2_requests": 0.5, "l2_sectors": 0.5}) == pytest.approx(0.5)


def test_l2_throughput_counts_what_the_counter_counts_that_it_equals() -> None:
    """In row_stats.thread it is the tag requests, in layernorm_bf16.scalar a counter that no breakdown names."""
    metrics = {"lts__throughput": 42.1, "lts__xbar2lts_cycles_active": 42.1, "lts__t_sectors": 11.3}
    rest = {**metrics, "lts__xbar2lts_cycles_active": 30.0}
    named, unnamed = (
        units(Metrics({f"{k}.avg.pct_of_peak_sustained_elapsed": v for k, v in m.items()}, {}))["l2"]
        for m in (metrics, rest)
    )
    assert named.load_after({"l2_writes": 0.1}) == pytest.approx(0.113 / named.attainable)
    assert unnamed.load_after({"l2_writes": 0.1}) == pytest.approx(0.421 / unnamed.attainable)


def test_from_metrics() -> None:
    spec = table("units")["dram"]
    first = next(iter(spec["parts"]))
    found = units(Metrics({first + ELAPSED: 46.0}, {}))
    assert list(found) == ["dram"]
    assert found["dram"].busy == pytest.approx(0.46)
    assert found["dram"].load == pytest.approx(0.46 / spec["attainable"])
    assert found["dram"].parts[0].metric == first + ELAPSED


def test_active_percentages_are_put_on_the_elapsed_time() -> None:
    """Percent of peak while active counts only while an SM has work."""
    counter = next(iter(table("units")["issue"]["parts"]))
    cycles = {"sm__cycles_active.avg": 300.0, "sm__cycles_elapsed.max": 1200.0}
    assert units(Metrics({counter + ACTIVE: 80.0, **cycles}, {}))["issue"].busy == pytest.approx(0.2)
    both = {counter + ACTIVE: 80.0, counter + ELAPSED: 21.0, **cycles}
    assert units(Metrics(both, {}))["issue"].busy == pytest.approx(0.21), "the elapsed one is exact"


def test_nothing_collected() -> None:
    assert units(Metrics({}, {})) == {}
    assert busiest({}) is None


def test_busiest_is_the_nearest_to_what_it_attains() -> None:
    a, b = unit(("x", 0.7), attainable=0.9, name="a"), unit(("x", 0.65), attainable=0.7, name="b")
    assert busiest({"a": a, "b": b}) is b


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("dram_bound.triad", "dram"), ("ldg32_x4.fast", "dram"), ("bank_conflict.slow", "l1"),
        ("tail_effect.fast", "issue"), ("sgemm.naive", "l1"),
    ],
)  # fmt: skip
def test_saturated_unit(case: str, name: str, facts: Callable[[str], Facts]) -> None:
    f = facts(case)
    assert f.counters.units[name].load > 0.9
    assert f.counters.busiest is not None and f.counters.busiest.load >= f.counters.units[name].load


@pytest.mark.parametrize("case", reports.chosen_cases())
def test_every_capture_has_every_kind_of_unit(case: str, facts: Callable[[str], Facts]) -> None:
    found = facts(case).counters.units
    assert {"dram", "l2", "l1", "lsu", "issue", "fma", "alu", "fp64", "xu", "tensor"} <= set(found)
    for u in found.values():
        assert 0 <= u.busy <= 1 and 0 <= u.load <= 1
        assert [p.busy for p in u.parts] == sorted((p.busy for p in u.parts), reverse=True)
        assert u.load_after({}) == pytest.approx(u.busy / u.attainable)


@pytest.mark.slow
def test_names_agree_with_the_library(
    diagnosis: Callable[[str], KernelAnalysis], report: Callable[[str], Path]
) -> None:
    """Everything that evidence quotes from a report carries the unit that NVIDIA's library gives it."""
    library = direct.ask("units", *(report(case) for case in reports.chosen_cases()))
    quoted = {
        (e.metric, e.unit) for case in reports.chosen_cases() for f in diagnosis(case).findings for e in f.evidence
        if e.metric in library and e.metric not in NAMED_BY_KSCOPE
    }  # fmt: skip
    assert len(quoted) >= 10
    wrong = {metric: (ours, library[metric]) for metric, ours in quoted if ours != library[metric]}
    assert wrong == {}, "metric: (ours, the library's)"
    evidence = [e for case in reports.chosen_cases() for f in diagnosis(case).findings for e in f.evidence]
    assert {(e.metric, e.unit) for e in evidence if e.metric in NAMED_BY_KSCOPE} <= set(NAMED_BY_KSCOPE.items())


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("dram__bytes_read.sum", "byte"), ("dram__bytes_read.sum.per_second", "byte/s"),
        ("gpu__time_duration.sum", "ns"), ("sm__cycles_active.avg", "cycle"),
        ("sm__cycles_elapsed.avg.per_second", "hz"), ("lts__t_sectors.sum", "sector"),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"), ("lts__t_sector_hit_rate.pct", "%"),
        ("smsp__inst_executed.sum", "inst"), ("smsp__thread_inst_executed_per_inst_executed.ratio", ""),
        ("launch__grid_size", "block"), ("launch__registers_per_thread", "register/thread"), ("unheard__of", ""),
    ],
)  # fmt: skip
def test_unit_of(metric: str, expected: str) -> None:
    assert unit_of(metric) == expected


@pytest.mark.parametrize(
    ("read", "written", "given", "attainable"),
    [
        (100, 0, 0, 0.92),
        (50, 50, 50, 0.90),
        (75, 25, 25, 0.91),
        (0, 90, 100, 0.90 * 0.9),  # a tenth is in L2 when the kernel ends
        (0, 50, 100, 0.90),  # half of it: lines were written twice
    ],
)
def test_device_memory_attains_less_where_it_is_written(
    read: float, written: float, given: float, attainable: float
) -> None:
    values = {
        "gpu__dram_throughput" + ELAPSED: 50.0,
        "dram__bytes_read.sum": read * 1e6,
        "dram__bytes_write.sum": written * 1e6,
        "lts__t_sectors_srcunit_tex_op_write.sum": given * 1e6 / 32,
    }
    assert units(Metrics(values, {}))["dram"].attainable == pytest.approx(attainable)


def test_every_demand_is_a_name_that_mypy_knows() -> None:
    """A demand that no unit has would be no effect, in silence. Blocks start at a rate that the estimates know, of L2's
    requests one slice can have most, and what the bus to the host carries is known without a counter of its own."""
    of_units = {demand for spec in table("units").values() for demand in spec["parts"].values()}
    assert (of_units - {"l2_internal"}) | {"blocks", "bus_bytes", "l2_slice"} == set(get_args(Demand))


def test_the_bus_to_the_host_is_a_unit_of_kernels_that_read_over_it(facts: Callable[[str], Facts]) -> None:
    """No counter has its load: bytes that L2 took from system memory, over the time and the link's rate."""
    away = facts("scale_add.host_input")
    one = away.counters.units["bus"]
    seconds = (away.kernel.duration_ns or 0.0) / 1e9
    assert one.busy == pytest.approx(32 * away.counters.traffic.sysmem_sectors / seconds / 63e9)
    assert one.load > 0.95 and away.counters.busiest is one
    assert away.estimate.overlap(8.0).speedup < 1.1, "more loads in flight do not make a full bus faster"
    assert away.estimate.overlap(8.0, {"bus_bytes": 0.1}).speedup > 2
    assert "bus" not in facts("small_grid.slow").counters.units
