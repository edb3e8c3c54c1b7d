"""How lanes share global accesses, on captures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kscope.features.facts import Facts
from kscope.features.lanes.vectorizable import merges
from kscope.features.profile.coalescing import compact, contiguous

GetFacts = Callable[[str], Facts]


def first_group(facts: Facts) -> tuple[int, ...]:
    """The most executed group of accesses that could be one."""
    code = facts.code
    assert code is not None
    groups = merges(code, facts.kernel.launch.block)
    return max(groups, key=lambda g: code.executed[g.members[0]]).members


@pytest.mark.parametrize(
    ("case", "together"),
    [("attn.global", True), ("permute_rows.rows", True), ("ldg32_l2.slow", False), ("row_stats.thread", False),
     ("uncoalesced.slow", False)],
)  # fmt: skip
def test_lanes_of_mergeable_accesses(case: str, together: bool, facts: GetFacts) -> None:
    """All lanes read one address, or each a place of its own."""
    code = facts(case).code
    assert code is not None
    members = first_group(facts(case))
    assert len(members) == 4 and {compact(code, i) for i in members} == {together}


def test_unit_stride(facts: GetFacts) -> None:
    narrow, wide = facts("narrow_loads.slow").code, facts("narrow_loads.fast").code
    assert narrow is not None and wide is not None
    assert {narrow[i].opcode for i in contiguous(narrow)} == {"LDG", "STG"}
    assert all(compact(narrow, i) for i in contiguous(narrow)) and contiguous(wide) == []


def test_not_counted(facts: GetFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    code = facts("narrow_loads.slow").code
    assert code is not None
    monkeypatch.setattr(type(code), "column", lambda self, name: None)
    assert contiguous(code) == [] and not any(compact(code, i) for i in range(len(code)))


@pytest.mark.parametrize(("case", "dense"), [("ldg32_l2.slow", True), ("particles.aos", False)])
def test_pieces_of_one_structure(case: str, dense: bool, facts: GetFacts) -> None:
    """Four words of 16 bytes a lane fill their sectors together; two fields of a larger structure do not."""
    known = facts(case)
    found = [g for g in known.lanes.mergeable if g.sure]
    assert any(known.profile.compact_together(g.members, g.bytes) for g in found) == dense
