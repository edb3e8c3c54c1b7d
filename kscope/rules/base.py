"""What a rule is: metadata, and one function from facts to an outcome.

A rule module defines one rule. Its docstring is the rule's page (`kscope explain CODE`, rules/CODE.md) and has the
sections that `tests/rules/test_docs.py` demands: What it does, Why it costs time, Evidence, Fix, In SASS, When it is
wrong, Source. `kscope dev new-rule CODE slug` writes one to start from; CONTRIBUTING.md goes through all of it.

It derives from one of
    ProfiledRule    `check(facts, code)`: machine code with what the profiler saw at each instruction; samples too with
                    `needs_samples = True`
    CounterRule     `check(facts)`: counters decide; `needs` names those without which nothing can be said
    CodeRule        nothing to check: its lint (kscope.rules.lint) does the work, on machine code alone
    TimelineRule    kscope.rules.timeline_base: whole programs
and asks everything of `facts` (kscope.features.facts lists the namespaces; `facts.` completes in an editor), from which
it also imports the few types and words that it needs: import-linter refuses any other import from kscope.features.
What two rules need goes to kscope/rules/_shared; what is costly, or asked by several, becomes a cached property of a
namespace of Facts. A rule answers with
    self.finding(...)   what is wrong (why), what to change (fix), evidence, places, and an estimate of
                        `facts.estimate`: relieve (work goes), overlap (more in flight), balance (idle SMs get work)
    PASSED              it had what it needs and found nothing
    Missing(why)        an input lacks; `needs`, `needs_sass` and `needs_samples` answer that for most rules
Thresholds are named constants with a comment that says what they were measured or judged on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from kscope.model.contract.analysis import Estimate, Evidence, Finding, Location, Regime, Remedy, Severity
from kscope.model.metric_names import is_read
from kscope.model.units import counted, figure, percent, spelled, with_article

__all__ = [
    "FAINT", "PASSED", "AnyRule", "CodeRule", "CounterRule", "Missing", "Outcome", "Passed", "ProfiledRule", "Rule",
    "counted", "derived", "figure", "measured", "percent", "spelled", "with_article",
]  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.features.facts import Code, Facts


FAINT = 0.3
"""Confidence of what counters alone say: the cost is counted, its cause is not proven."""


class Passed(Struct, frozen=True):
    """The rule had what it needs and found nothing."""


class Missing(Struct, frozen=True):
    """The rule lacks an input; `why` names it and the flag or section that collects it."""

    why: str


Outcome = Finding | Passed | Missing
PASSED = Passed()


def measured(facts: Facts, metric: str, note: str = "") -> Evidence:
    """Evidence straight from a metric of the report; value null where it was not collected."""
    metrics = facts.kernel.metrics
    value = metrics.get(metric)
    return Evidence(metric=metric, value=value, unit=metrics.unit(metric), note=note)


def derived(name: str, value: float, unit: str, note: str = "") -> Evidence:
    """Evidence that kscope computed; `note` says from what."""
    return Evidence(metric=name, value=round(float(value), 4), unit=unit, note=note)


class AnyRule:
    """What every rule says of itself, whether it looks at a kernel or at a timeline."""

    code: ClassVar[str]
    slug: ClassVar[str]
    title: ClassVar[str]
    regime: ClassVar[Regime]
    collect: ClassVar[str]


class CodeRule(AnyRule):
    """Base of the rules that machine code alone decides: no counter would add anything. Their lints do the work."""

    collect: ClassVar[str] = "kscope sass BINARY"


class Rule(AnyRule):
    """What rules on a kernel have in common. They derive from CounterRule or ProfiledRule, set the class variables and
    implement `check`."""

    needs: ClassVar[tuple[str, ...]] = ()
    """Metric names without which the rule is not applicable (any one of a|b|c counts)."""
    needs_sass: ClassVar[bool] = False
    needs_samples: ClassVar[bool] = False
    collect: ClassVar[str] = "--set full"
    """What collects the needs: an ncu flag."""
    moves_roof: ClassVar[bool] = False
    """Whether the fix takes bytes from device memory, so that the roof of now does not bound it: spilled and local
    arrays, data read again, data that lie elsewhere."""

    def judge(self, facts: Facts) -> Outcome:
        """The rule's `check`, with what its needs promise."""
        raise NotImplementedError(self.code)

    def run(self, facts: Facts) -> Outcome:
        """Check the needs, then the rule itself; what counters alone can tell where only SASS or samples lack."""
        missing = self.missing(facts)
        if missing is None:
            return self.judge(facts)
        return self.by_counters(facts) or missing

    def by_counters(self, facts: Facts) -> Finding | None:
        """A finding without SASS or samples: no place, and a confidence of FAINT at most. Most rules have none."""
        return None

    def missing(self, facts: Facts) -> Missing | None:
        metrics = facts.kernel.metrics
        for need in self.needs:
            if not all(map(is_read, need.split("|"))):
                raise LookupError(f"{need} is not among the metrics that are read from reports: `make names`")
            if metrics.first(*need.split("|")) is None:
                return Missing(f"{need.split('|')[0]} was not collected; profile with {self.collect}")
        if self.needs_sass and facts.kernel.program is None:
            lost = next((n for n in facts.kernel.notes if n.startswith("SASS")), None)
            return Missing(lost or "the report holds no SASS; profile with --set full (section SourceCounters)")
        if self.needs_samples and facts.counters.stalls.samples == 0:
            return Missing("no warp-state samples; profile with --section SourceCounters --section WarpStateStats")
        return None

    def finding(
        self,
        *,
        title: str | None = None,
        why: str,
        fix: str,
        evidence: list[Evidence],
        locations: list[Location] | None = None,
        estimate: Estimate | None = None,
        severity: Severity = "info",
        confidence: float = 0.7,
        regime: Regime | None = None,
        remedies: Sequence[Remedy] = (),
        pulls: Sequence[str] = (),
        first: Sequence[str] = (),
    ) -> Finding:
        """severity: of a finding without an estimate; that of others follows from what they promise. remedies: ways
        beside `fix`, with those whose condition does not hold; pulls: what the fix takes more (+) or less (-) of;
        first: codes of findings, where they are made, without whose fix this one does not pay."""
        covered, share = getattr(locations, "covered", ()), getattr(locations, "share", None)
        return Finding(
            rule=self.slug, code=self.code, title=title or self.title, regime=regime or self.regime,
            severity=severity, estimate=estimate, evidence=evidence, locations=list(locations or ()), why=why, fix=fix,
            confidence=round(confidence, 2), covered=sorted(covered) if len(covered) > len(locations or ()) else [],
            remedies=list(remedies), pulls=list(pulls), first=list(first),
            covered_share=round(min(share, 1.0), 4) if share is not None else None,
        )  # fmt: skip


class CounterRule(Rule):
    """Base of the rules that do without machine code. `facts.code` may be None: it only adds places."""

    def check(self, facts: Facts) -> Outcome:
        raise NotImplementedError(self.code)

    def judge(self, facts: Facts) -> Outcome:
        return self.check(facts)


class ProfiledRule(Rule):
    """Base of the rules on machine code with what the profiler saw at each instruction."""

    needs_sass: ClassVar[bool] = True

    def check(self, facts: Facts, code: Code) -> Outcome:
        raise NotImplementedError(self.code)

    def judge(self, facts: Facts) -> Outcome:
        assert facts.code is not None, "run() has asked for it"
        return self.check(facts, facts.code)
