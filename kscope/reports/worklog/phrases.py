"""What all reporters of a worklog say in the same words."""

from __future__ import annotations

from collections.abc import Sequence

from kscope.model.errors import one_line
from kscope.reports import words
from kscope.worklog.entries import Claim, Delivered, Entry
from kscope.worklog.ladder import Rung

PATCH_LINES = 60
"""Lines of a code difference that a page shows: more is read in git. Judged."""


def title(entry: Entry) -> str:
    """The first line of the message; without one, the kernel."""
    said = one_line(entry.message.partition("\n")[0])
    return said or words.shorten(entry.kernel, 60)


def factor(speedup: float | None) -> str:
    """12.6x, 0.93x; empty where there is none."""
    return words.times(speedup) if speedup else ""


def roof(entry: Entry) -> str:
    return f"{entry.pct_of_roof:.0f} %" if entry.pct_of_roof is not None else ""


def verdict(regime: str, limiter: str, sentence: str) -> str:
    """The sentence, which opens with regime and limiter, itself or by these."""
    said = one_line(sentence).rstrip(".") + "."
    if said.upper().startswith(regime.upper()) or regime == "unknown":
        return said
    return f"{_bound(regime, limiter)}: {said}"


def spread(entry: Entry) -> str:
    """`, 0.36 to 0.38 ms in 5 launches`, where several were profiled."""
    many = entry.spread
    if many is None or many.count < 2:
        return ""
    return f", {words.time(many.min_us)} to {words.time(many.max_us)} in {many.count} launches"


def promise(one: Delivered) -> str:
    """MEM101 promised 13.7x (1.6 - 28.6), delivered 12.6x: inside"""
    held = {"inside": "inside its bounds", "above": "more than it promised", "below": "less than it promised"}
    shared = "" if one.alone else ", shared with others"
    return (
        f"{one_line(one.code)} promised {words.times(one.speedup)} ({one.low:.1f} - {one.high:.1f}), delivered "
        f"{words.times(one.measured)}: {held[one.outcome]}{shared}"
    )


def best_claim(entry: Entry) -> Claim | None:
    """What the version promises for the next one."""
    ranked = [c for c in entry.claims if c.severity != "info" and c.speedup > 1]
    return max(ranked, key=lambda c: c.speedup, default=None)


def headline(rungs: Sequence[Rung]) -> str:
    """7 versions, 1 set aside: 75.8x since the start, 275.9 ms to 3.64 ms"""
    aside = sum(r.entry.status == "set aside" for r in rungs)
    best = next((r for r in rungs if r.best), None)
    count = f"{len(rungs)} version{'' if len(rungs) == 1 else 's'}" + (f", {aside} set aside" if aside else "")
    if best is None or not best.whole:
        return count
    times = f"{words.time(rungs[0].entry.time_us)} to {words.time(best.entry.time_us)}"
    return f"{count}: {words.times(best.whole)} since the start, {times}"


def shares(rungs: Sequence[Rung]) -> tuple[list[float], str]:
    """What a bar shows, 0..1 (more where a report says so), and of what: of the roof, or of the best speed where a
    report has no roof."""
    if all(r.entry.pct_of_roof is not None for r in rungs):
        return [max((r.entry.pct_of_roof or 0.0) / 100, 0.0) for r in rungs], "roof"
    times = [r.entry.time_us for r in rungs]
    best = min(times)
    return [best / time if time > 0 else 0.0 for time in times], "best speed"


def where(entry: Entry) -> str:
    """branch at 0123456789, with uncommitted changes; empty without git."""
    if not entry.git.commit:
        return ""
    at = one_line(entry.git.commit)[:10]
    branch = f"{one_line(entry.git.branch)} at " if entry.git.branch else ""
    return f"{branch}{at}" + (", with uncommitted changes" if entry.git.dirty else "")


def _bound(regime: str, limiter: str) -> str:
    joint = "by" if regime == "overhead" else "on"
    return f"{one_line(regime)}-bound {joint} {words.limiter(one_line(limiter))}"
