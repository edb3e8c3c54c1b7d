"""Shares that few samples say are no firmer than their count: the range of such a finding widens, its words say how
many there were, and what a handful of samples says alone is for information.

A share p of n samples has a standard error of sqrt(p (1 - p) / n), as of any binomial count (the sampler takes a warp
a time, each on its own). Two of them, relative to the share, widen both ends of what a finding saves. Findings of
counters are left alone: these count everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from kscope.features.estimate.gains import give_or_take
from kscope.features.facts import Facts
from kscope.model.contract.analysis import Finding
from kscope.model.units import counted
from kscope.rules.base import Rule
from kscope.rules.registry import all_rules

ATOMICS = "MEM109"
FEW = 1000  # samples of a kernel, from which a share of one half is sure to 3 points: below it their number is told
FIRM = 0.1  # relative error (two standard errors) up to which a range stays as it is: the estimate is no better
LITTLE = 0.03  # of the time, up to which a finding is for information whatever its samples
HANDFUL = 5  # samples behind a finding, below which they are an accident: two standard errors reach to nothing


def weighed(facts: Facts, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, before they are ranked: those that rest on few samples as little sure as these are, and those that
    rest on samples of warps in the queue of one L2 slice behind the one that names it."""
    samples = facts.counters.stalls.samples
    if not samples:
        return list(findings)
    said = [_weighed(f, samples) for f in findings]
    return [_behind(f) for f in said] if facts.counters.hot_slice is not None and facts.counters.nothing_busy else said


def _sampled(code: str) -> bool:
    """Whether a rule rests on samples."""
    return any(r.code == code and issubclass(r, Rule) and r.needs_samples for r in all_rules())


def _behind(finding: Finding) -> Finding:
    """What warps wait for elsewhere is the queue too: once it is gone, other shares are left."""
    if finding.code == ATOMICS or not _sampled(finding.code):
        return finding
    return structs.replace(finding, first=[*finding.first, ATOMICS])


def _weighed(finding: Finding, samples: int) -> Finding:
    if finding.estimate is None or not _sampled(finding.code):
        return finding
    saved = 1 - 1 / max(finding.estimate.speedup, 1.0)
    if saved < LITTLE:
        return finding
    share = min(1.0, max(saved, sum(place.share or 0.0 for place in finding.locations), 1 / samples))
    error = 2 * ((1 - share) / (share * samples)) ** 0.5
    if error > FIRM:
        finding = structs.replace(
            finding, estimate=give_or_take(finding.estimate, error),
            confidence=round(finding.confidence / (1 + error), 2),
        )  # fmt: skip
    if samples < FEW:
        words = f" The kernel has {counted(samples, 'sample')} in all: shares are no surer than that."
        finding = structs.replace(finding, why=finding.why + words)
    behind = share * samples
    if behind < HANDFUL:
        words = f"set aside: {counted(behind, 'sample', '.0f')} behind it may be an accident"
        finding = structs.replace(finding, severity="info", order=words)
    return finding
