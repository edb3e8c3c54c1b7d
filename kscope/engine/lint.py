"""One function of a binary to its findings: every lint, ranked, none of them able to cost the others."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from kscope.features.listing import Listing
from kscope.model.analysis import Finding, NotApplicable, RuleError
from kscope.model.errors import one_line
from kscope.rules.base import Missing
from kscope.rules.registry import all_lints

ORDER = ("critical", "major", "minor", "info")


class Linted(Struct, frozen=True):
    """What machine code alone says of one function: findings (gravest first), codes that found nothing, codes that
    lack an input, and lints that failed."""

    findings: list[Finding]
    passed: list[str]
    not_applicable: list[NotApplicable]
    errors: list[RuleError]


def lint(code: Listing, codes: Collection[str] | None = None) -> Linted:
    """Run the lints on a function. `codes`: only those of these rules (all if None). Never raises: a lint that does
    becomes an entry of `errors`."""
    out = Linted([], [], [], [])
    for one in all_lints():
        if codes is not None and one.of.code not in codes:
            continue
        try:
            outcome = one().check(code)
        except Exception as e:
            out.errors.append(RuleError(code=one.of.code, message=one_line(f"{type(e).__name__}: {e}")))
            continue
        if isinstance(outcome, Finding):
            out.findings.append(outcome)
        elif isinstance(outcome, Missing):
            out.not_applicable.append(NotApplicable(code=one.of.code, why=outcome.why))
        else:
            out.passed.append(one.of.code)
    out.findings.sort(key=lambda f: (ORDER.index(f.severity), -f.confidence, f.code))
    return out
