"""Findings as an order to work in: contradictions, prerequisites, and why the order is not that of gain."""

from __future__ import annotations

from msgspec import structs

from kscope.engine.findings.rank import ranked
from kscope.model.contract.analysis import Estimate, Finding


def finding(code: str, gain: float, confidence: float = 0.8, pulls: str = "", first: str = "") -> Finding:
    estimate = Estimate(speedup=gain, low=1.0, high=gain + 1, capped_by="L2", kind="modelled")
    return Finding(
        rule=code.lower(), code=code, title=code, regime="memory", estimate=estimate, confidence=confidence,
        pulls=pulls.split(), first=first.split(),
    )  # fmt: skip


def said(*findings: Finding) -> dict[str, Finding]:
    return {f.code: f for f in ranked(findings)}


def test_of_two_that_contradict_the_better_one_is_suggested() -> None:
    found = said(finding("LAT301", 1.5, pulls="-registers"), finding("LAT303", 2.0, pulls="+registers"))
    assert list(found) == ["LAT303", "LAT301"]
    assert found["LAT303"].severity == "critical" and found["LAT303"].order == ""
    assert found["LAT301"].severity == "info"
    assert found["LAT301"].order == (
        "set aside: it takes fewer registers a thread, and LAT303 above takes more registers a thread"
    )


def test_the_same_direction_is_no_contradiction() -> None:
    found = said(finding("MEM104", 1.5, pulls="+registers"), finding("LAT303", 2.0, pulls="+registers -tile"))
    assert all(f.severity != "info" and not f.order for f in found.values())


def test_what_is_set_aside_contradicts_nobody() -> None:
    aside = finding("LAT301", 1.5, pulls="-registers -threads")
    found = said(finding("LAT303", 2.0, pulls="+registers"), aside, finding("GRD401", 1.2, pulls="+threads"))
    assert list(found) == ["LAT303", "GRD401", "LAT301"]
    assert found["GRD401"].severity == "minor"


def test_what_must_come_before_comes_before() -> None:
    found = said(finding("GRD405", 3.0, first="LAT304"), finding("MEM101", 2.0), finding("LAT304", 1.2))
    assert list(found) == ["LAT304", "GRD405", "MEM101"]
    assert found["LAT304"].order == "first: GRD405 only pays after it"
    assert found["GRD405"].order == "first LAT304, then this" and found["GRD405"].first == ["LAT304"]
    assert found["MEM101"].order == ""


def test_a_prerequisite_that_was_not_found_or_pays_nothing_is_none() -> None:
    alone = said(finding("GRD405", 3.0, first="LAT304"))
    assert alone["GRD405"].first == [] and alone["GRD405"].order == ""
    beside = said(finding("GRD405", 3.0, first="LAT304"), finding("LAT304", 1.01))
    assert list(beside) == ["GRD405", "LAT304"] and beside["GRD405"].first == []


def test_two_that_wait_for_each_other_end() -> None:
    found = said(finding("GRD405", 3.0, first="LAT304"), finding("LAT304", 1.2, first="GRD405"))
    assert list(found) == ["GRD405", "LAT304"]


def test_a_larger_gain_below_is_explained() -> None:
    found = said(finding("MEM102", 1.6, 0.85), finding("LAT302", 1.8, 0.5), finding("MEM101", 1.62, 0.2))
    assert list(found) == ["MEM102", "LAT302", "MEM101"]
    assert found["MEM102"].order == (
        "before LAT302, which promises more (1.80x): this cause is surer (85 % against 50 %)"
    )
    assert found["LAT302"].order == found["MEM101"].order == ""


def test_a_roof_that_leads_says_why() -> None:
    roof = structs.replace(finding("CMP208", 1.0), estimate=None, severity="major")
    found = said(roof, finding("MEM101", 1.3, 0.1))
    assert list(found) == ["CMP208", "MEM101"]
    assert found["CMP208"].order == "before MEM101, though that promises 1.30x: too little is sure of it"


def test_fixes_that_hide_the_same_waits_say_that_their_gains_do_not_add() -> None:
    found = said(finding("GRD401", 2.0), finding("LAT302", 1.8), finding("MEM101", 1.7), finding("LAT301", 1.01))
    assert found["GRD401"].overlaps == ["LAT302"] and found["LAT302"].overlaps == ["GRD401"]
    assert found["MEM101"].overlaps == [] == found["LAT301"].overlaps


def test_a_promise_that_may_come_to_nothing_is_worth_less() -> None:
    sure, unsure = finding("LAT301", 1.6), finding("CMP201", 1.7)
    assert sure.estimate is not None
    sure = structs.replace(sure, estimate=structs.replace(sure.estimate, low=1.2))
    assert list(said(unsure, sure)) == ["LAT301", "CMP201"]
