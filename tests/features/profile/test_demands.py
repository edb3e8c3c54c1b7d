"""What instructions ask of units, against counters of the same launch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from tests.support import reports


@pytest.mark.parametrize("case", reports.chosen_cases()[::4])
def test_stores_at_l2_are_what_its_counter_says(case: str, facts: Callable[[str], Facts]) -> None:
    """By the sectors of each store, or by L1's counter of all of them, which knows stores in parts (moe_list.each)."""
    one = facts(case)
    code, traffic = one.code, one.counters.traffic
    if code is None or not traffic.l2_sectors or code.column("memory_l2_theoretical_sectors_global") is None:
        pytest.skip("not counted here")
    stores = code.where(lambda ins, op: op.access == "store" and op.space in ("global", "generic"))
    share = one.profile.written_to_l2(stores, traffic.l2_sectors)
    counted = min(1.0, traffic.global_store_sectors / traffic.l2_sectors)
    assert 0.5 * counted - 0.01 <= share <= 1.05 * counted + 0.01
    assert one.profile.written_to_l2([], traffic.l2_sectors) == 0
    assert one.profile.written_to_l2(stores, 0.0) == 0
