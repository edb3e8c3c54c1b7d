"""The table of opportunities against what it names: rules, limiters, instructions, marks."""

from __future__ import annotations

import typing

import pytest

from kscope.arch import table
from kscope.model.contract.findings import Limiter
from kscope.model.errors import KscopeError
from kscope.rules.base import Rule
from kscope.rules.registry import all_rules
from kscope.worklog.marks import EXCESS, FAMILIES
from kscope.worklog.opportunities import EFFORT, MARKS, Opportunity, attempts, find, opportunities

LAUNCH = {"threads", "blocks", "registers", "shared_bytes", "cluster", "occupancy", "instructions"}
DERIVED = {"fma_a_shared_read", "fma_a_global_load", "global_load_bytes", "global_store_bytes", "shared_load_bytes",
           "shared_store_bytes"}  # fmt: skip
ROWS = list(opportunities().values())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_names_what_there_is(row: Opportunity) -> None:
    codes = {rule.code for rule in all_rules()}
    marks = {*FAMILIES, *EXCESS, *LAUNCH, *DERIVED}
    assert set(row.rules) <= codes
    assert set(row.limiters) <= set(typing.get_args(Limiter))
    assert not row.needs or row.needs in table("instructions")
    assert 1 <= row.effort < len(EFFORT)
    for condition in row.when:
        mark, sign, value = condition.split()
        assert mark in marks and mark in MARKS and sign in "=<>" and float(value) >= 0
    for change in set(row.tried) - {"told"}:
        mark, verb, *factor = change.split()
        assert mark in marks and mark in MARKS
        assert (verb, len(factor)) in {("appears", 0), ("rises", 1), ("falls", 1)}
        assert all(float(one) > 1 for one in factor)


def test_every_rule_on_kernels_has_its_opportunity() -> None:
    covered = {code for row in ROWS for code in row.rules}
    assert {rule.code for rule in all_rules() if isinstance(rule, Rule)} <= covered


def test_easiest_first() -> None:
    efforts = [row.effort for row in ROWS]
    assert efforts == sorted(efforts)
    assert not any(row.effort > 2 for row in ROWS if row.id in ("block-size", "coalesce"))


@pytest.mark.parametrize(
    ("before", "after", "fixed", "seen"),
    [
        ({"global_load_bytes": 4.0}, {"global_load_bytes": 16.0}, [], ["vector-access"]),
        ({"mma_sync": 9.0}, {"wgmma": 9.0}, [], ["wgmma"]),
        ({"mma_sync": 9.0}, {"mma_sync": 8.0}, [], []),
        ({"mbarriers": 9.0, "shared_bytes": 64e3}, {"mbarriers": 9.0, "shared_bytes": 96e3}, [], ["pipeline-depth"]),
        ({"shared_bytes": 64e3}, {"shared_bytes": 96e3}, [], []),  # a tile, not a ring of stages
        ({"local": 100.0}, {"local": 0.0}, [], ["local-arrays", "spills"]),
        ({}, {}, ["LAT302"], ["loads-in-flight"]),
        ({}, {}, ["CMP208"], []),  # a pipe that is no longer full is not a smaller problem
    ],
)
def test_what_is_tried_is_recognised(
    before: dict[str, float], after: dict[str, float], fixed: list[str], seen: list[str]
) -> None:
    code = {"instructions": 1000.0}
    found = attempts({**code, **before}, {**code, **after}, fixed, ())
    assert [one.opportunity for one in found] == seen
    assert not attempts(before, after, [], ())  # without machine code there is nothing to recognise


def test_what_the_user_says_comes_first() -> None:
    (told,) = attempts({}, {}, [], ("less-work",))
    assert told.told and told.opportunity == "less-work"


def test_finding_one() -> None:
    assert find("tma").id == "tma"
    assert find("mem103").id == "bank-conflicts"
    with pytest.raises(KscopeError, match=r"did you mean shared-tiles or register-tiles\?"):
        find("MEM112")
    with pytest.raises(KscopeError, match=r"no opportunity 'vector-acess'; did you mean vector-access"):
        find("vector-acess")
