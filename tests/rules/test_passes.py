"""What is passed over again is kept where there is room for it: otherwise the finding says what stands in the way."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kscope.engine.kernels.headroom import under_the_roof
from kscope.features.facts import Code, Facts
from kscope.model.contract.analysis import Estimate, Finding, Remedy
from kscope.rules._shared.passes import Covered, covered, left_by_l2, ways
from tests.rules.test_conditions import found
from tests.support.edit import with_metrics

ROWS = "softmax_rows.threepass"  # 128 KiB a block of 256 threads, three times
L2 = "device__attribute_l2_cache_size"


def seen(facts: Facts) -> Covered:
    assert isinstance(facts.code, Code)
    return covered(facts, facts.code)


def narrowed(facts: Facts, threads: int) -> Facts:
    """The same rows walked by blocks of fewer threads."""
    launch = msgspec.structs.replace(facts.kernel.launch, block=(threads, 1, 1))
    return Facts(msgspec.structs.replace(facts.kernel, launch=launch))


def test_what_a_block_keeps_and_how_its_threads_share_it(facts: Callable[[str], Facts]) -> None:
    rows = seen(facts(ROWS))
    assert rows.again and rows.dealt and rows.kept == pytest.approx(128 * 1024)


def test_a_row_that_fits_registers_needs_no_other_way(facts: Callable[[str], Facts]) -> None:
    known = facts(ROWS)
    assert ways(known, seen(known)) == [] and found("MEM106", known).remedies == []


def test_a_row_that_a_warp_cannot_hold_asks_for_a_wider_block(facts: Callable[[str], Facts]) -> None:
    """1,024 words a thread; in shared memory one block of one warp an SM."""
    known = narrowed(facts(ROWS), 32)
    registers, shared, wider = ways(known, seen(known))
    assert [registers.applies, shared.applies, wider.applies] == [False, False, True]
    assert "1,024 words" in registers.why and "leave 1 of 8 warps" in shared.why
    assert wider.step.startswith("blocks of 1024 threads") and "32 words" in wider.why


def test_rows_of_the_widest_blocks_stay_in_an_l2_that_holds_them_twice(facts: Callable[[str], Facts]) -> None:
    """264 blocks of 1,024 threads at a time have 33 MiB."""
    for size, fits in ((60 << 20, False), (70 << 20, True)):
        known = Facts(with_metrics(facts(ROWS).kernel, {L2: float(size)}))
        assert isinstance(known.code, Code)
        left = left_by_l2(known, known.code)
        assert (left is not None) == fits
        assert left is None or 0.3 < left < 0.7


def test_a_way_that_moves_fewer_bytes_may_pass_the_roof_of_now(facts: Callable[[str], Facts]) -> None:
    known = facts(ROWS)
    own = Estimate(speedup=1.05, low=1.0, high=9.0, capped_by="device memory", kind="modelled")
    way = Estimate(speedup=2.5, low=1.2, high=3.0, capped_by="L2", kind="modelled")
    bare = Finding(rule="small-grid", code="GRD401", title="", regime="overhead", estimate=own)

    def high(*remedies: Remedy) -> float:
        (finding,) = under_the_roof(known, [msgspec.structs.replace(bare, remedies=list(remedies))])
        assert finding.estimate is not None
        return finding.estimate.high

    assert high() < 2.5
    assert high(Remedy(step="", applies=False, estimate=way)) == high()
    assert high(Remedy(step="", applies=True, estimate=way)) == 3.0
