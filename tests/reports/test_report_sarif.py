"""SARIF of the sample and of real captures."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kscope.engine.run import analyze_paths
from kscope.model.contract.analysis import Analysis
from kscope.reports import Options, render
from kscope.reports.sarif import uri
from tests.reports.sample import HOSTILE, hostile
from tests.support import traces
from tests.support.reports import fixture


def run(analysis: Analysis) -> dict[str, Any]:
    log = json.loads(render("sarif", analysis, Options()))
    assert log["version"] == "2.1.0" and len(log["runs"]) == 1
    one: dict[str, Any] = log["runs"][0]
    return one


def test_a_finding_is_a_result_at_its_source_line() -> None:
    analysis = analyze_paths([fixture("bank_conflict.slow")])
    one = run(analysis)
    first = analysis.kernels[0].findings[0]
    result = one["results"][0]
    assert result["ruleId"] == first.code == "MEM103" and result["level"] == "error"
    assert one["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "MEM103"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("/dev_kernels.cu")
    assert place["region"]["startLine"] == first.locations[0].line
    assert first.estimate and result["properties"]["speedup"] == first.estimate.speedup
    assert len(one["results"]) == len(analysis.kernels[0].findings)


def test_rules_are_listed_once_and_indices_hold() -> None:
    one = run(analyze_paths([fixture("multi_kernels")]))
    ids = [rule["id"] for rule in one["tool"]["driver"]["rules"]]
    assert len(ids) == len(set(ids)) > 1
    assert all(ids[r["ruleIndex"]] == r["ruleId"] for r in one["results"])


def test_the_joined_suggestions_come_first_with_the_gain_of_the_program() -> None:
    analysis = analyze_paths([traces.TRACES / "app.json.xz", traces.TRACES / "app_kernels.ncu-rep.xz"])
    (joined,) = analysis.joined
    one = run(analysis)
    own, rest = one["results"][: len(joined.suggestions)], one["results"][len(joined.suggestions) :]
    assert [r["ruleId"] for r in own] == [s.code for s in joined.suggestions] and joined.verdict is not None
    for result, said in zip(own, joined.suggestions, strict=True):
        assert result["properties"]["scope"] == "program"
        assert result["properties"]["speedup"] == said.estimate.speedup
        assert result["properties"]["verdict"] == joined.verdict.sentence
        assert result["properties"].get("kernel") == (said.kernel or None)
    assert len(rest) == sum(len(x.findings) for x in [*analysis.kernels, *analysis.timelines])
    assert not any("scope" in r["properties"] for r in rest)
    ids = [rule["id"] for rule in one["tool"]["driver"]["rules"]]
    assert all(ids[r["ruleIndex"]] == r["ruleId"] for r in one["results"])


def test_messages_are_sentences_with_one_full_stop() -> None:
    for result in run(analyze_paths([fixture("multi_kernels")]))["results"]:
        text = result["message"]["text"]
        assert ".." not in text.replace("(...)", "") and text.endswith(".")


def test_hostile_text_stays_text() -> None:
    shown = render("sarif", hostile(), Options())
    assert "\x1b" not in shown and "\\u001b" not in shown and "\\u202e" not in shown
    for result in run(hostile())["results"]:
        for place in [*result["locations"], *result["relatedLocations"]]:
            at = place.get("physicalLocation")
            assert at is None or re.fullmatch(r"[!-~]+", at["artifactLocation"]["uri"])
    assert HOSTILE not in shown


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/src/a b.cu", "file:///src/a%20b.cu"),
        ("kernels/x.cu", "kernels/x.cu"),
        (r"C:\src\x.cu", "file:///C:/src/x.cu"),
        ("javascript:alert(1)", "javascript%3Aalert%281%29"),
        ("a?b#c", "a%3Fb%23c"),
    ],
)
def test_paths_become_uris(path: str, shown: str) -> None:
    assert uri(path) == shown
