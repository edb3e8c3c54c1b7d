"""JUnit XML, which CI systems show as tests: a suite a kernel (or function of a binary, or recording), a case a rule.

A finding of severity critical or major is a failure; a smaller one passes and says so in its output, a rule without its
inputs is skipped, one that failed is an error. The schema is that of the Ant task (testsuites, testsuite, testcase),
which Jenkins, GitLab and GitHub's test reporters read. A gate of its own is --fail-on: its exit status counts there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from kscope.model.errors import one_line
from kscope.reports import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kscope.model.contract.analysis import Analysis, Finding, NotApplicable, RuleError
    from kscope.reports import Options

FAILS = frozenset({"critical", "major"})
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(analysis: Analysis, options: Options) -> str:
    """The whole document, ending in a newline."""
    suites = list(_suites(analysis))
    failures, errors = (sum(text.count(f"<{tag} ") for text in suites) for tag in ("failure", "error"))
    cases = sum(text.count("<testcase ") for text in suites)
    head = f'<testsuites name="kscope" tests="{cases}" failures="{failures}" errors="{errors}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *suites, "</testsuites>"]) + "\n"


def _suites(analysis: Analysis) -> Iterator[str]:
    for k in analysis.kernels:
        yield _suite(k.demangled or k.name, k.findings, k.passed, k.not_applicable, k.errors, k.verdict.sentence)
    for job in analysis.jobs:
        yield _suite(job.name, job.findings, job.passed, job.not_applicable, job.errors, "")
    for t in analysis.timelines:
        told = t.verdict.sentence if t.verdict is not None else t.abstained
        yield _suite(t.input, t.findings, t.passed, t.not_applicable, t.errors, told)
    for program in analysis.programs:
        for f in program.functions:
            yield _suite(f.demangled or f.name, f.findings, f.passed, f.not_applicable, f.errors, "")
    if analysis.skipped:
        cases = [
            _case("inputs", s.input, f"<error message={_attribute(f'{s.what}: {s.message}')} type=\"input\"/>")
            for s in analysis.skipped
        ]
        yield _wrapped("not read", cases, "")


def _suite(
    name: str, findings: Sequence[Finding], passed: Sequence[str], silent: Sequence[NotApplicable],
    errors: Sequence[RuleError], told: str,
) -> str:  # fmt: skip
    cases = [_case(name, f"{f.code} {f.rule}", _judged(f)) for f in findings]
    cases += [_case(name, code, "") for code in passed]
    cases += [_case(name, n.code, f"<skipped message={_attribute(n.why)}/>") for n in silent]
    cases += [_case(name, e.code, f"<error message={_attribute(e.message)} type=\"rule\"/>") for e in errors]
    return _wrapped(name, cases, told)


def _wrapped(name: str, cases: Sequence[str], told: str) -> str:
    counts = {tag: sum(f"<{tag} " in case for case in cases) for tag in ("failure", "error", "skipped")}
    head = " ".join(f'{tag}{"" if tag == "skipped" else "s"}="{n}"' for tag, n in counts.items())
    out = [f'<testsuite name={_attribute(name)} tests="{len(cases)}" {head}>', *cases]
    return "\n".join([*out, *([f"<system-out>{_text(told)}</system-out>"] if told else []), "</testsuite>"])


def _case(suite: str, name: str, inside: str) -> str:
    about = f"<testcase classname={_attribute(suite)} name={_attribute(name)} time=\"0\""
    return f"{about}>{inside}</testcase>" if inside else f"{about}/>"


def _judged(finding: Finding) -> str:
    """What a finding is as a test: the sentence, its gain, its places, the fix."""
    lines = [finding.why or finding.title, words.expectation(finding.estimate)]
    lines += [f"at {words.place(x, full=True)}  {x.sass or x.opcode}" for x in finding.locations]
    lines += [f"fix: {finding.fix}"] if finding.fix else []
    body = _text("\n".join(map(one_line, lines)))
    if finding.severity in FAILS:
        return f"<failure message={_attribute(finding.title)} type={_attribute(finding.severity)}>{body}</failure>"
    return f"<system-out>{body}</system-out>"


def _attribute(text: str) -> str:
    return quoteattr(_FORBIDDEN.sub("?", one_line(text)))


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("?", text))
