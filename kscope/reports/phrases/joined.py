"""The joined verdict of a timeline and its kernel reports, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kscope.model.errors import one_line
from kscope.model.quoted import quoted
from kscope.reports import words

if TYPE_CHECKING:
    from kscope.model.contract.analysis import JoinedAnalysis, JoinedKernel, JoinedSuggestion

UNUSED_SHOWN = 4


def badge(joined: JoinedAnalysis) -> tuple[str, str, str]:
    """(word, rest of the sentence, style)."""
    if joined.verdict is None:
        return "NO VERDICT:", one_line(joined.abstained), "bold"
    return *words.badge(joined.verdict), joined.verdict.regime


def about(joined: JoinedAnalysis) -> str:
    reports = ", ".join(quoted(words.basename(r)) for r in joined.reports)
    return (
        f"{quoted(words.basename(joined.input))} with {reports}: window {words.time(joined.span_us)}, kernels run "
        f"{joined.kernels_pct:.1f} % of it less the profiler's part, {joined.matched_pct:.0f} % of their time has "
        "counters"
    )


def bound(kernel: JoinedKernel) -> str:
    if kernel.regime is None or kernel.limiter is None:
        return one_line(kernel.why)
    return f"{kernel.regime}, {words.limiter(kernel.limiter)}"


def place(suggestion: JoinedSuggestion) -> str:
    return f"in {one_line(suggestion.kernel)}" if suggestion.kernel else "of the program"


def parts_of(suggestion: JoinedSuggestion) -> str:
    """What the gain of a kernel is made of."""
    if suggestion.kernel_speedup is None or suggestion.busy_speedup is None or suggestion.share is None:
        return ""
    return (
        f"the kernel {words.times(suggestion.kernel_speedup)}, {words.percent(suggestion.share)} of the window; all "
        f"kernels together {words.times(suggestion.busy_speedup)}"
    )


def unused(joined: JoinedAnalysis) -> str:
    if not joined.unused:
        return ""
    names = ", ".join(quoted(words.shorten(n, 40)) for n in joined.unused[:UNUSED_SHOWN])
    more = f" and {len(joined.unused) - UNUSED_SHOWN} more" if len(joined.unused) > UNUSED_SHOWN else ""
    return f"profiled, but not in the timeline: {names}{more}"
