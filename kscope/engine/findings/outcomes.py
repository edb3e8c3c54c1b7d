"""The rule loop, the same for kernels, timelines and machine code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs

from kscope.engine.findings.rank import DEBUG_BUILD, ranked
from kscope.model.contract.analysis import Finding, NotApplicable, RuleError
from kscope.model.errors import one_line
from kscope.model.faults import show_traceback
from kscope.rules.base import Missing, Outcome


class Outcomes(Struct, frozen=True):
    """What the rules said; findings best first."""

    findings: list[Finding]
    passed: list[str]
    not_applicable: list[NotApplicable]
    errors: list[RuleError]



def of_this_build(said: Outcomes) -> Outcomes:
    """Of a debug build nothing but that: what was found in its code says nothing about the code to come."""
    alone = [structs.replace(f, overlaps=[]) for f in said.findings if f.code == DEBUG_BUILD]
    if not alone:
        return said
    why = "a debug build (-G): what its code does wrong, optimised code does not; build without -G and profile again"
    withdrawn = [NotApplicable(code=f.code, why=why) for f in said.findings if f.code != DEBUG_BUILD]
    return Outcomes(alone, said.passed, [*said.not_applicable, *withdrawn], said.errors)


def judged(
    checks: Iterable[tuple[str, Callable[[], Outcome]]],
    order: Callable[[Sequence[Finding]], list[Finding]] = ranked,
) -> Outcomes:
    """Run (code, check) pairs. A rule that raises becomes an error and never costs the others; KSCOPE_DEBUG=1
    prints its traceback. `order`: best first."""
    findings: list[Finding] = []
    passed: list[str] = []
    missing: list[NotApplicable] = []
    errors: list[RuleError] = []
    for code, check in checks:
        try:
            outcome = check()
        except Exception as e:
            show_traceback(e)
            errors.append(RuleError(code=code, message=one_line(f"{type(e).__name__}: {e}")))
            continue
        if isinstance(outcome, Finding):
            findings.append(outcome)
        elif isinstance(outcome, Missing):
            missing.append(NotApplicable(code=code, why=outcome.why))
        else:
            passed.append(code)
    return Outcomes(order(findings), passed, missing, errors)
