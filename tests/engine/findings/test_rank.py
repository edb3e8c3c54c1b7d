"""Severity, order and overlaps."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import pytest

from kscope.arch.estimates import constants
from kscope.engine.findings.rank import PAYS, ranked, severity
from kscope.features.facts import CHAIN
from kscope.model.contract.analysis import Estimate, Finding, KernelAnalysis, Location, Severity
from tests.support import reports


def finding(
    code: str, gain: float | None = None, confidence: float = 0.8, pcs: tuple[int, ...] = (), level: Severity = "major"
) -> Finding:
    estimate = None
    if gain is not None:
        estimate = Estimate(speedup=gain, low=1.0, high=gain + 1, capped_by="L2", kind="modelled")
    return Finding(
        rule=code.lower(), code=code, title=code, regime="memory", estimate=estimate, confidence=confidence,
        severity=level, locations=[Location(function="k", pc=pc, opcode="LDG") for pc in pcs],
    )  # fmt: skip


def order(*findings: Finding) -> list[str]:
    return [f.code for f in ranked(findings)]


@pytest.mark.parametrize(
    ("gain", "expected"),
    [
        (1.0, "info"), (1.0299, "info"), (1.03, "minor"), (1.249, "minor"), (1.25, "major"), (1.99, "major"),
        (2.0, "critical"), (90.0, "critical"),
    ],
)  # fmt: skip
def test_severity(gain: float, expected: str) -> None:
    assert severity(finding("MEM101", gain)) == expected
    assert ranked([finding("MEM101", gain)])[0].severity == expected


@pytest.mark.parametrize("level", ["info", "minor", "major", "critical"])
def test_severity_without_a_figure_is_the_rules_own(level: Severity) -> None:
    assert ranked([finding("CMP208", level=level)])[0].severity == level


def test_a_queue_for_memory_leads_where_nothing_pays() -> None:
    """Full or not: more loads in flight would only wait longer. A pipe that leads without being full is no roof."""
    queue, pipe = finding("MEM107", level="minor"), finding("CMP208", level="minor")
    assert order(finding("MEM102", 1.06), queue) == ["MEM107", "MEM102"]
    assert order(finding("MEM102", 1.2), queue) == ["MEM102", "MEM107"]
    assert order(finding("MEM102", 1.06), pipe) == ["MEM102", "CMP208"]


def test_gain_times_confidence() -> None:
    assert order(finding("MEM101", 1.5), finding("MEM102", 3.0)) == ["MEM102", "MEM101"]
    assert order(finding("MEM101", 1.5, 0.9), finding("MEM102", 1.6, 0.3)) == ["MEM101", "MEM102"]
    assert 0.9 * math.log(1.5) > 0.3 * math.log(1.6)


def test_a_sure_cause_before_a_larger_promise() -> None:
    assert order(finding("MEM101", 1.3, 0.85), finding("LAT302", 1.7, 0.5)) == ["MEM101", "LAT302"]
    assert order(finding("MEM101", 1.3, 0.85), finding("LAT302", 5.0, 0.5)) == ["LAT302", "MEM101"]


def test_one_chain_on_an_empty_device_leads_where_nothing_pays() -> None:
    def grid(gain: float, cap: str) -> Finding:
        found = finding("GRD401", gain, 0.9)
        assert found.estimate is not None
        return msgspec.structs.replace(found, estimate=msgspec.structs.replace(found.estimate, capped_by=cap))

    assert severity(grid(1.0, CHAIN)) == "minor" and severity(grid(1.0, "L2")) == "info"
    assert order(finding("LAT303", 1.08, 0.5), grid(1.0, CHAIN)) == ["GRD401", "LAT303"]
    assert order(finding("CMP203", 1.4), grid(1.0, CHAIN)) == ["CMP203", "GRD401"]
    assert severity(grid(2.5, CHAIN)) == "critical"


def test_equal_ones_by_code() -> None:
    same = [finding(code, 2.0) for code in ("LAT302", "CMP205", "MEM101")]
    assert order(*same) == order(*reversed(same)) == ["CMP205", "LAT302", "MEM101"]


def test_info_comes_last() -> None:
    assert order(finding("MEM101", 1.01, 1.0), finding("MEM112"), finding("MEM102", 1.04, 0.1))[-1] == "MEM101"


@pytest.mark.parametrize("roof", ["MEM107", "CMP208"])
def test_roof_leads_when_nothing_pays(roof: str) -> None:
    assert 1.03 < PAYS <= 1.25
    assert order(finding("MEM102", PAYS - 0.01, 1.0), finding(roof)) == [roof, "MEM102"]
    assert order(finding("MEM102", PAYS + 0.01, 1.0), finding(roof)) == ["MEM102", roof]
    assert order(finding("MEM102", 1.01), finding(roof)) == [roof, "MEM102"]


def test_what_asks_less_of_the_full_unit_stands_before_the_roof() -> None:
    """However little sure it is: less work is what that unit wants. Of another unit, or for information, it is not."""
    def relieving(gain: float, *units: str) -> Finding:
        found = finding("MEM101", gain, 0.1)
        assert found.estimate is not None
        return msgspec.structs.replace(found, estimate=msgspec.structs.replace(found.estimate, relieves=list(units)))

    roof = msgspec.structs.replace(finding("CMP208"), roof="l2")
    other = finding("LAT302", 1.05, 0.9)
    assert order(roof, relieving(1.2, "l2"), other) == ["MEM101", "CMP208", "LAT302"]
    assert order(roof, relieving(1.2, "dram", "l1"), other) == ["CMP208", "LAT302", "MEM101"]
    assert order(roof, relieving(1.02, "l2"), other) == ["CMP208", "LAT302", "MEM101"]


@pytest.mark.parametrize(
    ("case", "expected"), [("list_walk.four", ["MEM101", "CMP208"]), ("dram_bound.triad", ["MEM107"])]
)
def test_roof_and_what_relieves_it(case: str, expected: list[str], diagnosis: Callable[[str], KernelAnalysis]) -> None:
    """Random loads fill L2: fewer sectors stand first, though nobody is sure that they can be had, and the next step
    says so. Streams of device memory have nothing to stand there."""
    kernel = diagnosis(case)
    assert [f.code for f in kernel.findings if f.severity != "info"][: len(expected)] == expected
    step = kernel.next_step
    assert step is not None and step.do == "stop"
    assert ("sure enough of" in step.why) == (len(expected) > 1)


def test_overlaps() -> None:
    found = ranked([
        finding("MEM101", 3.0, pcs=(16, 32)), finding("MEM102", 2.0, pcs=(32,)), finding("LAT302", 1.5, pcs=(48,)),
        finding("GRD402", 1.2),
    ])  # fmt: skip
    assert {f.code: f.overlaps for f in found} == {
        "MEM101": ["MEM102"],
        "MEM102": ["MEM101"],
        "LAT302": [],
        "GRD402": [],
    }


def test_estimates_are_not_changed() -> None:
    given = [finding("MEM101", 3.0, pcs=(16,)), finding("MEM102", 2.0, pcs=(16,))]
    assert [f.estimate for f in ranked(given)] == [f.estimate for f in given]
    assert ranked([]) == []


@pytest.mark.parametrize("case", reports.chosen_cases())
def test_on_captures(case: str, diagnosis: Callable[[str], KernelAnalysis]) -> None:
    k = diagnosis(case)
    codes = [f.code for f in k.findings]
    assert len(set(codes)) == len(codes)
    levels = [f.severity == "info" for f in k.findings]
    assert levels == sorted(levels), "what pays nothing comes last"
    for f in k.findings:
        if f.estimate is not None:
            assert 1 - constants().cost <= f.estimate.low <= f.estimate.speedup <= f.estimate.high
            assert f.severity == severity(f) or f.order.startswith("set aside")
        assert f.why and f.fix and f.evidence and set(f.overlaps) <= set(codes) - {f.code}
    accounted = codes + k.passed + [n.code for n in k.not_applicable]
    assert k.errors == [] and len(set(accounted)) == len(accounted) >= 28, "every rule says exactly one thing"
