"""A recording without a GPU operation: what the file itself tells of why, and what the host did meanwhile."""

from __future__ import annotations

import numpy as np

from kscope.model.columns import distinct
from kscope.model.timeline import Calls, Spans, Timeline
from kscope.model.units import counted
from kscope.rules.timeline_base import quoted

NOTHING = "no GPU operation was recorded"
SHOWN = 3


def why(timeline: Timeline) -> str:
    """One sentence for `abstained`: what the recording lacks, as far as it says so itself, and what to do."""
    calls = len(timeline.calls)
    launches = _launches(timeline)
    asked = timeline.recorder.asked
    if timeline.kind == "kineto":
        if launches:
            lost = f"the program launched {counted(launches, 'kernel')}, whose times are not in the trace"
            return f"{NOTHING}: {lost}: record with ProfilerActivity.CUDA, one profiler at a time"
        if calls:
            return f"{NOTHING}: {counted(calls, 'CUDA call')} and no launch; record while the GPU works"
        return (
            f"{NOTHING}: the trace holds the host alone. The program did not use the GPU, or "
            "activities=[ProfilerActivity.CUDA] was left out"
        )
    if asked and not any("cuda" in kind.lower() for kind in asked):
        kinds = ", ".join(map(quoted, asked[:8]))
        return f"{NOTHING}: CUDA was not traced, only {kinds}: nsys profile --trace=cuda,nvtx"
    if launches:
        lost = f"the program launched {counted(launches, 'kernel')}, but what ran on the GPU is not in the file"
        return f"{NOTHING}: {lost}: the recorder could not trace the device, or lost its buffers"
    if calls:
        return f"{NOTHING}: {counted(calls, 'CUDA call')} and no launch; record while the GPU works"
    if asked:
        late = f" (it was to start by {quoted(timeline.recorder.trigger)})" if timeline.recorder.trigger else ""
        return f"{NOTHING}: CUDA was traced, and the program made no CUDA call while it was recorded{late}"
    return f"{NOTHING}, nor any CUDA call: none was made, or CUDA was not traced (nsys profile --trace=cuda,nvtx)"


def notes(timeline: Timeline) -> list[str]:
    """The recording's own words, the tables it lacks, and the host side; untrusted names are quoted."""
    out = []
    if timeline.recorder.said:
        out.append("the recording says: " + "; ".join(_long(text) for text in timeline.recorder.said))
    if timeline.coverage.missing:
        out.append(f"the export has no table {', '.join(timeline.coverage.missing)}")
    for what, found in (("CUDA calls", timeline.calls), ("operators", timeline.operators), ("ranges", timeline.ranges)):
        if len(found):
            out.append(f"the host: {len(found):,} {what}, most time in {', '.join(_longest(timeline, found))}")
    if timeline.recorder.system:
        parts = [f"{quoted(name)} {n:,}x {ns / 1e6:,.1f} ms" for name, n, ns in timeline.recorder.system]
        out.append(f"the host: calls of the system, most time in {', '.join(parts)}")
    return out


def _long(text: str) -> str:
    plain = text.replace("`", "'").replace('"', "'")
    return f'"{plain[:197]}..."' if len(plain) > 200 else f'"{plain}"'


def _launches(timeline: Timeline) -> int:
    names, counts = np.unique(timeline.calls.name, return_counts=True)
    return sum(int(n) for i, n in zip(names, counts, strict=True) if "Launch" in timeline.names[int(i)])


def _longest(timeline: Timeline, found: Calls | Spans) -> list[str]:
    """The names that take the most time: with how often and how long, nested ones counted in full."""
    which, index = distinct(found.name)
    took = np.bincount(index, weights=found.end - found.start, minlength=len(which))
    count = np.bincount(index, minlength=len(which))
    longest = np.argsort(-took, kind="stable")[:SHOWN].tolist()
    return [f"{quoted(timeline.names[int(which[i])])} {count[i]:,}x {took[i] / 1e6:,.1f} ms" for i in longest]
