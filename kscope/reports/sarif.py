"""SARIF 2.1.0 (OASIS standard): findings as code-scanning results at the source lines that the report names.

A level is the severity: critical `error`, major `warning`, minor and info `note`. A finding without a source line keeps
its kernel and instruction as a logical location. Paths come from the report and are never opened.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.reports.escape import message

if TYPE_CHECKING:
    from kscope.model.contract.analysis import Analysis, Estimate, Finding, JoinedAnalysis, JoinedSuggestion, Location
    from kscope.reports import Options

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {"critical": "error", "major": "warning", "minor": "note", "info": "note"}
PLACES = 10


def render(analysis: Analysis, options: Options) -> str:
    """One run with what is worth most for the whole program where a recording and its kernels are joined, then all
    findings of kernels and recordings, best first within each."""
    groups = [(one_line(k.demangled or k.name), k.findings) for k in analysis.kernels]
    groups += [(one_line(job.name), job.findings) for job in analysis.jobs]
    groups += [(one_line(t.input), t.findings) for t in analysis.timelines]
    groups += [(one_line(f.demangled or f.name), f.findings) for p in analysis.programs for f in p.functions]
    found = [(name, finding) for name, findings in groups for finding in findings]
    programs = [(joined, one) for joined in analysis.joined for one in joined.suggestions]
    rules: dict[str, Finding | JoinedSuggestion] = {one.code: one for _, one in programs}
    rules |= {finding.code: finding for _, finding in found}
    order = sorted(rules)
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "kscope",
                "version": analysis.kscope,
                "rules": [_rule(rules[code]) for code in order],
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {"level": "warning", "message": {"text": message(f"{s.input}: {s.message}")}}
                    for s in analysis.skipped
                ],
            }],
            "results": [
                *(_of_program(joined, one, order.index(one.code)) for joined, one in programs),
                *(_result(name, finding, order.index(finding.code)) for name, finding in found),
            ],
        }],
    }  # fmt: skip
    return json.dumps(log, ensure_ascii=True) + "\n"


def _rule(finding: Finding | JoinedSuggestion) -> dict[str, Any]:
    text = one_line(finding.rule).replace("-", " ")
    return {
        "id": finding.code,
        "name": "".join(word.capitalize() for word in text.split()),
        "shortDescription": {"text": text},
        "help": {"text": f"kscope explain {finding.code}"},
    }


def _result(name: str, finding: Finding, rule: int) -> dict[str, Any]:
    places = [_place(name, location) for location in finding.locations[:PLACES]]
    properties: dict[str, Any] = {"regime": finding.regime, "confidence": finding.confidence, "kernel": name}
    if finding.estimate:
        properties |= {
            "speedup": finding.estimate.speedup, "low": finding.estimate.low, "high": finding.estimate.high,
            "cappedBy": one_line(finding.estimate.capped_by),
        }  # fmt: skip
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": LEVELS[finding.severity],
        "message": {"text": _message(name, finding.why or finding.title, finding.estimate, finding.fix)},
        "locations": places[:1] or [{"logicalLocations": [{"fullyQualifiedName": name, "kind": "function"}]}],
        "relatedLocations": [{"id": i, **place} for i, place in enumerate(places[1:], 1)],
        "properties": properties,
    }


def _of_program(joined: JoinedAnalysis, one: JoinedSuggestion, rule: int) -> dict[str, Any]:
    """A suggestion of the joined verdict: its gain is the program's. The kernel's own result has the source lines."""
    program = one_line(joined.input)
    where = f"{program}, {one_line(one.kernel)}" if one.kernel else program
    properties: dict[str, Any] = {
        "scope": "program", "confidence": one.confidence, "program": program, "speedup": one.estimate.speedup,
        "low": one.estimate.low, "high": one.estimate.high, "cappedBy": one_line(one.estimate.capped_by),
    }  # fmt: skip
    if joined.verdict is not None:
        properties |= {"regime": joined.verdict.regime, "verdict": one_line(joined.verdict.sentence)}
    if one.kernel:
        properties |= {"kernel": one_line(one.kernel), "kernelSpeedup": one.kernel_speedup, "share": one.share}
    name = one_line(one.kernel) if one.kernel else program
    return {
        "ruleId": one.code,
        "ruleIndex": rule,
        "level": LEVELS[one.severity],
        "message": {"text": _message(f"The program ({where})", one.title, one.estimate, one.fix)},
        "locations": [{"logicalLocations": [
            {"fullyQualifiedName": name, "kind": "function" if one.kernel else "module"},
        ]}],
        "properties": properties,
    }  # fmt: skip


def _message(name: str, what: str, estimate: Estimate | None, fix: str) -> str:
    """Sentences, each with one full stop."""
    gain = words.expectation(estimate)
    parts = [f"{name}: {one_line(what)}", gain[:1].upper() + gain[1:]] + ([f"Next: {one_line(fix)}"] if fix else [])
    return message(" ".join(part if part.endswith((".", "?", "!")) else f"{part}." for part in parts))


def _place(name: str, location: Location) -> dict[str, Any]:
    sass = one_line(location.sass or location.opcode)
    place: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": name, "kind": "function"}],
        "message": {"text": message(f"{location.pc:#06x}  {sass}")},
    }
    if location.file and location.line:
        place["physicalLocation"] = {
            "artifactLocation": {"uri": uri(location.file)},
            "region": {"startLine": location.line},
        }
    return place


def uri(path: str) -> str:
    """A path of either system as a URI reference: absolute ones become `file:` URIs, relative ones stay so."""
    path = path.replace("\\", "/")
    escaped = quote(path.encode("utf-8", "replace"), safe="/:" if path[1:2] == ":" else "/")
    if path.startswith("/"):
        return f"file://{escaped}"
    return f"file:///{escaped}" if path[1:3] == ":/" else escaped
