"""Why suggestions stand in the order that they have (kscope.engine.findings.rank), beyond that of their gains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.engine.findings.rank import at_roof, one_chain, worth
from kscope.reports import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kscope.model.contract.analysis import Finding

PLAIN = "best first, by expected gain"


def order(findings: Sequence[Finding]) -> str:
    """One sentence; empty for fewer than two."""
    ranked = [f for f in findings if f.severity != "info"]
    if len(ranked) < 2:
        return ""
    if at_roof(ranked[0]):
        return f"{ranked[0].code} leads: the kernel is at its roof, and nothing promises enough to move it"
    if one_chain(ranked[0]):
        return f"{ranked[0].code} leads: one thread's chain is the limit, and nothing promises enough to shorten it"
    gains = [f.estimate.speedup if f.estimate else 1.0 for f in ranked]
    if gains == sorted(gains, reverse=True):
        return PLAIN
    if any(f.order for f in ranked):  # said beside the finding
        return ""
    above = next(i for i in range(1, len(ranked)) if gains[i] > gains[i - 1])
    first, second = ranked[above - 1], ranked[above]
    return (
        f"by gain and confidence together: {second.code} promises more than {first.code}, but is sure by "
        f"{words.percent(second.confidence)} only, not {words.percent(first.confidence)}"
        if worth(first) > worth(second) and first.confidence > second.confidence
        else "by gain and confidence together"
    )
