"""Bytes that a load fetches (MEM106): a gather is none that reads the same word in each round."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import SECTOR, SECTORS, Facts
from kscope.rules._shared import passes


def test_gathers_fetch_in_each_round(facts: Callable[[str], Facts]) -> None:
    """csr.warp reads x where a loaded index says: the address has nothing else that a round changes."""
    known = facts("csr.warp")
    code = known.code
    assert code is not None
    still = [
        i for i in code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
        if (steps := known.lanes.strides.steps(i)) and not any(steps)
    ]  # fmt: skip
    assert still and all(known.addresses.gathers(i) for i in still)
    sectors = code.column(SECTORS)
    assert sectors is not None
    for i in still:
        asked = code.threads[i] * code.classes[i].bytes
        assert passes._fetched(known, code, i) == pytest.approx(min(asked, SECTOR * sectors[i]))


def test_a_word_of_all_lanes_is_fetched_once(facts: Callable[[str], Facts]) -> None:
    """A product whose warps read one element of a factor together: a sector, not 128 bytes."""
    known = facts("gemm_f32.naive")
    code = known.code
    assert code is not None
    sectors = code.column(SECTORS)
    assert sectors is not None
    loads = code.ran(code.where(lambda ins, op: op.space == "global" and op.access == "load"))
    alike = [i for i in loads if SECTOR * sectors[i] < code.threads[i] * code.classes[i].bytes]
    assert alike
    assert all(passes._fetched(known, code, i) <= SECTOR * sectors[i] for i in alike)
