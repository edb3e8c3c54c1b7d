"""What the time of a recording went into, without rest: kernels, exposed communication, waits for other ranks, copies,
idle time by its cause. Times in ns, summed over the devices.
"""

from __future__ import annotations

import numpy as np

from kscope.features.timeline.communication.communication import Communication, both
from kscope.features.timeline.gaps.gap_table import CAUSES, INSIDE, PROFILER
from kscope.features.timeline.gaps.gaps import Causes
from kscope.features.timeline.operations.intervals import Cover
from kscope.model.columns import column
from kscope.model.contract.job import COMPUTING, COPYING, ONCE, SENDING, WAITING

LEFT_OUT = (PROFILER, ONCE)


def spending(causes: Causes, communication: Communication, within: Cover | None = None) -> dict[str, int]:
    """Time by what it went into, inside some intervals or the whole window. "waiting" is communication before the last
    rank came, "profiler" and "one_off" are no time of the steady state."""
    facts = causes.facts
    low, high, _ = facts.window
    inside = Cover(column([low]), column([max(high, low)])) if within is None else within
    out: dict[str, int] = {}

    def add(what: str, time: int) -> None:
        if time > 0:
            out[what] = out.get(what, 0) + time

    for device in facts.devices:
        computing = both(inside, communication.computing(device)).length
        exposed = both(inside, communication.exposed(device)).length if communication.any else 0
        waiting = both(inside, communication.waiting(device)).length if communication.any else 0
        add(COMPUTING, computing)
        add(SENDING, exposed - waiting)
        add(WAITING, waiting)
        add(COPYING, both(inside, facts.cover(device)).length - computing - exposed)
    found = causes.gaps
    idle = inside.within(found.start, found.end)
    rest = np.minimum(idle, found.rest)
    for number, cause in enumerate(CAUSES):
        mine = (found.cause == number) & ~found.once
        add(COMPUTING if cause == INSIDE else cause, int(rest[mine].sum()))
    add(ONCE, int(rest[found.once].sum()))
    add(PROFILER, int((idle - rest).sum()))
    return out
