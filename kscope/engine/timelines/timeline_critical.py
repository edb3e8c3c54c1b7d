"""The critical path as figures."""

from __future__ import annotations

import numpy as np

from kscope.features.timeline.facts import TimelineView
from kscope.features.timeline.gaps.critical_path import KINDS, kernels, on_host
from kscope.model.contract.timeline_figures import CriticalPart, CriticalPathFigures
from kscope.model.errors import one_line

PARTS, PIECES = 12, 300  # that are listed: as many as people read, and as a page draws


def critical(view: TimelineView) -> CriticalPathFigures | None:
    path = view.critical
    if path is None or not len(path.start):
        return None
    whole = int(path.end[-1] - path.start[0])
    named = [("gpu", name, ns) for name, ns in kernels(view.facts, path)]
    named += [("host", name, ns) for name, ns in on_host(view.facts, path)]
    named += [(what, "", path.time(what)) for what in ("between", "launch") if path.time(what)]
    named.sort(key=lambda one: -one[2])
    longest = np.sort(np.argsort(path.start - path.end, kind="stable")[:PIECES])
    low = view.facts.window[0]
    gpu, between, launch, host = (round(100 * path.time(kind) / max(whole, 1), 3) for kind in KINDS)
    return CriticalPathFigures(
        us=round(whole / 1e3, 3), gpu_pct=gpu, between_pct=between, launch_pct=launch, host_pct=host,
        parts=[CriticalPart(what=w, name=one_line(n)[:200], us=round(ns / 1e3, 3)) for w, n, ns in named[:PARTS]],
        pieces=[
            (round((int(path.start[i]) - low) / 1e3, 3), round((int(path.end[i]) - low) / 1e3, 3),
             KINDS[int(path.kind[i])])
            for i in longest.tolist()
        ],
        events=path.events, events_unknown=path.unknown,
    )  # fmt: skip
