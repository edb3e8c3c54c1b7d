"""What a fix can gain: promises that no unit of the chip contradicts, for any kernel."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscope.arch.estimates import constants
from kscope.features.counters.launch import Geometry
from kscope.features.counters.stalls import StallMix
from kscope.features.counters.units import Part, Unit
from kscope.features.estimate import gains
from kscope.features.estimate.bounds import Bounds
from kscope.features.estimate.latency_floor import LatencyPath
from kscope.features.facts import Facts
from kscope.features.sass.warp_simulation import Walk
from kscope.model.contract.analysis import Estimate, KernelAnalysis
from tests.support import reports

DEMANDS = ("sectors", "requests", "wavefronts", "instructions")
ROUNDING = 1.002  # speed-ups are given with three decimals
share = st.floats(0, 1)
part = st.builds(lambda d, b: Part(d, b, d), st.sampled_from(DEMANDS), share)


def unit(name: str, attainable: float, parts: list[Part]) -> Unit:
    ordered = tuple(sorted(parts, key=lambda p: -p.busy))
    return Unit(name, name.upper(), "memory", "l1_throughput", attainable, ordered)


def geometry(outside: float = 0.0) -> Geometry:
    return Geometry(
        blocks=1000, warps_per_block=8, sms=100, blocks_per_sm=4, limits={}, waves=2.5, cycles=1e6,
        active=1 - outside, active_max=1 - outside, duration_us=500.0,
    )  # fmt: skip


def bounds(*units: Unit, floor: float | None = None, outside: float = 0.0) -> Bounds:
    path = LatencyPath(1000.0, floor, Walk(1000.0, (), [], 0.0, ())) if floor is not None else None
    mix = StallMix({"wait": 1.0}, 100, True, 10.0)
    return Bounds({u.name: u for u in units}, mix, geometry(outside), path, constants(), 1.0)


def few_blocks(*units: Unit, idle: int) -> Bounds:
    """Of a grid that leaves `idle` of the 100 SMs empty."""
    some = bounds(*units)
    return msgspec.structs.replace(some, launch=msgspec.structs.replace(some.launch, blocks=100 - idle))


any_units = st.lists(st.tuples(st.floats(0.5, 1), st.lists(part, min_size=1, max_size=4)), max_size=4).map(
    lambda rows: [unit(f"u{i}", attainable, parts) for i, (attainable, parts) in enumerate(rows)]
)
any_bounds = st.builds(
    lambda units, floor, outside: bounds(*units, floor=floor, outside=outside),
    any_units, st.none() | st.floats(0, 1.5), st.floats(0, 0.9),
)  # fmt: skip
scales = st.dictionaries(st.sampled_from(DEMANDS), share)


def check(e: Estimate) -> None:
    assert 1 - constants().cost <= e.low <= e.speedup <= e.high
    assert e.capped_by and e.kind == "modelled"


def remaining_load(b: Bounds, scale: dict[str, float]) -> float:
    return max((u.load_after(scale) for u in b.units.values()), default=0.0)


@given(any_bounds, share, share, scales)
def test_relieve_is_ordered_and_capped(b: Bounds, touched: float, remaining: float, scale: dict[str, float]) -> None:
    e = b.relieve(touched, remaining, scale)
    check(e)
    load = remaining_load(b, scale)
    assert e.speedup * min(1.0, load) <= ROUNDING, "a unit would have to work faster than it can"


@given(any_bounds, st.floats(1, 100), scales)
def test_overlap_is_ordered_and_capped(b: Bounds, factor: float, scale: dict[str, float]) -> None:
    e = b.overlap(factor, scale)
    check(e)
    assert e.speedup * min(1.0, remaining_load(b, scale)) <= ROUNDING
    assert e.speedup <= factor * ROUNDING or remaining_load(b, scale) < remaining_load(b, {})


@given(any_bounds, st.floats(1, 200))
def test_balance_is_ordered_and_capped(b: Bounds, factor: float) -> None:
    e = b.balance(factor, "whole waves")
    check(e)
    assert e.speedup <= factor * ROUNDING
    assert e.speedup * min(1.0, remaining_load(b, {})) <= ROUNDING


@given(any_bounds, share, share, st.floats(0, 0.5), scales)
def test_relieve_grows_with_what_it_touches(
    b: Bounds, one: float, other: float, remaining: float, scale: dict[str, float]
) -> None:
    """As long as it removes more of what it touches than queueing removes of the rest (at most half)."""
    less, more = sorted((one, other))
    assert b.relieve(less, remaining, scale).speedup <= b.relieve(more, remaining, scale).speedup + 0.001


@given(any_bounds, share, share, share, scales)
def test_relieve_grows_with_what_it_removes(
    b: Bounds, touched: float, one: float, other: float, scale: dict[str, float]
) -> None:
    fewer, more = sorted((one, other))
    assert b.relieve(touched, more, scale).speedup <= b.relieve(touched, fewer, scale).speedup + 0.001


@given(any_bounds, st.floats(1, 50), st.floats(1, 50))
def test_overlap_grows_with_what_is_in_flight(b: Bounds, one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert b.overlap(less).speedup <= b.overlap(more).speedup + 0.001


@given(any_bounds)
def test_nothing_done_gains_nothing(b: Bounds) -> None:
    assert b.overlap(1).speedup == 1
    assert b.balance(1, "x").speedup == 1
    assert b.relieve(0, 1, {}).speedup == 1
    assert b.relieve(0.5, 1, {}).speedup == 1, "nothing of it goes"


@given(any_bounds, share, share, st.floats(1, 100), st.floats(0.5, 1), scales)
def test_nothing_is_promised_where_a_unit_stays_full(
    b: Bounds, touched: float, remaining: float, factor: float, attainable: float, scale: dict[str, float]
) -> None:
    full = unit("full", attainable, [Part("untouched", attainable, "m")])
    b = Bounds({**b.units, "full": full}, b.stalls, b.launch, b.latency_floor, b.constants, b.resident)
    for e in (b.relieve(touched, remaining, scale), b.overlap(factor, scale), b.balance(factor, "x")):
        assert e.speedup == pytest.approx(1, abs=0.002)


def test_a_promise_of_nothing_holds_the_noise_of_a_measurement() -> None:
    """Two runs of one kernel differ by 3.5 %: a step that does nothing is measured at 0.97 or 1.03."""
    full = bounds(unit("dram", 1.0, [Part("dram_bytes", 1.0, "d")]))
    noise, wider = constants().noise, full.overlap(8.0)
    nothing = [
        full.relieve(0.5, 0.2, {}, hides=True), wider, full.balance(1.0, "tail"), gains.no_higher(wider, 1.0, noise),
        full.removed(0.0, sure=1.0, plateau=0.9), gains.uncapped(wider, noise, told=False),
    ]  # fmt: skip
    for e in nothing:
        assert e.speedup == 1 and e.low <= 1 / 1.035 + 0.001 and e.high >= 1.035


def test_amdahl() -> None:
    """No unit, no floor: half of the time gone is twice as fast; three quarters of a half, 1.6 times."""
    assert bounds().relieve(0.5, 0.0, {}).speedup == pytest.approx(2, rel=0.01)
    assert bounds().relieve(0.5, 0.25, {}).speedup == pytest.approx(1.6, rel=0.01)


def test_a_unit_full_of_stores_is_their_time() -> None:
    """No warp waits at a store: with a tenth of the samples they may still be what fills the unit, and all waits."""
    l2 = unit("l2", 1.0, [Part("writes", 1.0, "m")])
    scale = {"writes": 0.1}
    by_samples = bounds(l2).relieve(0.1, 0.1, scale).speedup
    assert by_samples < 1.6 and bounds(l2).relieve(0.1, 0.1, scale, posted=1.0).speedup == pytest.approx(10, rel=0.05)
    idle = unit("l2", 1.0, [Part("writes", 0.3, "m")])
    assert bounds(idle).relieve(0.1, 0.1, scale, posted=1.0).speedup == bounds(idle).relieve(0.1, 0.1, scale).speedup


def test_what_a_fix_brings_to_another_unit_caps_it() -> None:
    capped = bounds().relieve(1.0, 0.0, {}, brings=(0.25, "device memory"))
    assert capped.speedup <= 4 * ROUNDING and capped.capped_by == "device memory"


def test_both_kinds_of_fix_add_up_caps_alike() -> None:
    """Latency as long as the load of a unit: the same time whichever of the two a fix changed."""
    half = unit("l2", 1.0, [Part("sectors", 0.5, "m")])
    waiting = (1 - 0.5**3) ** (1 / 3)
    after = 1 / bounds(half).overlap(waiting / 0.5).speedup
    assert after == pytest.approx((2 * 0.5**3) ** (1 / 3) + 0.001, abs=0.002)


def test_the_cap_is_named() -> None:
    l1 = unit("l1", 1.0, [Part("wavefronts", 0.9, "m"), Part("requests", 0.5, "m")])
    l2 = unit("l2", 1.0, [Part("sectors", 0.6, "m")])
    gone = bounds(l1, l2).relieve(0.95, 0.0, {"wavefronts": 0.1})
    assert gone.capped_by == "L2"
    assert 1.4 < gone.speedup <= ROUNDING / 0.6
    assert bounds(l1, l2).relieve(0.95, 0.0, {}).capped_by == "L1", "its wavefronts are still there"
    assert bounds(l1, l2, floor=0.8).relieve(0.95, 0.0, {"wavefronts": 0.1}).capped_by.startswith("latency")


def test_time_outside_the_blocks_is_not_relieved() -> None:
    """Launch cost: 60 % of the time no SM works, so that nothing inside can give more than 1 / 0.6."""
    assert bounds(outside=0.6).relieve(1.0, 0.0, {}).speedup <= 1 / 0.6 + 0.001
    assert bounds(outside=0.6).overlap(100).speedup <= 1 / 0.6 + 0.001


@pytest.mark.parametrize("case", reports.chosen_cases())
def test_on_captures(case: str, facts: Callable[[str], Facts]) -> None:
    """The same on real kernels: no fix that leaves the demands alone beats the fullest unit."""
    f = facts(case)
    assert f.counters.busiest is not None
    b, load = f.estimate, f.counters.busiest.load
    for e in (b.relieve(0.9, 0.0, {}), b.overlap(8), b.balance(8, "x")):
        check(e)
        assert e.speedup <= ROUNDING / load
    assert 0 <= b.floor <= 1


def test_no_kernel_is_shorter_than_its_start(facts: Callable[[str], Facts]) -> None:
    """However many SMs share the work, a first and a last block remain."""
    f = facts("launch_bound.tiny")
    assert f.counters.launch.cycles is not None
    assert f.estimate.overlap(1e6).high <= f.counters.launch.cycles / 1000 * constants().rise * ROUNDING


@pytest.mark.parametrize(("case", "least"), [("conv1x1.constant", 10), ("lut256.constant", 3)])
def test_all_that_queues_for_a_full_constant_cache_is_relieved(
    case: str, least: float, diagnosis: Callable[[str], KernelAnalysis]
) -> None:
    """Measured: 15.6x and 4.0x. The queue held back every memory instruction, not only the constant loads."""
    first = diagnosis(case).findings[0]
    assert first.code == "MEM111" and first.estimate is not None and first.estimate.speedup > least


@pytest.mark.parametrize(
    ("case", "code", "measured"),
    [
        ("scale_add.host_input", "MEM110", 35.5),  # L2 counts the bus as activity of its own
        ("gemm_f32.naive", "MEM101", 12.6),  # L1 gives wavefronts back, sixteen for one, not sectors
        ("atomics.slow", "MEM109", 77.6),  # all lanes of all warps at one address: one atomic a block
        ("int_division.slow", "CMP205", 4.3),  # the choice of the short division goes with it
        ("row_stats.thread", "MEM101", 7.7),
    ],
)
def test_promise_is_near_the_measured_gain(
    case: str, code: str, measured: float, diagnosis: Callable[[str], KernelAnalysis]
) -> None:
    estimate = next(f.estimate for f in diagnosis(case).findings if f.code == code)
    assert estimate is not None and measured / 1.4 < estimate.speedup < measured * 1.4
    assert estimate.low < measured < estimate.high


def test_the_path_without_all_is_short(facts: Callable[[str], Facts]) -> None:
    f = facts("spill.slow")
    assert f.code is not None
    local = f.code.where(lambda ins, op: op.space == "local")
    assert f.estimate.floor_without([]) == pytest.approx(1.0)
    assert 0 <= f.estimate.floor_without(range(len(f.code))) < 0.01
    assert f.estimate.floor_without(local) < f.estimate.floor_without(local, 0.5) < 1


def memory_bound(times: float, busy: float = 0.75) -> Bounds:
    """Loads take `times` as long as on an idle device, which is busy so far."""
    b = bounds(unit("dram", 1.0, [Part("dram_bytes", busy, "d")]), floor=0.2)
    return msgspec.structs.replace(b, stalls=StallMix({"long_scoreboard": 0.2 * times, "wait": 0.1}, 100, True, 10.0))


def test_a_queue_is_not_hidden() -> None:
    """Public steps that hid waits brought 1.58x where loads took twice as long as on an idle device, and nothing where
    they took four times as long; what relieves the memory itself still pays."""
    calm, crowded = memory_bound(1.5), memory_bound(4.0)
    assert calm.queue == 0 and crowded.queue == 1
    assert calm.overlap(4.0).speedup > 1.2 and crowded.overlap(4.0).speedup == 1
    assert crowded.relieve(0.5, 0.0, {}).speedup == 1
    assert crowded.relieve(0.5, 0.5, {"dram_bytes": 0.5}).speedup > 1.3
    assert memory_bound(4.0, busy=0.4).queue == 0, "loads that are slow on an idle memory wait for something else"


def test_sectors_changed_at_random_queue_for_a_memory_that_looks_idle() -> None:
    """Rows are opened to read and to write a few bytes: device memory is full long before its bus is. Loads wait behind
    that as long whatever is in flight, and fewer such sectors are the time."""
    strewn = msgspec.structs.replace(memory_bound(4.0, busy=0.45), strewn=0.7)
    assert strewn.queue == 1 and memory_bound(4.0, busy=0.45).queue == 0
    assert strewn.overlap(4.0).speedup == 1 < memory_bound(4.0, busy=0.45).overlap(4.0).speedup
    fewer = strewn.relieve(0.2, 0.5, {"dram_bytes": 0.4}, posted=1.0)
    assert fewer.speedup == pytest.approx(2.5) and fewer.relieves == ["dram"]
    assert msgspec.structs.replace(memory_bound(4.0, busy=0.2), strewn=0.7).queue == 0
    assert msgspec.structs.replace(memory_bound(1.5, busy=0.45), strewn=0.7).queue == 0, "loads come as if it were idle"


def test_full_units_that_a_fix_relieves_are_named() -> None:
    units = [unit("l2", 1.0, [Part("requests", 0.9, "r")]), unit("l1", 1.0, [Part("wavefronts", 0.5, "w")])]
    b = bounds(*units)
    halved = {"requests": 0.5, "wavefronts": 0.5}
    fixed = b.relieve(0.5, 0.5, halved)
    assert fixed.relieves == ["l2", "l1"] and 0.5 * fixed.high > 1, "half full, l1 would bar the upper end"
    assert b.relieve(0.5, 0.5, {"requests": 0.5}).relieves == ["l2"], "what l1 is asked for stays"
    assert b.overlap(2.0, halved).relieves == ["l2", "l1"]
    assert not b.relieve(0.5, 0.5, {"requests": 0.9}).relieves, "hardly less work"
    assert memory_bound(4.0).relieves({"dram_bytes": 0.5}) == ["dram"], "the queue is there"
    assert not memory_bound(1.5).relieves({"dram_bytes": 0.5}), "neither full nor in the way of anything"


def test_a_line_is_shorter_by_what_its_unit_is_asked_less() -> None:
    """Sectors that L1 catches are not asked of device memory, which is the fullest on the way: its line stays."""
    b = bounds(
        unit("l1", 1.0, [Part("l1_wavefronts", 0.4, "w")]), unit("l2", 1.0, [Part("l2_sectors", 0.5, "s")]),
        unit("dram", 1.0, [Part("dram_bytes", 0.85, "d")]),
    )  # fmt: skip
    path = ("l1", "l2", "dram")
    assert b.in_line(*path) > 0.8
    assert b.left_in_line({"l1_wavefronts": 0.5, "l2_sectors": 0.5}, *path) == 1
    assert b.left_in_line({"dram_bytes": 0.5}, *path) == 0.5
    assert b.left_in_line({"l1_wavefronts": 0.5}, "l1") == 0.5


def test_l2s_overall_counter_is_no_line_before_a_fuller_memory() -> None:
    """What it shows there is the time behind L2; with a port of its own as full, it is L2."""
    def both(port: float) -> Bounds:
        l2 = unit("l2", 1.0, [Part("l2_internal", 0.9, "i"), Part("l2_requests", port, "r")])
        return bounds(l2, unit("dram", 1.0, [Part("dram_bytes", 0.65, "d")]))

    assert both(0.5).in_line("l2", "dram") == pytest.approx(1 / 6) and both(0.8).in_line("l2", "dram") == 1
    fewer = {"l2_requests": 0.5, "l2_sectors": 0.5}
    assert both(0.5).left_in_line(fewer, "l2", "dram") == 1 and both(0.8).left_in_line(fewer, "l2", "dram") == 0.5
    loads, stores = (both(0.5).relieve(0.3, 0.9, fewer, posted=share) for share in (0.0, 1.0))
    assert loads.speedup + 0.1 < stores.speedup, "stores that take a request more are L2's own work"


def test_stores_across_lines_are_worth_what_was_measured(diagnosis: Callable[[str], KernelAnalysis]) -> None:
    """place_rows.header1 takes 1.29 times as long as with aligned rows, and nobody waits for a store."""
    (found,) = [f for f in diagnosis("place_rows.header1").findings if f.code == "MEM108"]
    assert found.estimate is not None
    assert found.estimate.low < 175.552 / 135.904 < found.estimate.high


def test_the_low_end_of_little_is_a_loss() -> None:
    b = bounds(unit("issue", 1.0, [Part("instructions", 0.3, "i")]))
    assert b.relieve(0.0, 0.0, {}).low == pytest.approx(1 / (1 + constants().cost), abs=0.001)
    assert b.relieve(0.8, 0.0, {}).low > 1.05


def test_units_are_as_full_as_where_the_work_is() -> None:
    """16 blocks on 100 SMs: L1 at 11 % of the device is at 69 % there. What more is in flight on the same SMs may not
    pass it, blocks on all of them may; L2 is everybody's."""
    l1, l2 = (unit(name, 1.0, [Part("sectors", 0.11, "m")]) for name in ("l1", "l2"))
    few = few_blocks(l1, idle=84)
    assert few.reached == pytest.approx(0.16) and few.here(l1, 0.11) == pytest.approx(0.6875)
    assert few.overlap(8.0).speedup < 1.6 < few.overlap(8.0, stay=False).speedup
    assert few_blocks(l2, idle=84).overlap(8.0) == few_blocks(l2, idle=84).overlap(8.0, stay=False)
    assert few.relieve(0.95, 0.1, {}).speedup < 1.6 < few_blocks(l1, idle=0).relieve(0.95, 0.1, {}).speedup
    # A fix that asks less of the full unit is worth what it asks less.
    assert few.relieve(0.95, 0.1, {"sectors": 0.1}).speedup > 3  # type: ignore[dict-item]


def test_a_pipe_is_as_full_as_where_its_warps_are() -> None:
    """Blocks of one warp on 99 of 132 SMs, one sub-partition of four: an integer pipe at 11 % of the device is at 59 %
    where there is work. Sums side by side in the same warps may not pass it, more warps may; L1 is the SM's."""
    alu, l1 = (unit(name, 1.0, [Part("instructions", 0.11, "m")]) for name in ("alu", "l1"))
    for one, full in ((alu, 0.11 / 0.75 / 0.25), (l1, 0.11 / 0.75)):
        few = few_blocks(one, idle=25)
        few = msgspec.structs.replace(few, launch=msgspec.structs.replace(few.launch, warps_per_block=1, partitions=4))
        assert few.launch.at_once == 1
        assert few.here(one, 0.11, alone=True) == pytest.approx(full)
        assert (few.overlap(4.0, alone=True).speedup < 1.8 < few.overlap(4.0).speedup) is (one is alu)
    unknown = msgspec.structs.replace(few.launch, partitions=1)
    assert msgspec.structs.replace(few, launch=unknown).here(alu, 0.11, alone=True) == pytest.approx(0.11 / 0.75)
    whole = msgspec.structs.replace(few.launch, blocks=400)  # four blocks of a warp on each SM
    assert whole.at_once == 4 and msgspec.structs.replace(few, launch=whole).here(alu, 0.11, alone=True) == 0.11


def test_the_way_from_an_sm_to_l2_is_the_sms_own() -> None:
    """Of 8 SMs of 100 that ask L2 for a sector a lane, the way there is full (7 % of the device's is 88 % of theirs),
    while L2 is at 5 %: on all SMs the line in front of it is gone, and fewer requests shorten it where they are."""
    ways = [Part("l2_writes", 0.0648, "l1tex__m_l1tex2xbar_req_cycles_active"), Part("l2_requests", 0.05, "lts__t")]
    l2 = unit("l2", 0.92, ways)
    few = few_blocks(l2, idle=92)
    assert few.port is not None and few.inside == pytest.approx(0.0648 / 0.92 / 0.08)
    assert few.here(l2, l2.load) == l2.load < 0.08
    apart, short = few.spread_apart(0.2), few.relieve(0.3, 1.0, {"l2_requests": 0.25})
    assert 2.0 < apart.speedup < 2.6 and short.speedup > 1.15
    assert few_blocks(l2, idle=0).port is None and few_blocks(l2, idle=0).spread_apart(0.2).speedup == 1.0
    empty = few_blocks(unit("l2", 0.92, [Part("l2_requests", 0.05, "lts__t")]), idle=92)
    assert empty.port is None and empty.spread_apart(0.2).speedup < 1.3, "turns alone"
    assert empty.relieve(0.3, 1.0, {"l2_requests": 0.25}).speedup < 1.05


@given(any_bounds, share, share)
def test_nothing_is_faster_than_a_kernel_that_does_nothing(some: Bounds, touched: float, remaining: float) -> None:
    short = msgspec.structs.replace(some, launch=msgspec.structs.replace(some.launch, cycles=3000.0))
    found = short.relieve(touched, remaining, {})
    assert found.speedup <= ROUNDING / min(1.0, short.start + short.launch.outside)
