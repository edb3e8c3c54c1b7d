"""What a rule about a job of several ranks is: the counterpart of `timeline_base.TimelineRule` for all recordings of a
job together. Its docstring is its page, with the same sections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kscope.model.contract.analysis import Estimate, Evidence, Finding, Regime
from kscope.rules.base import AnyRule, Missing, Outcome

if TYPE_CHECKING:
    from kscope.features.timeline.jobs.job import JobView

FEWEST = 4
"""Collectives of all ranks that must be matched before anything is said of who waits for whom."""


class JobRule(AnyRule):
    """Base of the rules on a job."""

    regime: ClassVar[Regime] = "overhead"
    collect: ClassVar[str] = "nsys profile -t cuda,nvtx or torch.profiler on every rank, all recordings in one folder"

    def check(self, job: JobView) -> Outcome:
        raise NotImplementedError(self.code)

    def run(self, job: JobView) -> Outcome:
        """Check the needs, then the rule itself."""
        if job.matched < FEWEST:
            return Missing(f"only {job.matched} collectives were found on several ranks; record the same steps on each")
        return self.check(job)

    def finding(
        self, *, title: str, why: str, fix: str, evidence: list[Evidence], estimate: Estimate, confidence: float
    ) -> Finding:
        return Finding(
            rule=self.slug, code=self.code, title=title, regime=self.regime, estimate=estimate, evidence=evidence,
            why=why, fix=fix, confidence=round(confidence, 2),
        )  # fmt: skip
