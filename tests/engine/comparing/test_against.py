"""Why a version is slower: what it pays that the one before did not. The pairs are real captures, taken backwards."""

from __future__ import annotations

import pytest
from msgspec import structs

from kscope.engine.comparing.against import against
from kscope.engine.comparing.compare import compare
from kscope.engine.comparing.pairing import parse_rule
from kscope.engine.run import analyze_paths
from kscope.features.sass.align import shape
from kscope.features.views.footprint import Footprint, Footprints
from kscope.model.contract.analysis import Analysis, KernelAnalysis
from kscope.model.contract.comparison import KernelPair
from tests.support.reports import fixture


def seen(case: str) -> tuple[Analysis, Footprints]:
    prints = Footprints()
    return analyze_paths([fixture(case)], footprints=prints), prints


def worse(case: str, fixed: str = "fast", slow: str = "slow") -> KernelPair:
    (old, old_prints), (new, new_prints) = seen(f"{case}.{fixed}"), seen(f"{case}.{slow}")
    [pair] = compare(old, new, [parse_rule(".=.")], (old_prints, new_prints)).pairs
    return pair


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("bank_conflict", "times the rounds of shared memory"),
        ("uncoalesced", "times the sectors of global"),
        ("int_division", "times the instructions"),
        ("spill", "sectors of local memory"),
        ("divergence", "of 32 lanes active, 32.0 before"),
    ],
)
def test_the_fault_is_what_speaks_against_the_slow_version(case: str, said: str) -> None:
    found = worse(case).against
    assert any(said in one for one in found), found


def test_a_faster_version_has_nothing_against_it() -> None:
    assert worse("bank_conflict", fixed="slow", slow="fast").against == []


def test_a_version_below_its_promise_is_asked_too() -> None:
    """The padded tile, as if it had brought nothing, with registers that take a round of blocks more."""
    (old, old_prints), (new, new_prints) = seen("bank_conflict.slow"), seen("bank_conflict.fast")
    [was], [now] = old.kernels, new.kernels
    waves = was.launch.waves or 0.0
    late = launch(structs.replace(now, duration_us=was.duration_us), registers=200, waves=1.5 * waves)
    [pair] = compare(old, structs.replace(new, kernels=[late]), [], (old_prints, new_prints)).pairs
    assert [p.outcome for p in pair.promises] == ["below"] and pair.speedup == pytest.approx(1.0)
    assert any("rounds of blocks instead of" in one and "200 registers" in one for one in pair.against)


def launch(kernel: KernelAnalysis, **fields: object) -> KernelAnalysis:
    return structs.replace(kernel, launch=structs.replace(kernel.launch, **fields))


@pytest.fixture(scope="module")
def kernel() -> KernelAnalysis:
    """A million threads, 4,096 blocks: with 16 of them an SM 1.94 waves, as a public kernel had them."""
    found = seen("bank_conflict.slow")[0].kernels[0]
    return launch(found, grid=(4096, 1, 1), block=(128, 1, 1), registers=30, waves=4096 / 16 / found.device.sms)


def test_registers_that_take_blocks_away(kernel: KernelAnalysis) -> None:
    more = launch(kernel, registers=40, waves=4096 / 12 / kernel.device.sms)
    said = "3 rounds of blocks instead of 2: an SM holds 12 of them, not 16 (40 registers a thread, 30 before)"
    assert against(kernel, more, None, None) == [said]
    assert against(more, kernel, None, None) == []


def test_shared_memory_that_takes_blocks_away(kernel: KernelAnalysis) -> None:
    more = launch(kernel, shared_static=4096, shared_dynamic=0, waves=4096 / 12 / kernel.device.sms)
    less = launch(kernel, shared_static=1024, shared_dynamic=0)
    assert against(less, more, None, None)[0].endswith("(4,096 bytes of shared memory a block, 1,024 before)")


def test_longer_threads_in_rounds_that_do_not_divide(kernel: KernelAnalysis) -> None:
    """Four times the work a thread in one round where two of one each were: twice as long."""
    longer = launch(kernel, grid=(1024, 1, 1), waves=kernel.launch.waves / 4)  # type: ignore[operator]
    [said] = against(kernel, longer, None, None)
    assert said.startswith("threads of 4 times the work, in 1 round of the device instead of 2: 2 times as long")
    half = launch(kernel, grid=(2048, 1, 1), waves=kernel.launch.waves / 2)  # type: ignore[operator]
    assert against(kernel, half, None, None) == []


def test_a_launch_that_is_not_known_tells_nothing_of_rounds(kernel: KernelAnalysis) -> None:
    more = launch(kernel, registers=40, waves=4096 / 12 / kernel.device.sms, known=False)
    assert against(kernel, more, None, None) == []


def test_traffic_of_reports_without_code(kernel: KernelAnalysis) -> None:
    """Nobody knows how many instructions it lies beside: it is told all the same."""
    few, many = (
        Footprint(shape=shape(()), executed={}, samples={}, metrics={"lts__t_sectors.sum": n}) for n in (100.0, 130.0)
    )
    assert against(kernel, kernel, few, many) == ["1.3 times the sectors through L2"]
    assert against(kernel, kernel, many, few) == []
    none = structs.replace(few, metrics={"lts__t_sectors.sum": 0.0})
    assert against(kernel, kernel, none, many) == ["130 sectors through L2, of which there were none"]
    assert against(kernel, kernel, none, none) == []
