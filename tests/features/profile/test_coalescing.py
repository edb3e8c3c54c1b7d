"""How lanes share global accesses, on captures."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kscope.features.facts import IDEAL_SECTORS, SECTORS, Facts
from kscope.features.lanes.vectorizable import merges
from kscope.features.profile.coalescing import compact, contiguous, strewn
from kscope.features.profile.excess import excess

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

@pytest.mark.parametrize("access", ["store", "reduction"])
def test_sectors_changed_at_random(access: str, facts: GetFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes that each write a matrix of their own: a sector a lane, for which nobody waits, whether the sum is made
    by the thread or by L2."""
    f = facts("chol8.direct")
    code, through = f.code, f.counters.traffic.l2_sectors
    assert code is not None
    actual, ideal = code.column(SECTORS), code.column(IDEAL_SECTORS)
    assert actual is not None and ideal is not None
    posted = [replace(op, access=access) if op.access == "store" else op for op in code.classes]
    monkeypatch.setattr(code, "classes", posted)
    assert 0.7 < strewn(code, through) < 0.8 and strewn(code, 0.0) == 0
    found = excess(code, actual, ideal, 0.5, 1e9, 0.0)
    assert found is not None and found.stores == 0.64


def test_streams_are_not_strewn(facts: GetFacts) -> None:
    assert facts("dram_bound.triad").estimate.strewn == 0 == facts("atomics.slow").estimate.strewn
