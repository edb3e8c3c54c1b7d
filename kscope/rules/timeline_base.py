"""What a rule about a timeline is: the counterpart of `kscope.rules.base.Rule` for whole programs.

Its docstring is its page, with the same sections. `kscope rules`, `explain` and the rule book list both kinds; the
kernel engine runs only Rule, the timeline engine only TimelineRule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec import structs

from kscope.features.estimate.gains import of_program as gain
from kscope.model.contract.analysis import Estimate, Evidence, Finding, Regime
from kscope.model.quoted import quoted
from kscope.model.units import counted
from kscope.rules.base import AnyRule, Missing, Outcome, derived

__all__ = ["TimelineRule", "derived", "gain", "quoted"]

if TYPE_CHECKING:
    from kscope.features.timeline.facts import TimelineView

UNTIED = 0.2  # beyond this share of operations without their call, causes would be guesses


class TimelineRule(AnyRule):
    """Base of the rules on a Timeline."""

    regime: ClassVar[Regime] = "overhead"
    collect: ClassVar[str] = "nsys profile -t cuda,nvtx, or torch.profiler with CPU and CUDA activities"
    needs_calls: ClassVar[bool] = True
    """Whether the rule needs API calls tied to GPU operations."""

    def check(self, view: TimelineView) -> Outcome:
        raise NotImplementedError(self.code)

    def run(self, view: TimelineView) -> Outcome:
        """Check the needs, then the rule itself."""
        found = self.missing(view) or self.check(view)
        return structs.replace(found, fix=view.in_its_words(found.fix)) if isinstance(found, Finding) else found

    def missing(self, view: TimelineView) -> Missing | None:
        timeline, facts = view.timeline, view.facts
        if not len(timeline.ops):
            return Missing(f"no GPU operation was recorded; record with {self.collect}")
        if view.operations < view.LEAST:
            return Missing(
                f"{counted(view.operations, 'GPU operation')} in the window: too few to tell what recurs; record more"
            )
        if view.unseen.most:
            return Missing("most launches have no operation in the recording: what the GPU did is unknown")
        if view.mostly_once:
            return Missing("most of the window happened once, and no step recurs: record steps after the warm-up")
        if view.one_pass:
            return Missing("no operation ran several times: what the GPU waits for may be once; record several steps")
        if self.needs_calls and not len(timeline.calls):
            return Missing(f"no CUDA API call was recorded; record with {self.collect}")
        if self.needs_calls and facts.missing_launches > UNTIED:
            share = f"{100 * facts.missing_launches:.0f} %"
            return Missing(f"{share} of the GPU operations have no API call in the recording: start it before the work")
        return None

    def finding(
        self, *, title: str, why: str, fix: str, evidence: list[Evidence], estimate: Estimate, confidence: float = 0.7
    ) -> Finding:
        return Finding(
            rule=self.slug, code=self.code, title=title, regime=self.regime, estimate=estimate, evidence=evidence,
            why=why, fix=fix, confidence=round(confidence, 2),
        )  # fmt: skip
