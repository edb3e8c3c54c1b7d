"""Pairs of real captures: the slow version and the one without its fault."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kscope.engine.comparing.compare import compare
from kscope.engine.comparing.gate import slower
from kscope.engine.comparing.pairing import parse_rule
from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import Analysis, NotApplicable
from kscope.model.contract.comparison import Comparison
from tests.support.reports import fixture
from tests.support.traces import LABELS, path

CASES = {
    "bank_conflict": "MEM103", "spill": "MEM104", "uncoalesced": "MEM101", "narrow_loads": "MEM102",
    "int_division": "CMP205",
}  # fmt: skip
"""case -> the finding that its fixed version no longer has."""


def of(case: str) -> Analysis:
    return analyze_paths([fixture(case)])


@pytest.fixture(scope="module")
def conflicts() -> Comparison:
    return compare(of("bank_conflict.slow"), of("bank_conflict.fast"))


@pytest.mark.parametrize(("case", "code"), CASES.items())
def test_the_planted_fault_is_what_was_fixed(case: str, code: str) -> None:
    by_hand = [parse_rule(".=.")]  # some of the versions have other names
    found = compare(of(f"{case}.slow"), of(f"{case}.fast"), by_hand)
    [pair] = found.pairs
    assert code in pair.fixed and code not in pair.remaining
    assert pair.speedup is not None and pair.speedup > 1.1
    assert found.speedup == pytest.approx(pair.speedup)
    back = compare(of(f"{case}.fast"), of(f"{case}.slow"), by_hand)
    assert code in back.pairs[0].new and back.pairs[0].speedup == pytest.approx(1 / pair.speedup)
    assert slower(found, 0) == [] and slower(back, pair.speedup) == []
    assert [v.what for v in slower(back, (pair.speedup - 1) * 0.99)] == ["SLOWER"]


def test_a_promise_is_held_against_the_measured_times(conflicts: Comparison) -> None:
    [pair] = conflicts.pairs
    promise = next(p for p in pair.promises if p.code == "MEM103")
    assert promise.measured == pair.speedup
    held = promise.low * 0.98 <= promise.measured <= promise.high * 1.02
    assert (promise.outcome == "inside") == held
    assert "2.28x faster, from memory-bound on shared memory" in pair.sentence


def test_figures_that_moved_are_listed_and_others_are_not(conflicts: Comparison) -> None:
    rows = {row.what: row for row in conflicts.pairs[0].changes}
    assert rows["time"].before == pytest.approx(327.7, rel=0.01)
    assert rows["shared memory a block"].after == 4224.0  # t[32][33] of 4 bytes
    assert "threads" not in rows and "FLOP" not in rows


def test_a_report_against_itself_changes_nothing(conflicts: Comparison) -> None:
    same = of("bank_conflict.slow")
    [pair] = compare(same, same).pairs
    assert (pair.fixed, pair.new, pair.changes, pair.speedup) == ([], [], [], 1.0)
    assert pair.matched_by == "name and launch"
    assert "no change in time" in pair.sentence


def test_what_the_new_report_cannot_tell_is_not_called_fixed() -> None:
    before, after = of("bank_conflict.slow"), of("bank_conflict.fast")
    kernel = msgspec.structs.replace(after.kernels[0], not_applicable=[NotApplicable(code="MEM103", why="no counters")])
    [pair] = compare(before, msgspec.structs.replace(after, kernels=[kernel])).pairs
    assert "MEM103" not in pair.fixed and "MEM103" in pair.unknown
    assert not [p for p in pair.promises if p.code == "MEM103"]


def test_kernels_are_paired_by_name_first_and_the_rest_is_named() -> None:
    several = of("multi_kernels")
    lone = msgspec.structs.replace(several, kernels=several.kernels[1:])
    found = compare(several, lone)
    assert [p.matched_by for p in found.pairs] == ["name and launch"] * len(lone.kernels)
    first = several.kernels[0]
    assert found.only_before == [first.demangled or first.name] and found.only_after == []


@pytest.mark.parametrize("name", ["stack_a", "stack_c", "decoder", "mg"])
def test_eager_against_graph_as_measured_without_a_profiler(name: str) -> None:
    """The measured ratio lies inside the bounds: what recording costs makes the eager side slower than it is. The
    host's time of issuing a replay is none of it."""
    label = LABELS[name]
    measured = label["eager_ms"] / label["graph_ms"]
    [pair] = compare(*(analyze_paths([path(n)]) for n in (name, f"{name}_graph"))).timelines
    assert pair.low is not None and pair.high is not None and pair.speedup is not None
    assert pair.low <= measured <= pair.high and pair.low <= pair.speedup <= pair.high
    assert pair.high <= 2 * pair.low
    assert {p.outcome for p in pair.promises} == {"inside"} and "OVH605" in {p.code for p in pair.promises}


def test_two_recordings_are_compared_step_by_step() -> None:
    eager, graph = (analyze_paths([path(name)]) for name in ("stack_a", "stack_a_graph"))
    [pair] = compare(eager, graph).timelines
    assert pair.per == "step" and pair.speedup is not None and pair.speedup > 2
    assert {"OVH601", "OVH605"} <= set(pair.fixed)
    assert Path(pair.before.input).name == "stack_a.json.xz"
