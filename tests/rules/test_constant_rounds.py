"""Requests of the constant cache are those of every LDC: of a fixed address one each, of lanes that differ more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Code, Facts, total
from kscope.rules.base import Passed
from tests.support.edit import with_metrics
from tests.support.said import found, outcome


@pytest.mark.parametrize(("case", "rounds"), [("conv1x1.constant", 32.0), ("lut256.constant", 22.4)])
def test_loads_of_a_fixed_address_are_taken_off(case: str, rounds: float, facts: Callable[[str], Facts]) -> None:
    known = facts(case)
    assert isinstance(known.code, Code)
    assert known.code.constant_rounds == pytest.approx(rounds, abs=0.05)
    assert f"{rounds:.1f} different addresses a warp" in found("MEM111", known).why


def test_lanes_that_read_one_word_are_no_fault_beside_plain_loads(facts: Callable[[str], Facts]) -> None:
    """As many requests as LDCs ran: one each, however few of them are indexed."""
    known = facts("lut256.constant")
    code = known.code
    assert isinstance(code, Code)
    ran = total(code.executed, code.where(lambda ins, op: ins.opcode == "LDC"))
    assert ran > total(code.executed, code.indexed_constants)
    alike = Facts(with_metrics(known.kernel, {"idc__requests.sum": ran}))
    assert isinstance(alike.code, Code) and alike.code.constant_rounds == 1.0
    assert isinstance(outcome("MEM111", alike), Passed)
