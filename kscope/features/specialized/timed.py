"""Coverage of waits from samples with time stamps: the bounds of totals, bin by bin of the unit's timeline.

Where a wait lies in time is known then, and how busy the unit was meanwhile: in each bin its share of the role's
samples and the unit's activity bound their overlap (`kscope.features.specialized.coverage`), and the bins add up. The
finer the bins, the closer the bounds; they are never wider than those of the totals.

Samples and timelines are taken in passes of their own. Both begin with the first block, so the first sample is put at
the first work of the timeline; launches that take differently long would blur the rest, and are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kscope.features.specialized.coverage import NOTHING, Share, covered

if TYPE_CHECKING:
    from kscope.features.profile.code import Code
    from kscope.features.specialized.phases import Activity, Phases
    from kscope.model.kernel import TimedSamples

FEW = 64  # waits with a time stamp, below which their order says nothing: 12 % at two standard errors
APART = 0.1  # of the span, by which both passes may differ: as two launches of a kernel do (judged)


class Timed:
    """The samples of one launch by bin of its timeline: only those of the steady phase."""

    def __init__(self, code: Code, samples: TimedSamples, activity: Activity, phases: Phases) -> None:
        self._activity = activity
        place = {code[i].pc: i for i in range(len(code))}
        lead = (1 - activity.full[0]) * activity.bin
        first, last = phases.fill, activity.span - phases.drain
        self._rows: list[tuple[int, int, str]] = []
        for when, offset, reason in zip(samples.times, samples.offsets, samples.reasons, strict=True):
            at = when / 1000
            number = int((lead + at) / activity.bin)
            if first <= at <= last and number < len(activity.full) and offset in place:
                self._rows.append((number, place[offset], reason))

    def overlap(
        self, role: frozenset[int], waits: Mapping[frozenset[int], frozenset[str]], values: Sequence[float],
        works: float,
    ) -> Share | None:  # fmt: skip
        """Share of a role's waits in which a unit works, with bounds; None where there are too few of them. waits:
        instructions of each site -> the reasons that count there (none: all). values: the unit's activity a bin; works:
        what that is on average, as shares of time count it."""
        mean = sum(values) / len(values) if values else 0.0
        if not mean:
            return None
        alive, waiting = [0] * len(values), [0] * len(values)
        for number, index, reason in self._rows:
            if index not in role or number >= len(values):
                continue
            alive[number] += 1
            waiting[number] += any(index in at and (not why or reason in why) for at, why in waits.items())
        every = sum(waiting)
        if every < FEW:
            return None
        out = NOTHING
        for n, k, value in zip(alive, waiting, values, strict=True):
            if n:
                out = out.plus(covered(k / n, min(1.0, value * works / mean)).scaled(n))
        return out.scaled(1 / every)


def timed_of(
    code: Code, samples: TimedSamples | None, activity: Activity | None, phases: Phases | None
) -> Timed | None:
    """None where there are no samples with time stamps, no phases to place them in, or the passes do not match."""
    if samples is None or activity is None or phases is None or not phases.resolved or not samples.times:
        return None
    span = samples.times[-1] / 1000
    if abs(span - activity.span) > APART * activity.span + activity.bin:
        return None
    return Timed(code, samples, activity, phases)


def sites(
    found: Iterable[tuple[frozenset[int], bool]], waiting: Iterable[str]
) -> dict[frozenset[int], frozenset[str]]:
    """Sites as `overlap` takes them: (instructions, whether all their samples are waits)."""
    reasons = frozenset(waiting)
    return {at: frozenset() if whole else reasons for at, whole in found}
