"""One rank of a job: its recording, held while the ranks are matched. A few plain values go in and out, so that ranks
can be worked on by processes of their own (kscope.engine.timelines.rank_processes)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from kscope.engine.timelines.timeline import analyze_view
from kscope.features.timeline.communication.communication import PAIRWISE, both
from kscope.features.timeline.facts import TimelineView
from kscope.features.timeline.gaps.gap_table import CAUSES
from kscope.features.timeline.jobs.job import Meanwhile, RankFacts
from kscope.features.timeline.jobs.ranks import Table
from kscope.features.timeline.jobs.spending import spending
from kscope.features.timeline.operations.intervals import union
from kscope.features.timeline.operations.medians import median
from kscope.model.columns import Column, different
from kscope.model.contract.analysis import TimelineAnalysis
from kscope.model.contract.timeline_detail import TimelineDetail
from kscope.model.errors import one_line
from kscope.model.timeline import Timeline

_PLACES = 3
_STEPS = 3  # so many steps tell what recurs
_ONCE = 4  # a wait so many times the median step's is none that recurs


class Known(Struct, frozen=True):
    """What the other ranks tell of this one. wait: for each row of `Sent` until the last rank came, ns. late: the rank
    that came last, -1 where the row was not found elsewhere."""

    wait: Column
    late: Column


class Waits(Struct, frozen=True):
    """Times (of the awaited rank's own clock) in which another rank waited for this one."""

    waiter: int
    start: Column
    end: Column


class Session:
    """A rank's recording and what is derived from it."""

    def __init__(self, path: Path, number: int, read: Callable[[Path], Timeline]) -> None:
        self.path = path
        self.number = number
        timeline = read(path)
        place = msgspec.structs.replace(timeline.place, rank=number)
        self.view = TimelineView(msgspec.structs.replace(timeline, place=place))

    def table(self) -> Table:
        """What is matched with the other ranks."""
        low, high, _ = self.view.facts.window
        return Table(self.number, self.view.timeline.place.origin, self.view.communication.sent, low, high)

    def settle(self, known: Known) -> RankFacts:
        """Take in what the others tell; what the rank then spends its time on."""
        view = self.view
        found, facts, sent = view.communication, view.facts, view.communication.sent
        found.waits = known.wait
        awaits: dict[int, int] = {}
        pairwise = 0
        pairs = np.array([kind in PAIRWISE for kind in sent.kinds] or [False])[sent.what]
        for late in different(known.late[(known.late >= 0) & (known.wait > 0)]).tolist():
            for device in facts.devices:
                mine = (known.late == late) & (known.wait > 0) & (sent.device == device)
                time, of_pairs = (self._exposed(rows, device) for rows in (mine, mine & pairs))
                awaits[late] = awaits.get(late, 0) + time
                pairwise += of_pairs
        steps = facts.steps
        spent = spending(view.causes, found)
        places = {
            cause: tuple(one_line(name)[:200] for name, _ in view.causes.places(cause)[:_PLACES])
            for cause in CAUSES if cause in spent
        }  # fmt: skip
        kinds = {sent.kinds[i] for i in different(sent.what).tolist()}
        return RankFacts(
            number=self.number, path=str(self.path), whole=view.causes.whole, span=facts.span,
            steps=len(steps.begin) if steps is not None else 0,
            step_ns=median(steps.length) if steps is not None else None, window=facts.window[2],
            spent=spent, places=places, awaits=awaits, pairwise=pairwise, host=view.host_share,
            recorded=view.recorded_launch / max(view.share("launch"), 1e-9),
            one_way=("send" in kinds) != ("recv" in kinds),
        )  # fmt: skip

    def _exposed(self, rows: Column, device: int) -> int:
        """Time of these waits in which the device did nothing else, as it recurs: of a step that waited many times as
        long as the others no more than so many times their time."""
        found, at = self.view.communication, np.flatnonzero(rows)
        if found.waits is None or not len(at):
            return 0
        start = found.sent.start[at]
        waits = union(start, start + found.waits[at], *self.view.facts.window[:2])
        alone, steps = both(waits, found.exposed(device)), self.view.facts.steps
        if steps is None or len(steps.begin) < _STEPS:
            return alone.length
        each = alone.within(steps.begin, np.append(steps.begin[1:], steps.until))
        return int(np.minimum(each, _ONCE * median(each)).sum())

    def meanwhile(self, asked: Sequence[Waits]) -> dict[int, Meanwhile]:
        """What this rank did while others waited for it, by who waited."""
        out = {}
        for one in asked:
            order = np.argsort(one.start, kind="stable")
            cover = union(one.start[order], one.end[order])
            spent = spending(self.view.causes, self.view.communication, cover)
            out[one.waiter] = Meanwhile(spent)
        return out

    def analysis(self, codes: frozenset[str] | None) -> TimelineAnalysis:
        return analyze_view(self.view, codes)

    def detail(self, index: int) -> TimelineDetail:
        from kscope.features.views.timeline import timeline_detail

        return timeline_detail(self.view, index)

    def version(self) -> str | None:
        return self.view.timeline.tool_version
