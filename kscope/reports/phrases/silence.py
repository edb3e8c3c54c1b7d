"""What silence says: nothing was found, or nothing could be looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.contract.analysis import TimelineAnalysis
from kscope.model.contract.next_step import UNHEARD
from kscope.model.quoted import quoted
from kscope.model.units import counted
from kscope.reports.phrases.timeline import to_gain

if TYPE_CHECKING:
    from kscope.model.contract.analysis import JobAnalysis, KernelAnalysis


def nothing(kernel: KernelAnalysis | TimelineAnalysis | JobAnalysis) -> str:
    """Why there is no suggestion."""
    silent = len(kernel.not_applicable) + len(kernel.errors)
    if kernel.not_applicable and not kernel.passed and not kernel.findings:
        return "no rule had what it needs"
    if not looked(kernel):
        return f"{silent} of {silent + len(kernel.passed) + len(kernel.findings)} rules could not look"
    done = len(kernel.passed) + len({f.code for f in kernel.findings})
    lacked = f", {counted(silent, 'rule')} could not look" if silent else ""
    found = f"{counted(done, 'rule')} looked, none found a fault worth 3 % or more{lacked}"
    if operators := _to_gain(kernel):
        what = f"{quoted(operators[0])}{' and others' if operators[1:] else ''}"
        return f"{found}; no rule prices what {what} could gain"
    return found


def looked(kernel: KernelAnalysis | TimelineAnalysis | JobAnalysis) -> bool:
    """Whether so many rules had what they need that their silence says something."""
    return len(kernel.not_applicable) + len(kernel.errors) < UNHEARD


def contented(kernel: KernelAnalysis | TimelineAnalysis | JobAnalysis) -> bool:
    """Whether silence is good news: the rules looked, and no operator is said to have something to gain."""
    return looked(kernel) and not _to_gain(kernel)


def _to_gain(one: KernelAnalysis | TimelineAnalysis | JobAnalysis) -> list[str]:
    return to_gain(one) if isinstance(one, TimelineAnalysis) else []
